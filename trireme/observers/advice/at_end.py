"""What is advised at the end of a training: by what has been counted anyway."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from trireme.cost import prices
from trireme.errors import Cancelled, JobFailed, TriremeError
from trireme.job.job import TrainingJob
from trireme.kubernetes.amounts import is_gpu, limits, requests
from trireme.manifests.roles import roles
from trireme.observers import timeline
from trireme.observers.advice.measured import Asked, Measured, Use
from trireme.observers.advice.suggestions import Suggestion, suggestions
from trireme.observers.timeline import Life
from trireme.text.say import say

Idle = Callable[[], tuple[float, float]]


@contextmanager
def advising(
    about: Measured,
    logs: Path,
    on_advice: Callable[[Sequence[Suggestion]], None],
    idle: Idle = lambda: (0.0, 0.0),
) -> Iterator[None]:
    """Passes on what to change in a job that is run meanwhile, if anything is.

    Args:
        about: What is known of the job beforehand.
        logs: Where the time line of its replicas is kept.
        on_advice: Called at its end with what to change, if anything is.
        idle: What tells for how long this machine's processors have been idle, and there.
    """
    before = idle()
    try:
        yield
    except JobFailed as error:
        if not isinstance(error, Cancelled):
            _pass_on(replace(about, failure=f"{error}\n{error.detail}"), on_advice)
        raise
    after = idle()
    total = after[1] - before[1]
    share = (after[0] - before[0]) / total if total else None
    uses = {name: _use(life) for name, life in timeline.read(logs / timeline.NAME).items()}
    _pass_on(replace(about, replicas=uses, idle=share), on_advice)


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
    asked = _asked_by(manifest, job)
    asks = any(is_gpu(name) for each in asked.values() for name in each.requests)
    return Measured(
        {},
        asked,
        job.world_size,
        cores=cores,
        has_gpu=has_gpu or asks,
        args=tuple(job.args),
        place=place,
    )


def _asked_by(manifest: Mapping[str, Any], job: TrainingJob) -> dict[str, Asked]:
    """Returns what each replica of a job asks for, by role."""
    framework = job.plugin
    own = {name.lower(): replica.model_fields_set for name, replica in job.replicas.items()}
    trains = {name: role.trains for role in framework.roles for name in (role.name, role.title)}
    return {
        role.name.lower(): Asked(
            requests(role.pod),
            limits(role.pod),
            role.selector,
            role.count,
            trains.get(role.name, True),  # as all nodes of a TrainJob do
            own.get(role.name.lower(), ()),
        )
        for role in roles(manifest)
    }


def _pass_on(measured: Measured, on_advice: Callable[[Sequence[Suggestion]], None]) -> None:
    try:
        if found := suggestions(measured, prices.read()):
            on_advice(found)
    except TriremeError as error:  # a broken table of prices; the training has ended well
        say(f"warning: there is no advice: {error}")


def _use(life: Life) -> Use:
    return Use(life.ran, life.cpu, life.peak_memory)
