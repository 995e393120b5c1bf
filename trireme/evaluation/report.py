"""The report: one self-contained page on how good a trained model is."""

import base64
import os
import shutil
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Template
from markupsafe import Markup

from trireme.cost.table import in_words
from trireme.evaluation import plots
from trireme.evaluation.figure_names import words
from trireme.evaluation.figures import Chart, Evaluation, Worst
from trireme.evaluation.gate import Judged
from trireme.evaluation.held_out import held_out
from trireme.evaluation.trials import results
from trireme.observers.printed.names import RATE
from trireme.pages import RUN_LINK, template
from trireme.tracking import environment, journal, store

EXPORTED = "<!-- exported -->"
"""Where in the page the exported files are listed, when there are any."""

LINES = 4  # of what training has told, that are drawn

TRIALS = 50  # of a sweep, the best first, that are listed

_HOURS = {"cpu": "CPU-hours", "gib": "GiB-hours of memory", "gpu": "GPU-hours"}
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


class ExportedFile(NamedTuple):
    """A file that the model was exported to."""

    name: str
    bytes: int
    difference: float


def write(file: Path, judged: Judged, workspace: Path, data: Path) -> None:
    """Writes the report as HTML that needs no network."""
    evaluation = judged.evaluation
    page = _template("report.html").render(
        **judged._asdict(),
        about=_training(workspace) | _run(),
        trials=results(workspace)[:TRIALS],
        charts=_charts(evaluation, workspace),
        pictures=[(file.stem, _embedded(file)) for file in evaluation.pictures]
        if evaluation
        else [],
        worst=_shown(evaluation, data),
        words=words,
        exported=Markup(EXPORTED),
        run=Markup(RUN_LINK),
    )
    file.write_text(page)


def add_exported(file: Path, files: Iterable[ExportedFile], samples: int, registered: str) -> None:
    """Adds to a report what the model was exported to."""
    section = _template("exported.html").render(files=files, samples=samples, registered=registered)
    file.write_text(file.read_text().replace(EXPORTED, section, 1))


def add_package(file: Path, form: str, size: int, registered: str) -> None:
    """Adds to a report in what form the model is kept, where it was not converted."""
    section = _template("packaged.html").render(form=form, size=size, registered=registered)
    file.write_text(file.read_text().replace(EXPORTED, section, 1))


def hand_over(file: Path, artifact: Path) -> None:
    """Makes a report an artifact of kfp, and of the step's MLflow run."""
    artifact.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, artifact)
    journal.log_artifact(file)


def _template(name: str) -> Template:
    return template("trireme.evaluation", name)


def _training(workspace: Path) -> dict[str, str]:
    """Returns what was trained on what, and what that took, as names and values."""
    recorded: dict[str, Any] = {}
    for step in ("checkout", "dataset", "train", "choose", "evaluate"):
        for record in journal.read(workspace, step):
            for kind in ("params", "metrics", "tags"):
                recorded |= record.get(kind, {})
    rows = {}
    if "git.commit" in recorded:
        code = " ".join(
            filter(None, [recorded.get("entrypoint"), *map(str, recorded.get("args", []))])
        )
        rows["Code"] = f"{code} of {recorded['git.url']} at {recorded['git.commit']}"
    if "evaluation.program" in recorded:
        rows["Evaluated by"] = recorded["evaluation.program"]
    if "dataset.uri" in recorded:
        rows["Data"] = f"{recorded['dataset.uri']}, {recorded['dataset.fingerprint']}"
    if "base_model.uri" in recorded:
        rows["Base model"] = f"{recorded['base_model.uri']}, {recorded['base_model.fingerprint']}"
    roles = {name: count for name, count in recorded.items() if name.endswith("_replicas")}
    if roles:
        counts = [f"{count} {name.removesuffix('_replicas')}" for name, count in roles.items()]
        seconds = recorded.get("replica_seconds", 0)
        rows["Replicas"] = f"{', '.join(counts)}, {seconds:,.0f} replica-seconds"
    rows |= _spent(workspace, recorded.get("currency", ""))
    if curve := journal.curves(workspace, "train").get(RATE):
        _, rates = curve
        rate = statistics.median(rates.values())
        per_process = rate / max(recorded.get("world_size", 1), 1)
        rows["Throughput"] = f"{rate:,.0f} samples/s, {per_process:,.0f} in each process"
    return rows


def _spent(workspace: Path, currency: str) -> dict[str, str]:
    """Returns what training has had and what the run has cost so far, as names and values."""
    recorded = [record.get("metrics", {}) for record in journal.read_all(workspace)]
    trainings = [metrics for metrics in recorded if "requested_cpu_hours" in metrics]
    hours = (
        f"{sum(metrics[f'requested_{name}_hours'] for metrics in trainings):,.4g} {unit}"
        for name, unit in _HOURS.items()
    )
    rows = {"Resources": f"{', '.join(hours)}, requested by the replicas"} if trainings else {}
    if currency:
        total, training = (
            in_words(sum(metrics.get("cost", 0) for metrics in several), currency)
            for several in (recorded, trainings)
        )
        rows["Cost"] = f"{total} until the evaluation, {training} of it for training"
    return rows


def _run() -> dict[str, str]:
    """Returns where the run is in MLflow, and how it is made again, as names and values."""
    variables = environment.variables()
    if "MLFLOW_RUN_ID" not in variables:
        return {}
    run = variables["MLFLOW_RUN_ID"]
    page = store.page_of(
        os.environ.get("MLFLOW_TRACKING_URI") or variables["MLFLOW_TRACKING_URI"],
        variables.get("MLFLOW_EXPERIMENT_ID", ""),
        run,
    )
    return {
        "MLflow": Markup('<a href="{0}">{0}</a>').format(page),
        "Reproduce with": Markup("<code>trireme reproduce {}</code>").format(run),
    }


def _charts(evaluation: Evaluation | None, workspace: Path) -> list[tuple[str, Markup]]:
    """Returns titles and pictures."""
    charts = []
    lines: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for name, (unit, values) in journal.curves(workspace, "train").items():
        if len(values) > 1 and name != RATE:
            at = [float(step) for step in values]
            lines.setdefault(unit, {})[name] = (at, [*values.values()])
    for unit, of_unit in lines.items():
        charts.append(Chart("Training", unit, "", dict(list(of_unit.items())[:LINES])))
    if evaluation and evaluation.chart:
        charts.append(evaluation.chart)
    return [(chart.title, Markup(plots.draw(chart))) for chart in charts]


def _shown(evaluation: Evaluation | None, data: Path) -> list[tuple[Worst, str]]:
    """Returns the worst samples, each with an image where it is one."""
    if evaluation is None or not evaluation.worst:
        return []
    inputs = held_out(data).inputs
    return [(worst, plots.picture(inputs[worst.sample])) for worst in evaluation.worst]


def _embedded(picture: Path) -> str:
    """Returns a picture as a URL that holds all of it."""
    content = base64.b64encode(picture.read_bytes()).decode()
    return f"data:{_TYPES[picture.suffix]};base64,{content}"
