"""Batches for MLflow runs: as few calls as it takes, by names that MLflow accepts."""

import posixpath
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trireme.tracking.client import client

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlflow.entities import Metric

    from trireme.tracking.journal import Point

# What MLflow takes in one call: https://mlflow.org/docs/latest/api_reference/rest-api.html#log-batch
PAIRS = 50  # parameters, and as many tags: at most 1 MB with long ones
METRICS = 800  # at most 1,000 of all

PARAMETER_LIMIT = 6000  # characters of a parameter's value that MLflow keeps
NAME_LIMIT = 250  # characters of a name that MLflow takes

_UNUSUAL = re.compile(r"[^\w\-. :/]")  # what MLflow does not accept in a name


@dataclass
class _Waiting:
    params: dict[str, str] = field(default_factory=dict)
    metrics: "list[Metric]" = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)


class Batch:
    """Parameters, metrics and tags of runs that are sent together."""

    def __init__(self) -> None:
        """Begins with nothing."""
        self._waiting: dict[str, _Waiting] = {}

    @property
    def is_full(self) -> bool:
        """Whether a call for some run takes no more metrics."""
        return any(len(waiting.metrics) >= METRICS for waiting in self._waiting.values())

    def add(
        self,
        run_id: str,
        params: dict[str, Any] | None = None,
        metrics: dict[str, float] | None = None,
        tags: dict[str, str] | None = None,
        at: int | None = None,
    ) -> None:
        """Adds what a run gets, metrics at some milliseconds since 1970 or now."""
        from mlflow.entities import Metric

        at = at or int(time.time() * 1000)
        waiting = self._waiting.setdefault(run_id, _Waiting())
        for name, value in _named(params or {}).items():
            waiting.params[name] = str(value)[:PARAMETER_LIMIT]
        waiting.metrics += [
            Metric(name, value, at, 0) for name, value in _named(metrics or {}).items()
        ]
        waiting.tags |= _named(tags or {})

    def add_points(self, run_id: str, points: "Iterable[tuple[str, Point]]") -> None:
        """Adds metrics that a run gets, by name, each with its step and its time."""
        from mlflow.entities import Metric

        waiting = self._waiting.setdefault(run_id, _Waiting())
        waiting.metrics += [
            Metric(accepted(name), value, at, step) for name, (step, value, at) in points
        ]

    def send(self) -> None:
        """Sends it all."""
        from mlflow.entities import Param, RunTag

        for run_id, waiting in self._waiting.items():
            params = [Param(name, value) for name, value in waiting.params.items()]
            tags = [RunTag(name, value) for name, value in waiting.tags.items()]
            metrics = waiting.metrics
            while params or metrics or tags:
                client.log_batch(run_id, metrics[:METRICS], params[:PAIRS], tags[:PAIRS])
                metrics, params, tags = metrics[METRICS:], params[PAIRS:], tags[PAIRS:]
        self._waiting.clear()


def log(
    run_id: str,
    params: dict[str, Any] | None = None,
    metrics: dict[str, float] | None = None,
    tags: dict[str, str] | None = None,
) -> None:
    """Logs to an MLflow run now."""
    batch = Batch()
    batch.add(run_id, params, metrics, tags)
    batch.send()


def accepted(text: str) -> str:
    """Returns a name as MLflow accepts it; slashes have to make a path that stays inside."""
    plain = _UNUSUAL.sub("_", text)[:NAME_LIMIT]
    return posixpath.normpath(plain).strip("/.") or "_"


def _named(values: dict[str, Any]) -> dict[str, Any]:
    """Returns values by accepted names, with a number where two would have the same."""
    by_name = {name: value for name, value in values.items() if accepted(name) == name}
    for name in [name for name in values if name not in by_name]:
        plain, number = accepted(name), 1
        free_name = plain
        while free_name in by_name:
            number += 1
            free_name = f"{plain[: NAME_LIMIT - len(str(number)) - 1]}_{number}"
        by_name[free_name] = values[name]
    return by_name
