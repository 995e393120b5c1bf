"""Upload pipelines to Kubeflow Pipelines: each content once, as a version of its pipeline."""

import hashlib
import importlib.metadata
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trireme.code.command import git
from trireme.kubernetes.errors import AlreadyThere, NotFound
from trireme.pipeline.pipeline import Pipeline
from trireme.process.extras import DISTRIBUTION
from trireme.targets import base
from trireme.targets.kubeflow import compiling
from trireme.targets.kubeflow.connection import Connection

SOURCE_TREE = Path(__file__).resolve().parents[3]
"""Where Trireme's own source is, or the packages that it is installed among."""

OWN = ["components", "pipelines", "trireme"]
"""What of it makes a pipeline."""

COMMIT_LETTERS, CONTENT_LETTERS = 8, 12  # letters of each id in the name of a version


@dataclass(frozen=True)
class Version(base.Version):
    """A version of a pipeline on the server; one to be uploaded has no id."""

    name: str
    id: str
    pipeline_id: str


def upload(connection: Connection, pipeline: Pipeline) -> Version:
    """Uploads a pipeline, unless the server has the same content already."""
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        file = compiling.write(pipeline, Path(directory))
        content = _content(file)
        pipeline_id = _pipeline(connection, pipeline)
        version = _find(connection, pipeline_id, content)
        is_new = version is None
        if version is None:
            version = _create(connection, pipeline, pipeline_id, file, content)
    return _version(connection, version, is_new=is_new)


def preview(connection: Connection, pipeline: Pipeline) -> Version:
    """Returns the version that ``upload`` would return, with no id where it has to be uploaded."""
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        content = _content(compiling.write(pipeline, Path(directory)))
    pipeline_id = find_pipeline(connection, pipeline.name)
    if version := _find(connection, pipeline_id, content) if pipeline_id else None:
        return _version(connection, version, is_new=False)
    return Version(True, {}, _name(*_commit(pipeline), content), "", pipeline_id)


def find_version(connection: Connection, pipeline_id: str, name: str) -> str:
    """Returns the id of a version; empty if there is none of that name."""
    versions = _versions(connection, pipeline_id, "EQUALS", name)
    return str(versions[0].pipeline_version_id) if versions else ""


def find_pipeline(connection: Connection, name: str) -> str:
    """Returns the id of a pipeline; empty if there is none of that name."""
    try:
        pipeline = connection.ask(
            "pipelines.pipeline_service_get_pipeline_by_name",
            name=name,
            **connection.in_namespace(),
        )
    except NotFound:
        return ""
    return str(pipeline.pipeline_id)


def _content(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:CONTENT_LETTERS]


def _version(connection: Connection, source: Any, *, is_new: bool) -> Version:
    pipeline_id, version_id = source.pipeline_id, source.pipeline_version_id
    page = connection.page(f"/pipelines/details/{pipeline_id}/version/{version_id}")
    facts = {"Version": source.name, "Id": version_id, "Page": page}
    return Version(is_new, facts, source.name, version_id, pipeline_id)


def _pipeline(connection: Connection, pipeline: Pipeline) -> str:
    """Returns the id of the server's pipeline of that name, made if it is not there."""
    if pipeline_id := find_pipeline(connection, pipeline.name):
        return pipeline_id
    body = {
        "name": pipeline.name,
        "display_name": pipeline.display_name,
        "description": pipeline.graph.description,
        "tags": {"made-by": "trireme"},
    }
    try:
        created = connection.ask(
            "pipelines.pipeline_service_create_pipeline", pipeline=body | connection.in_namespace()
        )
        return str(created.pipeline_id)
    except AlreadyThere:  # since a moment ago, or by a request whose answer was lost
        return find_pipeline(connection, pipeline.name)


def _find(connection: Connection, pipeline_id: str, content: str) -> Any:
    """Returns the newest version with a content, or None."""
    versions = _versions(connection, pipeline_id, "IS_SUBSTRING", f"-{content}")
    return next((version for version in versions if version.name.endswith(f"-{content}")), None)


def _versions(connection: Connection, pipeline_id: str, operation: str, name: str) -> list[Any]:
    """Returns the versions of a name, the newest first."""
    predicate = {"operation": operation, "key": "name", "string_value": name}
    return connection.pages(
        "pipelines.pipeline_service_list_pipeline_versions",
        "pipeline_versions",
        pipeline_id=pipeline_id,
        sort_by="created_at desc",
        filter=json.dumps({"predicates": [predicate]}),
    )


def _create(
    connection: Connection, pipeline: Pipeline, pipeline_id: str, file: Path, content: str
) -> Any:
    commit, is_dirty = _commit(pipeline)
    tags = {"commit": commit, "dirty": str(is_dirty).lower(), "content": content}
    try:
        return connection.ask(
            "pipeline_uploads.upload_pipeline_version",
            uploadfile=str(file),
            pipelineid=pipeline_id,
            name=_name(commit, is_dirty, content),
            description=pipeline.graph.description,
            tags=json.dumps(tags),
        )
    except AlreadyThere:
        return _find(connection, pipeline_id, content)


def _name(commit: str, is_dirty: bool, content: str) -> str:
    return f"{commit[:COMMIT_LETTERS]}{'-dirty' if is_dirty else ''}-{content}"


def _commit(pipeline: Pipeline) -> tuple[str, bool]:
    """Returns the commit of a pipeline, or the release, and whether files have changed since."""
    tree, parts = (pipeline.source, ["."]) if pipeline.source else (SOURCE_TREE, OWN)
    head = git("rev-parse", "HEAD", at=tree)
    if head.returncode != 0 or not (pipeline.source or (tree / ".git").exists()):
        return importlib.metadata.version(DISTRIBUTION), False
    changes = git("status", "--porcelain", "--", *parts, at=tree)
    return head.stdout.strip(), bool(changes.stdout.strip())
