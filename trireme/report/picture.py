"""The picture of a run, wherever what it shows has been recorded."""

import json
import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from trireme.errors import TriremeError
from trireme.kubernetes.amounts import Amounts, requests
from trireme.manifests.roles import roles
from trireme.observers.timeline import Life
from trireme.own_pipelines import PIPELINES

if TYPE_CHECKING:
    from trireme.pipeline.pipeline import Pipeline

LOST = "lost"
"""The state of a run here that was killed with ``kill -9``; nobody has seen when."""

ENDED = ("FINISHED", "FAILED", "KILLED", "skipped", LOST)
"""The states of what has ended."""

MODEL = "Report on the model"
"""What links call the report on the model."""

_STATES = {"RUNNING": "running", "SCHEDULED": "pending"}


@dataclass
class Curve:
    """The values of a metric, in order; ``across`` is what ``at`` counts."""

    at: list[float]
    values: list[float]
    across: str = "step"


@dataclass
class StepPicture:
    """A step of a run; empty is what is not known of it.

    Attributes:
        began: In seconds since the epoch.
        ended: Likewise; None also while it is under way.
        error: Why it failed, in a sentence.
        last_lines: What its program, or its replica that failed, has printed last.
        advice: What to change in its training job, in lines.
        replicas: Those of its training job, by name.
        told: Curves of what was read of its program, some of which may be those of ``curves``.
        requested: What each replica has asked for, by role in lower case.
        preflight: What its replicas have found before they trained, see
            ``trireme.observers.preflight.report``.
    """

    name: str
    state: str = ""
    began: float | None = None
    ended: float | None = None
    result: str = ""
    error: str = ""
    last_lines: str = ""
    advice: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    told: dict[str, Curve] = field(default_factory=dict)
    replicas: dict[str, Life] = field(default_factory=dict)
    requested: dict[str, Amounts] = field(default_factory=dict)
    preflight: dict[str, Any] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        """Whether it ended so by itself; one that was cancelled has an error as well."""
        return self.state == "FAILED" or bool(self.error and self.state not in ("KILLED", LOST))


@dataclass
class Picture:
    """A run.

    Attributes:
        made: When the picture was made, in seconds since the epoch.
        tags: Where the run came from, as in ``git.commit``, and what has come of it.
        metrics: Those of the whole run.
        notes: What is not in the picture, and why.
        params: The parameters of its pipeline.
        defaults: Their defaults; None where they are not known.
        links: Other pages on it, by what they are.
        commands: What a person may do with it, by what that is.
    """

    name: str
    made: float
    state: str = ""
    began: float | None = None
    ended: float | None = None
    message: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    steps: dict[str, StepPicture] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    params: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str] | None = None
    links: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)

    @property
    def is_under_way(self) -> bool:
        """Whether it has not ended."""
        return self.state not in ENDED

    def add(self, steps: Iterable[StepPicture]) -> None:
        """Adds steps, or to steps what is not known of them yet."""
        for step in steps:
            existing = self.steps.setdefault(step.name, step)
            for attribute in fields(existing):
                value, other = getattr(existing, attribute.name), getattr(step, attribute.name)
                if isinstance(value, dict):
                    setattr(existing, attribute.name, {**other, **value})
                elif value in ("", None):
                    setattr(existing, attribute.name, other)

    def close(self) -> None:
        """Gives all that has ended its end, and the steps their order; to be called at the end."""
        steps = self.steps.values()
        begun = [step.began for step in steps if step.began]
        self.began = min([*begun, *([self.began] if self.began else [])], default=self.made)
        moments = [*begun, *(step.ended for step in steps if step.ended)]
        if self.is_under_way:
            self.ended = None
        elif self.ended is None or self.state == LOST:
            # A program can write to the file that replicas are read from.
            late = [moment for step in steps for moment in _moments(step) if moment <= self.made]
            self.ended = max([*moments, *late], default=self.began)
        else:
            self.ended = max([self.ended, *moments])
        for step in self.steps.values():
            if step.state not in ENDED and not self.is_under_way:  # nobody has seen its end
                step.state = self.state
                step.ended = step.ended or self.ended
            if step.began and step.ended is None and step.state in ENDED:
                step.ended = min(max([step.began, *_moments(step)]), self.until)
        order = sorted(self.steps.values(), key=lambda step: step.began or float("inf"))
        self.steps = {step.name: step for step in order}

    @property
    def until(self) -> float:
        """When it ended; now, where it has not."""
        return self.made if self.ended is None else self.ended

    @property
    def failed(self) -> list[StepPicture]:
        """Its steps that failed, the first to do so first."""
        failed = [step for step in self.steps.values() if step.has_failed]
        return sorted(failed, key=lambda step: step.ended or float("inf"))


def describe_given(picture: Picture, pipeline: "Pipeline", arguments: Mapping[str, Any]) -> None:
    """Adds to the picture of a run what it was given."""
    picture.tags = {"pipeline": pipeline.name} | picture.tags
    picture.params = {name: _text(value) for name, value in arguments.items()}
    picture.defaults = {
        name: _text(parameter.default) for name, parameter in pipeline.parameters.items()
    }


def commands(
    name: str, state: str, tags: Mapping[str, str], target: str = "", recorded: str | None = None
) -> dict[str, str]:
    """Returns what a person may do with a run that has ended.

    Args:
        name: What commands know it by.
        target: The target where it ran, if that is not this machine.
        recorded: What MLflow knows it by, if that is something else; empty where it is not known.
    """
    recorded = name if recorded is None else recorded
    if state in ("FAILED", "KILLED", LOST):
        where = f" --target {target}" if target else ""
        return {"Resume with": f"trireme resume {shlex.quote(name)}{where}"}
    is_ours = tags.get("pipeline") in PIPELINES
    is_whole = {"git.commit", "dataset.fingerprint"} <= tags.keys()
    if state == "FINISHED" and is_ours and is_whole and recorded:
        return {"Reproduce with": f"trireme reproduce {shlex.quote(recorded)}"}
    return {}


def state_of(status: str) -> str:
    """Returns what a status of MLflow is called here."""
    return _STATES.get(status, status)


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns the metrics that are numbers, which a program may not have logged."""
    return {
        name: float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def requested_by(manifest: Mapping[str, Any]) -> dict[str, Amounts]:
    """Returns what each replica of a job has asked for, by role; nothing where it is no job."""
    try:
        return {role.name.lower(): requests(role.pod) for role in roles(manifest)}
    except (TriremeError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return {}  # a program can write to the file that it is read from


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moments(step: StepPicture) -> list[float]:
    return [
        moment
        for life in step.replicas.values()
        for span in life.spans
        for moment in (span.began, span.ended)
        if moment is not None
    ]
