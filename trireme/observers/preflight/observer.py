"""The preflight of a job that runs: put before its programs, read from their lines."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.errors import Cancelled, JobFailed
from trireme.observers.base import Job
from trireme.observers.preflight import wrapping
from trireme.observers.preflight.report import PreflightLines

if TYPE_CHECKING:
    from trireme.job.job import TrainingJob


class Preflight(PreflightLines):
    """Has the replicas try each other before they train, and ends a job that must not."""

    def __init__(
        self,
        job: "TrainingJob",
        file: Path | None = None,
        *,
        patience: float = wrapping.PATIENCE,
        alone: bool = False,
    ) -> None:
        """Prepares it.

        Args:
            file: Where what becomes known is kept.
            patience: Seconds that each replica tries to reach the others.
            alone: Whether nothing else is to run.
        """
        super().__init__(file)
        self._job, self._patience, self._alone = job, patience, alone
        self._all_run_since: float | None = None  # by the monotonic clock

    def prepare(self, manifest: dict[str, Any]) -> None:
        """Puts it before the program of each replica, where the job asks for it and can have it."""
        if self._job.preflight and not wrapping.why_not(self._job):
            wrapping.wrap(manifest, self._job, self._patience, alone=self._alone)

    def tick(self, job: Job) -> None:
        """Ends a job whose replicas have found that it must not train, or cannot meet."""
        now = time.monotonic()
        if not job.all_run:
            self._all_run_since = None
        elif self._all_run_since is None:
            self._all_run_since = now
        self.report.check(now - (self._all_run_since or now))

    def explained(self, failure: JobFailed) -> JobFailed:
        """Returns why the job must not train, if that is known."""
        return failure if isinstance(failure, Cancelled) else self.report.failure or failure

    def end(self, failure: BaseException | None) -> None:
        """Records its figures."""
        if metrics := self.report.metrics():
            self.record(metrics=metrics)
