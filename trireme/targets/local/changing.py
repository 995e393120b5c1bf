"""Changes that a person may make to a run that is resumed: how its model is evaluated."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trireme.code import snapshot
from trireme.code import url as urls
from trireme.errors import InputError
from trireme.evaluation import options
from trireme.files.whole_file import write_whole
from trireme.graph.graph import Graph
from trireme.graph.model import Group, InputOf, Step
from trireme.models import naming
from trireme.pipeline.pipeline import Pipeline
from trireme.step_names import is_of
from trireme.targets.local.runs import LocalRun
from trireme.tracking import journal, registry

LATER = ("evaluation", "gate", "min_accuracy", "model_factory", "model_name")
"""Parameters that say how a trained model is evaluated and registered."""

BEFORE = "changed.json"
"""The values that parameters had before a run was resumed, in its directory."""


def changed(
    run: LocalRun, pipeline: Pipeline, arguments: dict[str, Any], pairs: Sequence[str]
) -> dict[str, Any]:
    """Returns the arguments with which a run goes on, given pairs ``name=value``.

    Raises:
        InputError: A step that is done would have been another one, or a value cannot be.
    """
    for name in (pair.partition("=")[0] for pair in pairs):
        if name not in LATER or name not in pipeline.parameters:
            known = ", ".join(name for name in LATER if name in pipeline.parameters)
            raise InputError(
                f"-p {name}: resume changes only what comes after training"
                f"{f' ({known})' if known else ''}; for another {name} start a new run"
            )
    values = pipeline.given([*pairs], None)
    values = {name: value for name, value in values.items() if value != arguments.get(name)}
    merged = arguments | values
    options.check(
        merged.get("min_accuracy", 0.0), merged.get("gate") or {}, merged.get("evaluation") or {}
    )
    naming.check(merged.get("model_factory") or "")
    registry.check_name(merged.get("model_name") or "any")
    done = {name for name, step in run.ended_at_all.items() if step["state"] == "FINISHED"}
    taking = {name: {*_taking(pipeline.graph, name)} for name in values}
    for name, steps in taking.items():
        if finished := next(
            (step for step in sorted(done) if any(is_of(step, s) for s in steps)), ""
        ):
            raise InputError(
                f"-p {name}: step {finished} of run {run.name} is done and would be another one; "
                "start a new run"
            )
    before = run.directory / BEFORE
    write_whole(before, json.dumps({name: arguments.get(name) for name in values} | _read(before)))
    for step in {step for steps in taking.values() for step in steps}:
        # MLflow changes no parameter: what the step was tried with stays, as a run that has failed.
        journal.run_path(run.workspace, step).unlink(missing_ok=True)
    return merged


def recorded(directory: Path, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the arguments that MLflow has of a run already, and tags of those changed since."""
    before = _read(directory / BEFORE)
    tags = {f"resumed.{name}": json.dumps(arguments.get(name)) for name in before}
    return arguments | before, tags


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _taking(graph: Graph, parameter: str) -> Iterator[str]:
    """Returns the names of the steps that a parameter of the pipeline makes others of."""

    def walk(group: Group, names: set[str], path: tuple[str, ...]) -> Iterator[str]:
        for task in group.tasks.values():
            inputs = {
                name
                for name, value in task.inputs.items()
                if isinstance(value.source, InputOf) and value.source.name in names
            }
            at = (*path, task.name)
            if isinstance(task.component, Group):
                yield from walk(task.component, inputs, at)
            elif isinstance(task.component, Step) and inputs - only_looked_at(task.component):
                yield graph.names[at]

    return walk(graph.root, {parameter}, ())


def only_looked_at(step: Step) -> set[str]:
    """Returns the inputs of a step that change nothing of what it makes."""
    return {"evaluation"} if step.is_of("dataset") or step.is_of("train") else set()


def mended(run: LocalRun, arguments: dict[str, Any]) -> str:
    """Brings a mended evaluation program to a run that has trained; returns a note about it.

    Of a folder that travelled as it was, that one file is taken as it is now, as nothing but the
    evaluation runs it; all other code stays that of the training.

    Raises:
        InputError: There is no such program.
    """
    program = (arguments.get("evaluation") or {}).get("entrypoint", "")
    state = {name: step["state"] for name, step in run.ended_at_all.items()}
    if not program or state.get("train") != "FINISHED" or state.get("evaluate") == "FINISHED":
        return ""
    url, revision = (arguments.get(f"code_{name}") or "" for name in ("url", "revision"))
    inside = Path(arguments.get("code_directory") or "", program)
    own_file = run.workspace / "code" / inside
    if snapshot.is_meant(url, revision):
        source_file = urls.directory(url) / inside
        if source_file.is_file() and own_file.parent.is_dir():
            content = source_file.read_bytes()
            if not own_file.is_file() or own_file.read_bytes() != content:
                _bring(source_file, own_file, content, run.workspace / options.MENDED)
                return f"{source_file} is run as it is now; all other code is that of the training"
    if not own_file.is_file():
        raise InputError(f"evaluation.entrypoint {program!r} does not exist in the code of the run")
    return ""


def _bring(source_file: Path, own_file: Path, content: bytes, note_file: Path) -> None:
    partial = own_file.with_name(f".{secrets.token_hex(8)}.partial")
    partial.write_bytes(content)
    partial.replace(own_file)
    about = {"file": str(source_file), "sha256": hashlib.sha256(content).hexdigest()}
    write_whole(note_file, json.dumps(about))
