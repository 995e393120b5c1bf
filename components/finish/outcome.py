"""What came of a run, as its steps have recorded it."""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trireme.components.tracking import environment, journal, store, sync


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        status: FINISHED, FAILED or KILLED.
        against: One sentence on how the model does against the champion; empty where there is
            none.
        alias: What it is now: ``champion`` or ``challenger``.
    """

    pipeline: str
    run: str
    status: str
    reason: str = ""
    against: str = ""
    model: str = ""
    version: str = ""
    alias: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    page: str = ""

    @property
    def sentence(self) -> str:
        """All of it that a person wants to know first."""
        registered = f"{self.model} version {self.version} is {self.alias}" if self.model else ""
        said = "; ".join(filter(None, [registered, self.reason, self.against]))
        return (
            f"{self.pipeline} {self.status}: {said}" if said else f"{self.pipeline} {self.status}"
        )

    @property
    def message(self) -> dict[str, Any]:
        """It as JSON; ``text`` is what chats such as Slack's show."""
        return {"text": f"{self.sentence} {self.page}".strip()} | asdict(self)


def read(workspace: Path, pipeline: str, run: str, status: str, message: str) -> Outcome:
    """Returns what came of a run.

    Args:
        message: What kfp says of a failure, for where no step has said why.
    """
    said: dict[str, Any] = {}
    metrics: dict[str, float] = {}
    for record in journal.read_all(workspace):
        error = record.get("error", {})
        said |= record.get("tags", {}) | (error if error.get("is_fatal") else {})
        metrics |= record.get("headline", {})
    failed = status != "FINISHED"
    page = _page()  # which is there when all that the steps before have recorded is in MLflow
    registered = journal.registered(workspace)
    late = registered.pop("late", "")
    return Outcome(
        pipeline=pipeline,
        run=run,
        status=status,
        reason=said.get("message", message)
        if failed
        else said.get("verdict", said.get("gate", "")),
        against="" if failed else late or said.get("champion", ""),
        metrics=metrics,
        page=page,
        **registered,
    )


def _page() -> str:
    try:
        found = environment.variables()
        if "MLFLOW_RUN_ID" not in found:
            return ""
        uri = os.environ.get("MLFLOW_TRACKING_URI") or found.get("MLFLOW_TRACKING_URI", "")
        run = sync.pipeline_run()
    except Exception:  # whatever MLflow says is no reason to tell nobody
        return ""
    return store.page_of(uri, found.get("MLFLOW_EXPERIMENT_ID", ""), run)
