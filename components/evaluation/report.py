"""The report: one self-contained page on how good a trained model is."""

from pathlib import Path

from jinja2 import Environment, PackageLoader

from components.evaluation.evaluate import Judged


def write(file: Path, judged: Judged, about: dict[str, str]) -> None:
    """Writes the report as HTML that needs no network.

    Args:
        file: Where it goes.
        judged: What the gate says, and the figures it rests on.
        about: What was trained on what, as names and values.
    """
    environment = Environment(
        loader=PackageLoader("components.evaluation", "."), autoescape=True, trim_blocks=True
    )
    page = environment.get_template("report.html").render(**judged._asdict(), about=about)
    file.write_text(page)
