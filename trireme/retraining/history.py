"""The history of trainings, as MLflow tells it: the champion, and what has tried to beat it."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from trireme.files.home import TRACKER
from trireme.files.workspace import written_whole
from trireme.tracking import environment, registry
from trireme.tracking.registry import Champion

TAG = "retraining"
"""The tag of a run that retrains, with the name of the registered model."""

JUDGED = "retraining.judged"
"""The tag of such a run that holds what, besides the training, decided on its model."""

ATTEMPTS = 100  # of the latest runs that are looked at


class Attempt(NamedTuple):
    """A run since the champion's whose model did not become the champion."""

    name: str
    tags: dict[str, str]

    @property
    def was_judged(self) -> bool:
        """Whether its model was measured, and compared with the champion if there was one."""
        gate, against = self.tags.get("gate", ""), self.tags.get("champion", "")
        unknown = gate.startswith("not evaluated") or "cannot be compared with" in against
        return bool(gate) and not unknown

    @property
    def why(self) -> str:
        """Why it did not."""
        return self.tags.get("champion") or self.tags["gate"]


class History(NamedTuple):
    """What has been trained before."""

    champion: Champion | None
    attempts: list[Attempt]


def folder(workspace: Path) -> Path:
    """Returns where ``download`` puts it in a run workspace."""
    return workspace / "before"


def load(name: str, workspace: Path, trained: bool) -> History:
    """Returns what has been trained before, for a step.

    Args:
        workspace: The run workspace, where ``trireme run`` has brought it before the step, and
            where on a cluster the step brings it itself.
    """
    directory = folder(workspace)
    variables = environment.variables()  # which are there when the rest is
    if TRACKER not in os.environ and "MLFLOW_TRACKING_URI" in os.environ:
        download(name, directory, trained, variables.get("MLFLOW_EXPERIMENT_ID", ""))
    if not directory.exists():
        return History(None, [])  # where nothing is tracked
    attempts = json.loads((directory / "attempts.json").read_text())
    return History(registry.load_champion(directory), [Attempt(*fields) for fields in attempts])


def download(name: str, directory: Path, trained: bool, experiment_id: str) -> None:
    """Brings what has been trained before to a directory."""
    from trireme.tracking import lineage

    version = registry.version_at(name, registry.CHAMPION)
    with written_whole(directory) as partial:
        if version:
            registry.describe(version, partial, trained)
        since = version.creation_timestamp if version else 0
        # Only those that came to a verdict: nights that found nothing to train would hide them.
        runs = lineage.ended_since(experiment_id, since, {TAG: name}, "gate", ATTEMPTS)
        attempts = [Attempt(run.info.run_name, run.data.tags) for run in runs]
        judged = [attempt for attempt in attempts if attempt.was_judged]
        (partial / "attempts.json").write_text(json.dumps(judged))
