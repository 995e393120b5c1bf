"""The JSON Schema of all answers."""

from typing import Any, Union

from pydantic import TypeAdapter

from trireme.answers import (
    catalogs,
    comparisons,
    explanations,
    goodput,
    jobs,
    plans,
    problem,
    proposals,
    runs,
)
from trireme.answers.answer import Part

ANSWERS: tuple[type[Part], ...] = (
    runs.RunList,
    runs.RunStatus,
    jobs.JobList,
    jobs.JobStatus,
    jobs.JobUse,
    explanations.Explanation,
    plans.RunPlan,
    plans.ImageList,
    plans.PreflightResult,
    plans.Diagnosis,
    catalogs.PipelineList,
    catalogs.ModelList,
    catalogs.ScheduleList,
    catalogs.SavedList,
    catalogs.PrunedList,
    comparisons.RunComparison,
    goodput.GoodputSum,
    comparisons.StrategyList,
    comparisons.JobAdvice,
    proposals.Lines,
    proposals.Proposal,
    problem.Problem,
    runs.StepLine,
    jobs.ReplicaLine,
)


def schema() -> dict[str, Any]:
    """Returns the schema of everything that ``-o json`` writes: each answer is one of its kinds."""
    answers: Any = Union[ANSWERS]  # noqa: UP007 - of a tuple
    document = TypeAdapter(answers).json_schema(mode="serialization")
    _in_lines(document)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Answers of trireme, version 1",
        "anyOf": document.pop("anyOf"),
        **document,
    }


def _in_lines(schema: Any) -> None:
    """Makes each description one line."""
    for value in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(value, dict | list):
            _in_lines(value)
    if isinstance(schema, dict) and isinstance(schema.get("description"), str):
        schema["description"] = " ".join(schema["description"].split())
