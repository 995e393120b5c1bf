"""A picture of a run as one page of HTML, which needs no network and no JavaScript."""

import ast
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from markupsafe import Markup

from trireme.cost.table import in_words
from trireme.kubernetes.amounts import Amounts, is_gpu
from trireme.observers.goodput import ledger
from trireme.observers.preflight import report as preflight
from trireme.observers.timeline import QUEUED, STARTING, STATES, Life, by_number
from trireme.pages import template
from trireme.report import curves
from trireme.report.picture import Curve, Picture, StepPicture
from trireme.step_names import TRIAL, without_index
from trireme.text.units import in_words as bytes_in_words
from trireme.text.units import lasting

ROWS = 128  # replicas that the time line shows
LEAST = 0.002  # of the time line that a wait has to be to be shown
CHARTS = 24  # curves that are shown
LINES = 40  # of what a program printed last
CHARACTERS = 8_000  # of these

DAY = 86400
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, DAY)
"""Seconds that may lie between two lines of the time line; beyond, some days."""

FEWEST_TICKS = 4

_WORDS = {state: state for state in (*STATES, "failed")} | {
    "restarting": "waiting to be started again",
    "step": "a step",
}


class Bar(NamedTuple):
    """A part of a row: ``left`` and ``width`` in percent of the time line."""

    left: float
    width: float
    kind: str
    title: str


@dataclass(frozen=True)
class Row:
    """A step or a replica in the time line."""

    name: str
    bars: list[Bar]
    note: str
    is_replica: bool = False
    has_failed: bool = False


class Used(NamedTuple):
    """What the replicas of a role asked for, and what they used.

    Attributes:
        asked: In words, of CPU, memory and GPUs; empty where that is not known.
        used: Likewise, of CPU and memory.
        shares: The part of what was asked for that was used, where both are known.
    """

    step: str
    role: str
    replicas: int
    restarts: int
    asked: dict[str, str]
    used: dict[str, str]
    shares: dict[str, float]


class SpentTime(NamedTuple):
    """What the time of a training went to: its bars, and a row for each cause."""

    step: str
    words: str
    bars: list[Bar]
    headings: list[str]
    rows: list[tuple[str, list[str]]]


class Preflight(NamedTuple):
    """What the replicas of a step have found before they trained; ``rows`` are of some of them."""

    step: str
    problems: list[str]
    headings: list[str]
    rows: list[list[str]]
    left_out: int


class Chart(NamedTuple):
    """The curves of one metric, and the last value where it is one curve."""

    name: str
    last: str
    svg: Markup


class Charts(NamedTuple):
    """All charts.

    Attributes:
        key: The steps with the colour and the style of their lines, where there are several.
        more: How many further curves there are, and of how many further steps.
    """

    charts: list[Chart]
    key: list[tuple[str, int, str]]
    more: int
    more_steps: int


def render(picture: Picture, *, is_framed: bool = False) -> str:
    """Returns the page of a run; ``picture.close()`` has been called.

    Args:
        is_framed: It is shown within a page that lets no link be followed, as MLflow's and
            Kubeflow's do with artifacts.
    """
    rows, left_out = _rows(picture)
    every = _tick(picture.until - (picture.began or 0))
    return template(__package__, "page_of_a_run.html").render(
        picture=picture,
        about=_about(picture),
        is_framed=is_framed,
        changed=_changed(picture),
        failures=[(step, _end_of(step.last_lines)) for step in picture.failed],
        rows=rows,
        left_out=left_out,
        tick=100 * every / _length(picture),
        ticks=_tick_labels(picture, every),
        legend=_legend(rows),
        words=_WORDS | ledger.CAUSES,
        steps=list(picture.steps.values()),
        seconds=_seconds_of,
        has_memory=any("peak_memory_bytes" in step.metrics for step in picture.steps.values()),
        used=list(_used(picture)),
        preflights=[_preflight(step) for step in picture.steps.values() if step.preflight],
        advice=[
            (step, line) for step in picture.steps.values() for line in step.advice.splitlines()
        ],
        ledgers=list(_ledgers(picture)),
        curves=_charts(picture),
        cost=_cost_of(picture, picture.metrics),
        cost_of=lambda step: _cost_of(picture, step.metrics),
        bytes=bytes_in_words,
        lasting=lasting,
        said=_said,
        moment=moment,
    )


def moment(at: float | None) -> str:
    """Returns a moment in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC" if at else ""


def _about(picture: Picture) -> dict[str, str]:
    tags = picture.tags
    training = next(
        (step.params for step in picture.steps.values() if "world_size" in step.params), {}
    )
    about = {
        "Pipeline": tags.get("pipeline", ""),
        "Started": moment(picture.began),
        "Runs for" if picture.is_under_way else "Took": lasting(_length(picture)),
        "Program": _program(training),
        "Code": " at ".join(filter(None, map(tags.get, ("git.url", "git.commit")))),
        "Data": ", ".join(filter(None, map(tags.get, ("dataset.uri", "dataset.fingerprint")))),
        "Base model": tags.get("base_model.uri", ""),
        "Image": tags.get("image", ""),
        "Model": ", version ".join(filter(None, map(tags.get, ("model", "model.version")))),
        "Verdict": tags.get("verdict") or tags.get("gate", ""),
        "Cost": _cost_of(picture, picture.metrics),
        "Machine": ", Python ".join(filter(None, map(tags.get, ("cpu", "python")))),
    }
    return {name: value for name, value in about.items() if value}


def _program(training: dict[str, Any]) -> str:
    """Returns a training's program and its arguments, as they are typed."""
    args = training.get("args", "")
    if isinstance(args, str):  # as MLflow keeps a list
        try:
            args = ast.literal_eval(args)
        except (ValueError, SyntaxError):
            args = []
    words = map(str, args) if isinstance(args, list) else ()
    return " ".join([str(training.get("entrypoint", "")), *map(shlex.quote, words)]).strip()


def _changed(picture: Picture) -> dict[str, str]:
    """Returns the parameters that are not as their pipeline has them."""
    if picture.defaults is None:
        return {}
    return {
        name: value for name, value in picture.params.items() if value != picture.defaults.get(name)
    }


def _rows(picture: Picture) -> tuple[list[Row], int]:
    """Returns the rows of the time line, and how many replicas are not among them."""
    rows, left_out = [], 0
    trainings = sum(bool(step.replicas) for step in picture.steps.values())
    most = max(ROWS // max(trainings, 1), 2)
    for step in picture.steps.values():
        if step.began is None:
            continue
        rows.append(_step_row(picture, step))
        shown = _most_telling(step.replicas, most)
        left_out += len(step.replicas) - len(shown)
        rows += [_replica_row(picture, step, name) for name in shown]
    return rows, left_out


def _most_telling(replicas: dict[str, Life], most: int) -> list[str]:
    """Returns the names of some replicas: those that failed or were restarted, and the first."""
    names = sorted(replicas, key=by_number)
    if len(names) <= most:
        return names
    first = sorted(
        names, key=lambda name: (-len(replicas[name].failures), -replicas[name].restarts)
    )
    return sorted(first[:most], key=by_number)


def _step_row(picture: Picture, step: StepPicture) -> Row:
    assert step.began is not None
    kind = ("failed" if step.has_failed else "step") + (" whole" if step.replicas else "")
    ended = picture.until if step.ended is None else step.ended
    duration = lasting(ended - step.began)
    bar = _bar(picture, step.began, ended, kind, f"{step.name}: {step.state}, {duration}")
    return Row(step.name, [bar], duration, has_failed=step.has_failed)


def _replica_row(picture: Picture, step: StepPicture, name: str) -> Row:
    life = step.replicas[name]
    until = step.ended or picture.until
    bars = []
    for span in life.spans:
        ended = max(span.began, until) if span.ended is None else span.ended
        if span.state in (QUEUED, STARTING) and ended - span.began < LEAST * _length(picture):
            continue
        kind = f"{span.state} ended-badly" if span.failed else span.state
        lasted = lasting(ended - span.began)
        title = f"{name}: {_WORDS[span.state]}, {lasted}"
        title += f"; {span.failed}" if span.failed else ""
        bars.append(_bar(picture, span.began, ended, kind, title))
    notes = []
    if life.restarts or life.left_out:
        more = "at least " if life.left_out else ""
        notes.append(f"{more}{life.restarts} {'restart' if life.restarts == 1 else 'restarts'}")
    last = next((span for span in reversed(life.spans) if span.state == "running"), None)
    if last and last.failed:
        notes.append(last.failed)
    return Row(name, bars, ", ".join(notes), True, bool(last and last.failed))


def _bar(picture: Picture, began: float, ended: float, kind: str, title: str) -> Bar:
    scale, origin = 100 / _length(picture), picture.began or 0.0
    left = min(max((began - origin) * scale, 0.0), 100.0)
    right = min(max((ended - origin) * scale, left), 100.0)
    return Bar(left, right - left, kind, title)


def _length(picture: Picture) -> float:
    return max(picture.until - (picture.began or 0.0), 1e-3)


def _tick(seconds: float) -> float:
    """Returns how much time lies between two lines, of which there are a few."""
    fitting = [tick for tick in TICKS if seconds / tick >= FEWEST_TICKS]
    if not fitting:
        return max(seconds, 1e-3) / FEWEST_TICKS
    if fitting[-1] < DAY:
        return float(fitting[-1])
    return float(DAY * max(1, int(seconds / DAY / (2 * FEWEST_TICKS))))


def _tick_labels(picture: Picture, every: float) -> list[tuple[float, str]]:
    length = _length(picture)
    count = int(length / every) + 1
    # None where it would stand beyond the right end.
    return [
        (100 * number * every / length, lasting(number * every).replace(".0 s", " s"))
        for number in range(count)
        if number * every / length < 0.95
    ]


def _legend(rows: Sequence[Row]) -> list[str]:
    """Returns what kinds of bars there are."""
    kinds = {word for row in rows for bar in row.bars for word in bar.kind.split()}
    shown = [kind for kind in ("step", *STATES) if kind in kinds]
    shown += ["failed"] if kinds & {"failed", "ended-badly"} else []
    return shown if len(shown) > 1 else []


def _seconds_of(step: StepPicture, picture: Picture) -> str:
    if step.began is None:
        return ""
    return lasting((picture.until if step.ended is None else step.ended) - step.began)


def _used(picture: Picture) -> Iterator[Used]:
    """Yields what the replicas asked for and used, role by role."""
    for step in picture.steps.values():
        by_role: dict[str, dict[str, Life]] = defaultdict(dict)
        for name, life in step.replicas.items():
            by_role[name.rpartition("-")[0]][name] = life
        for role, lives in by_role.items():
            requested = step.requested.get(role, {})
            yield _used_by(step.name, role, lives, requested)


def _used_by(step: str, role: str, lives: dict[str, Life], requested: Amounts) -> Used:
    cpus = {name: life.cpu for name, life in lives.items() if life.cpu is not None}
    memory = {
        name: life.peak_memory for name, life in lives.items() if life.peak_memory is not None
    }
    cpu, most = float(requested.get("cpu", 0)), float(requested.get("memory", 0))
    amounts = {
        "cpu": f"{cpu:g}" if cpu else "",
        "memory": bytes_in_words(most) if most else "",
        "gpu": f"{sum(float(count) for name, count in requested.items() if is_gpu(name)):g}",
    }
    used = {
        "cpu": _between(cpus, lambda value: f"{value:.2f}"),
        "memory": _between(memory, bytes_in_words),
    }
    shares = {}
    if cpus and cpu:
        shares["cpu"] = max(cpus.values()) / cpu
    if memory and most:
        shares["memory"] = max(memory.values()) / most
    restarts = sum(life.restarts for life in lives.values())
    return Used(step, role, len(lives), restarts, amounts, used, shares)


def _ledgers(picture: Picture) -> Iterator[SpentTime]:
    """Yields what the time of each training went to."""
    for step in picture.steps.values():
        of = ledger.from_metrics(step.metrics, picture.tags.get("currency", ""))
        if of is None or not of.whole:
            continue
        left, bars, rows = 0.0, [], []
        for cause, seconds in of.seconds.items():
            width = 100 * seconds / of.whole
            words = ledger.CAUSES[cause]
            bars.append(Bar(left, width, cause, f"{words}: {lasting(seconds)}, {width:.1f} %"))
            left += width
            cells = [lasting(seconds), f"{width:.1f} %"]
            if of.gpu_seconds:
                cells.append(f"{of.gpu_seconds.get(cause, 0.0) / 3600:.2f}")
            if of.cost:
                cells.append(in_words(of.cost.get(cause, 0.0), of.currency))
            rows.append((cause, cells))
        headings = ["time", "share", *(["GPU hours"] if of.gpu_seconds else [])]
        headings += ["cost"] if of.cost else []
        yield SpentTime(step.name, ledger.sentence(of), bars, headings, rows)


def _preflight(step: StepPicture) -> Preflight:
    problems = [str(problem["sentence"]) for problem in step.preflight["problems"]]
    rows = preflight.table(step.preflight)
    headings = [heading.lower() for heading in preflight.HEADINGS]
    return Preflight(step.name, problems, headings, rows[:ROWS], len(rows[ROWS:]))


def _between(values: dict[str, float], words: Callable[[float], str]) -> str:
    """Says what values are between, and whose is the greatest."""
    if not values:
        return ""
    name = max(values, key=values.__getitem__)
    low, high = words(min(values.values())), words(values[name])
    return high if low == high else f"{low} to {high} ({name})"


def _charts(picture: Picture) -> Charts:
    """Returns the curves, those of one metric in one chart."""
    by_name: dict[tuple[str, str], dict[str, Curve]] = defaultdict(dict)
    steps = [step for step in picture.steps.values() if step.curves or step.told]
    lines = {step.name: number for number, step in enumerate(steps[: curves.LINES])}
    for step in steps[: curves.LINES]:
        for name, curve in (step.told | step.curves).items():
            told = step.told.get(name, curve)
            # MLflow does not know what steps count.
            across = told.across if told.at == curve.at else curve.across
            by_name[name, across][step.name] = replace(curve, across=across)
    charts = [
        Chart(
            name,
            curves.last(next(iter(several.values()))) if len(several) == 1 else "",
            curves.draw(name, several, lines),
        )
        for (name, _), several in list(by_name.items())[:CHARTS]
    ]
    key = [(name, *curves.style_of(number)) for name, number in lines.items()]
    more_steps = len(steps) - len(lines)
    return Charts(charts, key if len(key) > 1 else [], len(by_name) - len(charts), more_steps)


def _said(step: StepPicture) -> str:
    """Returns what has come of a step; of a trial that failed also which it was."""
    is_trial = without_index(step.name) == TRIAL
    return step.result if is_trial and step.result else step.error or step.result


def _cost_of(picture: Picture, metrics: dict[str, float]) -> str:
    if "cost" not in metrics:
        return ""
    return in_words(metrics["cost"], picture.tags.get("currency", ""))


def _end_of(text: str) -> str:
    """Returns the end of what a program has printed."""
    if len(text) > CHARACTERS:
        text = text[-CHARACTERS:].partition("\n")[2] or text[-CHARACTERS:]
    return "\n".join(text.splitlines()[-LINES:])
