"""The JSON Schema of all answers."""

from typing import Any

from pydantic import TypeAdapter

from trireme.answers import (
    catalogs,
    comparisons,
    explanations,
    jobs,
    plans,
    problem,
    proposals,
    runs,
)
from trireme.answers.answer import Part

ANSWERS: dict[str, type[Part]] = {
    "run-list": runs.RunList,
    "run-status": runs.RunStatus,
    "job-list": jobs.JobList,
    "job-status": jobs.JobStatus,
    "job-use": jobs.JobUse,
    "explanation": explanations.Explanation,
    "plan": plans.RunPlan,
    "preflight": plans.PreflightResult,
    "diagnosis": plans.Diagnosis,
    "pipeline-list": catalogs.PipelineList,
    "model-list": catalogs.ModelList,
    "schedule-list": catalogs.ScheduleList,
    "saved-list": catalogs.SavedList,
    "pruned-list": catalogs.PrunedList,
    "comparison": comparisons.RunComparison,
    "strategy-list": comparisons.StrategyList,
    "advice": comparisons.JobAdvice,
    "lines": proposals.Lines,
    "proposal": proposals.Proposal,
    "error": problem.Problem,
    "step-line": runs.StepLine,
    "replica-line": jobs.ReplicaLine,
}
"""By their kind; lines of logs, which have none, by what they are of."""


def schema() -> dict[str, Any]:
    """Returns the schema of everything that ``-o json`` writes: each answer is one of its kinds."""
    inputs = [(kind, "serialization", TypeAdapter(answer)) for kind, answer in ANSWERS.items()]
    places, made = TypeAdapter.json_schemas(
        inputs,  # type: ignore[arg-type]
        title="Answers of trireme, version 1",
    )
    every = [places[kind, "serialization"] for kind in ANSWERS]
    _in_lines(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": made.pop("title"),
        "anyOf": every,
        **made,
    }


def _in_lines(schema: Any) -> None:
    """Makes each description one line."""
    for value in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(value, dict | list):
            _in_lines(value)
    if isinstance(schema, dict) and isinstance(schema.get("description"), str):
        schema["description"] = " ".join(schema["description"].split())
