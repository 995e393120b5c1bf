"""Advice at the end of a training: by what has been counted anyway."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trireme.cost import prices
from trireme.errors import Cancelled, JobFailed, TriremeError
from trireme.job.job import TrainingJob
from trireme.kubernetes.amounts import is_gpu, limits, requests
from trireme.manifests.roles import roles
from trireme.observers import goodput, timeline
from trireme.observers.advice import TAG
from trireme.observers.advice.measured import Asked, Measured, Use
from trireme.observers.advice.suggestions import suggestions
from trireme.observers.base import Observer
from trireme.observers.goodput import kept

Idle = Callable[[], tuple[float, float]]


class Advice(Observer):
    """Says at the end of a training what to change in its job, if anything is."""

    def __init__(
        self, about: Measured, logs: Path, idle: Idle = lambda: (0.0, 0.0), *, says: bool = True
    ) -> None:
        """Begins with the training.

        Args:
            about: What is known of the job beforehand.
            logs: Where ``Timeline`` and ``Goodput``, which come before this observer, keep files.
            idle: What tells for how long this machine's processors have been idle, and there.
            says: Whether it is said, and not only kept.
        """
        self._about, self._logs, self._idle, self._says = about, logs, idle, says
        self._before = idle()

    def end(self, failure: BaseException | None) -> None:
        """Finds out what to change."""
        about = replace(self._about, ledger=kept.read(self._logs / goodput.NAME))
        if isinstance(failure, JobFailed) and not isinstance(failure, Cancelled):
            measured = replace(about, failure=f"{failure}\n{failure.detail}")
        elif failure is None:
            idle, total = (
                now - before for now, before in zip(self._idle(), self._before, strict=True)
            )
            lives = timeline.read(self._logs / timeline.NAME)
            uses = {name: Use(life.ran, life.cpu, life.peak_memory) for name, life in lives.items()}
            share = idle / total if total else None
            measured = replace(about, replicas=uses, idle=share)
        else:
            return
        try:
            advice = [str(suggestion) for suggestion in suggestions(measured, prices.read())]
        except TriremeError as error:  # a broken table of prices; the training has ended well
            self.record(words=[f"warning: there is no advice: {error}"])
            return
        if advice:
            words = [f"advice: {suggestion}" for suggestion in advice] if self._says else []
            self.record(tags={TAG: "\n".join(advice)}, words=words)


def about(
    job: TrainingJob,
    manifest: Mapping[str, Any],
    *,
    place: str = "",
    has_gpu: bool = False,
    cores: int | None = None,
) -> Measured:
    """Returns what is known of a job beforehand.

    Args:
        manifest: What it has become.
        place: Before a field of the job, where the job is part of a pipeline.
        has_gpu: Whether this machine has a GPU, where it runs here.
        cores: The processors of this machine, likewise.
    """
    requested = _asked_by(manifest, job)
    asks = any(is_gpu(name) for role in requested.values() for name in role.requests)
    return Measured(
        {},
        requested,
        job.world_size,
        cores=cores,
        has_gpu=has_gpu or asks,
        args=tuple(job.args),
        place=place,
    )


def _asked_by(manifest: Mapping[str, Any], job: TrainingJob) -> dict[str, Asked]:
    """Returns what each replica of a job asks for, by role."""
    framework = job.plugin
    set_fields = {name.lower(): replica.model_fields_set for name, replica in job.replicas.items()}
    trains = {name: role.trains for role in framework.roles for name in (role.name, role.title)}
    return {
        role.name.lower(): Asked(
            requests(role.pod),
            limits(role.pod),
            role.selector,
            role.count,
            trains.get(role.name, True),  # as all nodes of a TrainJob do
            set_fields.get(role.name.lower(), ()),
        )
        for role in roles(manifest)
    }
