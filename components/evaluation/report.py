"""The report: one self-contained page on how good a trained model is."""

from pathlib import Path

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from components.evaluation import plots, progress
from components.evaluation.evaluate import Judged, held_out
from components.evaluation.measures import Evaluation, Mistake


def write(file: Path, judged: Judged, about: dict[str, str], workspace: Path, data: Path) -> None:
    """Writes the report as HTML that needs no network.

    Args:
        file: Where it goes.
        judged: What the gate says, and the figures it rests on.
        about: What was trained on what, as names and values.
        workspace: The run workspace, where training has left its logs.
        data: The staged dataset, whose samples are shown.
    """
    environment = Environment(
        loader=PackageLoader("components.evaluation", "."), autoescape=True, trim_blocks=True
    )
    epochs = progress.read(workspace)
    curves = Markup(plots.lines(epochs, "epoch", "")) if epochs else ""
    page = environment.get_template("report.html").render(
        **judged._asdict(),
        about=about,
        curves=curves,
        roc=_roc(judged.evaluation),
        mistakes=_shown(judged.evaluation, data),
    )
    file.write_text(page)


def _roc(evaluation: Evaluation | None) -> str:
    if evaluation is None or evaluation.roc_auc is None:
        return ""
    false, true, _ = evaluation.roc
    points = {"ROC": (false, true)}
    return Markup(plots.lines(points, "false positive rate", "true positive rate"))


def _shown(evaluation: Evaluation | None, data: Path) -> list[tuple[Mistake, str]]:
    """Returns the worst mistakes, each with an image of the sample where it is one."""
    if evaluation is None or not evaluation.mistakes:
        return []
    inputs, _ = held_out(data)
    return [(mistake, plots.picture(inputs[mistake.sample])) for mistake in evaluation.mistakes]
