"""The journal: what a step has to record, written to the run workspace as it happens.

The work of a step never talks to MLflow. It appends lines of JSON to a file in the workspace, which
costs nothing and cannot fail because a server is away. ``sync.py`` brings the file into MLflow:
called here by ``pipeline_run.py``, in a pod by the step's frame, ``tracked_step.py``, and at last
by ``finish``. The functions here write to the journal of the step that is running in this
process and do nothing outside of one, so the work of a step can be called from anywhere.

Each line is an object with one key, and the time:

    {"begun": step}                       the first line, which ``read`` leaves out
    {"params": {name: value}}             parameters of the step's MLflow run
    {"run_params": {name: value}}         parameters of the pipeline's run alone
    {"metrics": {name: value}}            metrics of the step's run
    {"points": {name: [[step, value, ms]]}}  metrics that its program has printed or left in files
    {"tags": {name: value}}               tags of the step's run and of the pipeline's (lineage)
    {"headline": {name: value}}           metrics of the step's run and of the pipeline's
    {"total": {name: value}}              metrics of the pipeline's run alone
    {"artifact": path, "folder": name}    a file to keep with the step's run
    {"unsent": path}                      a file of metrics that a program could not send itself
    {"dataset": {...}}                    the dataset that was used, see ``log_dataset``
    {"model": {...}}                      a model to log and register, see ``log_model``
    {"summary": text}                     the step's result in a few words, for a person
    {"error": {...}}                      what went wrong, see ``log_error``
    {"outcome": {...}}                    what came of the run, see ``log_outcome``
    {"end": status}                       FINISHED or FAILED, KILLED where it was told to end
"""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

from trireme import progress
from trireme.errors import TriremeError
from trireme.progress import Progress
from trireme.tracking import values

V = TypeVar("V")

Point = tuple[int, float, int]
"""A value of a metric: its step, the value, and when it came, in ms since the epoch."""

LARGEST = 2**63 - 1  # the whole number that MLflow's database holds

MODEL = "model"
"""The folder of artifacts in which a step's run keeps what training left in MODEL_DIR."""

OF_TRAINING = "train."
"""How the metrics of a pipeline's run begin that its training's program has told last."""

GOODPUT = "goodput/"
"""How the metrics begin that say what the time of a run's trainings went to."""

TRAINING = "training.run"
"""The tag of a pipeline's run that names the run of the step that holds the model."""

EVENTS = "tensorboard"
"""The folder of artifacts in which a training's run keeps its event files."""

PACKAGES = "packages.txt"
"""The artifact of a training's run that says exactly which packages the run has installed."""

PROGRESS = "progress.json"
PROGRESS_EVERY = 10.0  # seconds between two times that it is brought into MLflow

LAST_LINES = "error.lines"
"""The tag of a failed step's run that has what its program printed last."""

BEGUN = "begun"

_OBJECTS = (
    "params",
    "run_params",
    "metrics",
    "points",
    "tags",
    "headline",
    "total",
    "dataset",
    "model",
    "error",
    "outcome",
)
_TYPES: dict[str, type] = dict.fromkeys(_OBJECTS, dict)
_TYPES |= dict.fromkeys(("artifact", "folder", "unsent", "summary", "end"), str)

_journal: TextIO | None = None


def journal_path(workspace: Path, step: str) -> Path:
    """Returns the file that the named step's journal is written to."""
    return workspace / "steps" / step / "journal.jsonl"


def synced_path(workspace: Path, step: str) -> Path:
    """Returns the file that tells how many records of the journal MLflow has."""
    return journal_path(workspace, step).with_name("journal.synced")


def progress_path(workspace: Path, step: str) -> Path:
    """Returns the file that tells how far the named step's training is."""
    return journal_path(workspace, step).with_name(PROGRESS)


def run_path(workspace: Path, step: str) -> Path:
    """Returns the file that names the MLflow run that the named step's journal belongs to."""
    return journal_path(workspace, step).with_name("mlflow-run")


def registered_path(workspace: Path) -> Path:
    """Returns the file that tells which version of which model the run has registered."""
    return workspace / "registered.json"


def registered(workspace: Path) -> dict[str, str]:
    """Returns ``model``, ``version`` and ``alias`` of what the run registered, and why ``late``."""
    path = registered_path(workspace)
    registration: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return registration


def read(workspace: Path, step: str) -> list[dict[str, Any]]:
    """Returns the records of a step's journal so far, oldest first; a cut-off line is left out."""
    return [record for record in _lines(workspace, step) if BEGUN not in record]


def steps(workspace: Path) -> list[str]:
    """Returns the names of the steps that have recorded something."""
    return sorted(path.parent.name for path in (workspace / "steps").glob("*/journal.jsonl"))


def read_all(workspace: Path) -> list[dict[str, Any]]:
    """Returns the records of all steps of a run, oldest first."""
    records = [record for step in steps(workspace) for record in read(workspace, step)]
    return sorted(records, key=lambda record: float(record["time"]))


@contextmanager
def opened(workspace: Path, step: str) -> Iterator[None]:
    """Makes this process's records go to the journal of the named step, started anew."""
    global _journal
    path = journal_path(workspace, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    synced_path(workspace, step).unlink(missing_ok=True)
    progress_path(workspace, step).unlink(missing_ok=True)
    path.write_bytes(b"")
    # Appended to: a pod of the same step that was taken for lost may still write, or Argo may run
    # the last step twice at once; the lines of both stay whole.
    with path.open("a") as _journal:
        _append({BEGUN: step})
        try:
            yield
        finally:
            _journal = None


def forget(workspace: Path, step: str) -> None:
    """Removes the journal of a step that is about to run again."""
    for path_of in (journal_path, synced_path, progress_path):
        path_of(workspace, step).unlink(missing_ok=True)


def log_params(params: dict[str, Any]) -> None:
    """Records parameters of this step, each a value that JSON has."""
    _append({"params": _kept(values.parameters, params, "log_params")})


def log_run_params(params: dict[str, Any]) -> None:
    """Records parameters that a person compares runs by; shown on the whole run alone."""
    _append({"run_params": _kept(values.parameters, params, "log_run_params")})


def log_metrics(metrics: Mapping[str, float]) -> None:
    """Records metrics of this step."""
    _append({"metrics": _kept(values.numbers, metrics, "log_metrics")})


def log_points(points: Mapping[str, Sequence[Point | tuple[int, float, int, str]]]) -> None:
    """Records metrics that this step's program has told, each with its step and its time.

    What a step counts may come after them, if it is not ``step``: ``sample`` or ``epoch``.

    What the program logs to MLflow itself is not logged there once more.
    """
    _append({"points": points})


def points_in(record: dict[str, Any], units: Mapping[str, str]) -> Iterator[tuple[str, Point]]:
    """Yields the values in a record of ``log_points`` whose steps count what ``units`` says."""
    for name, point, unit in _points(record):
        if unit == units[name]:
            yield name, point


def units(records: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Returns what the steps of each metric in records count: what they do of most of its values.

    A program may tell a metric by the step and by the epoch, which are no points of one curve.
    """
    counts: dict[str, Counter[str]] = {}
    for record in records:
        for name, _, unit in _points(record):
            counts.setdefault(name, Counter())[unit] += 1
    return {
        name: max(of, key=lambda unit: (of[unit], unit != "epoch")) for name, of in counts.items()
    }


def _points(record: dict[str, Any]) -> Iterator[tuple[str, Point, str]]:
    """Yields names, values and units of a record, which a step's own program may have damaged."""
    for name, points in record.get("points", {}).items():
        for point in points if isinstance(points, list) else ():
            try:
                step, value, at, *unit = point
                numbers = int(step), float(value), int(at)
            except (ValueError, TypeError, OverflowError):
                continue
            if abs(numbers[0]) <= LARGEST and 0 <= numbers[2] <= LARGEST:
                yield name, numbers, str(unit[0]) if unit else "step"


def curves(workspace: Path, step: str) -> dict[str, tuple[str, dict[int, float]]]:
    """Returns the metrics that a step's program has told, each by what.

    That is what its steps count, and with it values by step, the last of each.
    """
    records = read(workspace, step)
    by, series = units(records), dict[str, dict[int, float]]()
    for record in records:
        for name, (at_step, value, _) in points_in(record, by):
            series.setdefault(name, {})[at_step] = value
    return {name: (by[name], dict(sorted(values.items()))) for name, values in series.items()}


def log_tags(tags: dict[str, str]) -> None:
    """Records where the run came from (commit, fingerprint, image); shown on the whole run."""
    _append({"tags": _kept(values.texts, tags, "log_tags")})


def log_headline(metrics: dict[str, float]) -> None:
    """Records the metrics a person compares runs by; shown on the whole run."""
    _append({"headline": _kept(values.numbers, metrics, "log_headline")})


def log_total(metrics: dict[str, float]) -> None:
    """Records sums over all steps so far; shown on the whole run alone."""
    _append({"total": _kept(values.numbers, metrics, "log_total")})


def workspace() -> Path | None:
    """Returns the workspace of the run whose step runs in this process; None outside of one."""
    return Path(_journal.name).parents[2] if _journal is not None else None


def log_artifact(path: Path, folder: str = "") -> None:
    """Records a file or folder to be kept with the run; it must stay in place until that ends."""
    _append({"artifact": str(path), "folder": folder})


def log_unsent(file: Path) -> None:
    """Records where this step's program leaves metrics that MLflow does not take; if it does."""
    _append({"unsent": str(file)})


def log_dataset(purpose: str, uri: str, fingerprint: str, files: int, size: int) -> None:
    """Records a dataset that the run uses, or its base model, as its input."""
    dataset = {"uri": uri, "fingerprint": fingerprint, "files": files, "bytes": size}
    dataset["context"] = "training" if purpose == "dataset" else purpose
    _append({"dataset": dataset})


def log_model(
    onnx: Path,
    name: str,
    sample: Path,
    *,
    tags: dict[str, str],
    promote: bool = False,
    champion: str = "",
) -> None:
    """Records a model to be logged with its signature and registered.

    Args:
        sample: A ``.npz`` with arrays ``inputs`` and ``outputs``: a few real samples and the
            model's answers, from which the signature and the input example are taken.
        champion: The version that has to be the champion until then; empty for none.
    """
    model = {"onnx": str(onnx), "name": name, "sample": str(sample)}
    _append({"model": model | {"tags": tags, "promote": promote, "champion": champion}})


def log_package(
    directory: Path, name: str, *, tags: dict[str, str], promote: bool, champion: str
) -> None:
    """Records a directory to be logged as a model, as it is, and registered; see ``log_model``."""
    model = {"files": str(directory), "name": name, "tags": tags}
    _append({"model": model | {"promote": promote, "champion": champion}})


def summarize(text: str) -> None:
    """Records the step's result in a few words, shown beside the step's name."""
    _append(_kept(values.texts, {"summary": text}, "summarize"))


def log_outcome(facts: dict[str, str], last_lines: str) -> None:
    """Records in this step what came of the whole run, and what it failed with, for a person."""
    _append({"outcome": {"facts": facts, "last_lines": last_lines}})


def outcome_of(workspace: Path, step: str) -> dict[str, Any]:
    """Returns what ``log_outcome`` has recorded; empty for nothing."""
    return _last(read(workspace, step), "outcome", {})


def log_progress(now: Progress) -> None:
    """Records how far this step's training is; only the last state is kept, beside the journal."""
    if _journal is not None:
        progress.write(Path(_journal.name).with_name(PROGRESS), now)


def log_error(error: TriremeError, is_fatal: bool = True) -> None:
    """Records what went wrong, and whether the run fails with it."""
    _append(_error(error, is_fatal))


def _error(error: TriremeError, is_fatal: bool) -> dict[str, Any]:
    return {
        "error": {
            "message": str(error),
            "detail": error.detail,
            "exit_status": error.exit_status,
            "is_fatal": is_fatal,
        }
    }


def log_end(status: str) -> None:
    """Records how the step has ended, before it could be killed."""
    _append({"end": status})


def write_for(
    workspace: Path,
    step: str,
    status: str,
    error: TriremeError | None,
    log: Path,
    began: float,
    ended: float,
) -> None:
    """Writes the journal of a step that has ended and keeps none itself: somebody's own."""
    records: list[dict[str, Any]] = [{BEGUN: step, "time": began}]
    logs = [*sorted(log.parent.glob(f"{log.stem}.*{log.suffix}")), log]  # of earlier attempts, too
    contents = [{"artifact": str(file), "folder": ""} for file in logs]
    contents += [_error(error, True)] if error else []
    records += [record | {"time": ended} for record in (*contents, {"end": status})]
    path = journal_path(workspace, step)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def summary_of(workspace: Path, step: str) -> str:
    """Returns a step's result in a few words; empty where it has said none."""
    return _last(read(workspace, step), "summary", "")


def end_of(workspace: Path, step: str) -> str:
    """Returns how a step that has begun has ended: FINISHED, FAILED, or KILLED."""
    return _last(read(workspace, step), "end", "KILLED")


def has_ended(workspace: Path, step: str) -> bool:
    """Tells whether a step has recorded how it has ended."""
    return _last(read(workspace, step), "end", "") != ""


def status_of(workspace: Path, step: str) -> str:
    """Returns ``end_of`` a step as MLflow has it: FAILED, too, where it went on after an error."""
    records = read(workspace, step)
    attempt: list[dict[str, Any]] = []
    for record in records:
        if attempt and "end" in attempt[-1]:
            attempt = []
        attempt.append(record)
    went_on = any("error" in record for record in attempt)  # as a sweep's trial does
    end = _last(records, "end", "KILLED")
    return "FAILED" if went_on and end == "FINISHED" else end


def span_of(workspace: Path, step: str) -> tuple[float | None, float | None]:
    """Returns when a step has begun and ended, in seconds since the epoch, or ``None``."""
    records = _lines(workspace, step)
    times = [record["time"] for record in records]
    ends = [record["time"] for record in records if "end" in record]
    return next(iter(times), None), next(reversed(ends), None)


def began(workspace: Path) -> float:
    """Returns when the first of a run's steps has begun; 0 where none has recorded anything."""
    return min(filter(None, (span_of(workspace, step)[0] for step in steps(workspace))), default=0)


def _lines(workspace: Path, step: str) -> list[dict[str, Any]]:
    path = journal_path(workspace, step)
    if not path.exists():
        return []
    complete = path.read_bytes().rpartition(b"\n")[0]
    return [
        _record(line, f"{path}, line {number}")
        for number, line in enumerate(complete.splitlines(), start=1)
    ]


def _record(line: bytes, location: str) -> dict[str, Any]:
    """Returns the record of a line; a power cut, or a step's own program, may have damaged it."""
    try:
        record = json.loads(line.decode())
        if math.isfinite(record["time"]) and all(
            isinstance(value, _TYPES.get(name, object)) for name, value in record.items()
        ):
            return dict(record)
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        pass
    raise TriremeError(f"{location}: is no record of a step; run the step again")


def _last(records: list[dict[str, Any]], key: str, otherwise: Any) -> Any:
    """Returns what the last record with a key has under it."""
    return next((record[key] for record in reversed(records) if key in record), otherwise)


def _append(record: dict[str, Any]) -> None:
    if _journal is None:
        return
    _journal.write(json.dumps(record | {"time": time.time()}) + "\n")
    _journal.flush()


def _kept(check: Callable[[Any, str], V], recorded: Any, label: str) -> V:
    """Returns what a step has to record; refuses at once what MLflow would at the step's end."""
    try:
        return check(recorded, label)
    except TypeError as error:
        raise TriremeError(str(error)) from None
