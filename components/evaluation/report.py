"""The report: one self-contained page on how good a trained model is."""

from pathlib import Path

from jinja2 import Environment, PackageLoader

from components.evaluation.evaluate import Evaluation, Verdict


def write(
    file: Path,
    verdict: Verdict,
    evaluation: Evaluation | None,
    about: dict[str, str],
) -> None:
    """Writes the report as HTML that needs no network.

    Args:
        file: Where it goes.
        verdict: What the gate says.
        evaluation: The figures, where the model could be evaluated.
        about: What was trained on what, as names and values.
    """
    environment = Environment(
        loader=PackageLoader("components.evaluation", "."), autoescape=True, trim_blocks=True
    )
    page = environment.get_template("report.html").render(
        verdict=verdict, evaluation=evaluation, about=about
    )
    file.write_text(page)
