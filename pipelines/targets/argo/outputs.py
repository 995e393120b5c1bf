"""What a task leaves for others: where Argo keeps it, and how it is got from there."""

from collections.abc import Callable
from typing import Any

from trireme.pipelines.targets.argo.expressions import Value, encoded_in, member, native, output

Output = Callable[[bool], Value]
"""Returns an output's value; told that the task may have none, one that is null then."""

EXECUTOR_OUTPUT = "executor-output"
"""The output parameter that is the file that kfp's executor writes."""


def of_dag(task: str, name: str) -> Output:
    """Returns an output of a task that consists of others, whose outputs are JSON already."""

    def value(guarded: bool) -> Value:
        text = output(task, name, guarded=guarded)
        return encoded_in(f"({text} ?? 'null')" if guarded else text)

    return value


def of_executor(task: str, key: str, *, may_be_file: bool, kind: str) -> Output:
    """Returns an output parameter of a step that kfp's executor runs.

    Args:
        may_be_file: Whether the step may have written it to a file of its own.
    """

    def value(guarded: bool) -> Value:
        values = member(_executor_output(task, guarded), "parameterValues")
        found = member(values, key, guarded=guarded or may_be_file)
        if may_be_file:
            found = f"({found} ?? {of_file(task, key, kind)(guarded).native})"
        return Value(found)

    return value


def of_file(task: str, key: str, kind: str) -> Output:
    """Returns an output parameter that a step writes to a file: text, or JSON of its type."""

    def value(guarded: bool) -> Value:
        text = output(task, key, guarded=guarded)
        if kind == "STRING":
            return Value(text)
        text = f"trim({text} ?? 'null')" if guarded else f"trim({text})"
        return Value(f"fromJSON(lower({text}))" if kind == "BOOLEAN" else f"fromJSON({text})")

    return value


def artifact_of_executor(task: str, key: str, schema: dict[str, Any]) -> Output:
    """Returns an output artifact of a step that kfp's executor runs, a list as kfp has it.

    The executor says everything of it but the type.
    """

    def value(guarded: bool) -> Value:
        artifacts = member(_executor_output(task, guarded), "artifacts")
        found = f"{member(artifacts, key, guarded=guarded)}{'?' if guarded else ''}.artifacts"
        if guarded:
            found = f"({found} ?? [])"
        fields = {name: Value(f"#.{name}") for name in ("name", "uri", "metadata")}
        return Value(f"map({found}, {native(fields | {'type': schema})})")

    return value


def constant(value: Value) -> Output:
    """Returns an output that does not depend on whether its task has run."""
    return lambda guarded: value


def _executor_output(task: str, guarded: bool) -> str:
    text = output(task, EXECUTOR_OUTPUT, guarded=guarded)
    return f"fromJSON({text} ?? '{{}}')" if guarded else f"fromJSON({text})"
