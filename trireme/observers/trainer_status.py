"""Progress of a TrainJob, in its own status, which Trainer's clients and dashboards show.

Trainer has the field ``status.trainerStatus`` since 2.2, and fills it, behind a feature gate, with
what programs report themselves. Whoever follows a job knows it from what any program prints.
https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainjob_types.go
"""

import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

from trireme.errors import TriremeError
from trireme.frameworks import kind_of
from trireme.frameworks.kinds import TRAINJOB
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden
from trireme.observers.base import Job, Observer
from trireme.observers.progress import Meter
from trireme.process.background import Background
from trireme.progress import Progress

EVERY = 10.0  # seconds between two reports


class TrainerStatus(Observer):
    """Tells the progress of a job that is a TrainJob; of another job it tells none."""

    def __init__(self, cluster: Cluster, manifest: dict[str, Any], meter: Meter) -> None:
        """Starts with nothing told; ``meter``, an observer too, knows the progress."""
        self._cluster, metadata = cluster, manifest["metadata"]
        namespace = metadata.get("namespace", cluster.namespace)
        self._path = TRAINJOB.path(namespace, metadata["name"], "status")
        self._is_taken = kind_of(manifest) == TRAINJOB
        self._meter = meter
        self._told: Progress | None = None
        self._at = 0.0
        self._telling: Background[None] | None = None

    def tick(self, job: Job) -> None:
        """Tells how far the job is, if that is new, known and not too soon; waits for nothing."""
        if self._telling and not self._telling.is_done:
            return
        progress = self._meter.progress
        if progress and progress != self._told and time.monotonic() >= self._at + EVERY:
            self._telling = Background(partial(self._tell, progress))

    def end(self, failure: BaseException | None) -> None:
        """Tells that it has come to its end, where it has."""
        if failure:
            return
        if self._telling:
            self._telling.wait()
        self._tell(Progress(1.0, "", 0.0))

    def _tell(self, progress: Progress) -> None:
        if not self._is_taken or progress.share is None:
            return
        status = {
            "progressPercentage": int(100 * progress.share),
            "estimatedRemainingSeconds": None if progress.left is None else int(progress.left),
            "lastUpdatedTime": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        try:
            body = {"status": {"trainerStatus": status}}
            self._cluster.request("PATCH", TRAINJOB, self._path, body=body, patience=0.0)
            self._told = progress
        except Forbidden:
            self._is_taken = False
        except TriremeError:
            pass  # it is away, or gone and made anew
        self._at = time.monotonic()
