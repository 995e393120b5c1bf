"""kfp's placeholders in constants, commands and arguments.

What they are: https://www.kubeflow.org/docs/components/pipelines/user-guides/components/.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from trireme.pipelines.targets.argo.expressions import Constant, Value, name_value

WORKSPACE = "/kfp-workspace"
"""Where every step finds the run workspace; the name is kfp's."""

ARTIFACTS = f"{WORKSPACE}/artifacts"
"""Where the run's artifacts are."""

DIRECTORY = "artifact-directory"
"""The input of a template in a loop that keeps the files of its rounds apart."""

IN_LOOP = f"{{{{inputs.parameters.{DIRECTORY}}}}}"

_NAMES = {
    ".pipeline_job_name": "workflow.name",
    ".pipeline_job_resource_name": "workflow.name",
    ".pipeline_job_uuid": "workflow.uid",
    ".pipeline_job_create_time_utc": "workflow.creationTimestamp.RFC3339",
    ".pipeline_job_schedule_time_utc": "workflow.creationTimestamp.RFC3339",
    ".pipeline_task_uuid": "pod.name",
}
"""What Argo calls what has a name of its own."""

_PLACEHOLDER = re.compile(r"\{\{\$(.*?)\}\}", re.DOTALL)
_KEYED = re.compile(
    r"\.(inputs|outputs)\.(parameters|artifacts)\['{1,2}(.+?)'{1,2}\]"
    r"(?:\.(path|uri|output_file|metadata))?(?:\['{1,2}(.+?)'{1,2}\])?"
)


class Keyed(NamedTuple):
    """A placeholder such as ``{{$.inputs.artifacts['model'].metadata['framework']}}``."""

    side: str
    kind: str
    key: str
    attribute: str
    item: str


def keyed(inside: str) -> Keyed | None:
    """Returns what the inside of a placeholder asks for, if it is of an input or an output."""
    match = _KEYED.fullmatch(inside)
    return Keyed(*(group or "" for group in match.groups())) if match else None


def everywhere(inside: str, task: str) -> Value | None:
    """Returns what the inside of a placeholder stands for, if no inputs and outputs matter."""
    if inside in _NAMES:
        return name_value(_NAMES[inside])
    known = {".workspace_path": WORKSPACE, ".pipeline_root": ARTIFACTS, ".pipeline_task_name": task}
    return Constant(value=known[inside]) if inside in known else None


def pieces(text: str) -> list[tuple[bool, str]]:
    """Returns the pieces of a text: whether each is a placeholder, and the text or its inside."""
    closed, end, rest = text.rpartition("}}")  # or each that is not closed is looked for to the end
    parts = _PLACEHOLDER.split(closed + end)
    parts[-1] += rest
    return [(bool(index % 2), part) for index, part in enumerate(parts) if part or index % 2]


def words(text: str, is_given: Callable[[str], bool]) -> list[str]:
    """Returns the words of a command line, several or none, that a word of kfp's stands for."""
    if text.startswith(('{"Concat": ', '{"IfPresent": ')):
        return _words(json.loads(text), is_given)
    return [text]


def _words(structure: Any, is_given: Callable[[str], bool]) -> list[str]:
    if isinstance(structure, str):
        return [structure]
    if isinstance(structure, list):
        return [word for each in structure for word in _words(each, is_given)]
    if "Concat" in structure:
        return ["".join(_words(structure["Concat"], is_given))]
    choice = structure["IfPresent"]
    return _words(choice.get("Then" if is_given(choice["InputName"]) else "Else", []), is_given)
