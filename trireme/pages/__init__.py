"""Pages of HTML that are one file each and need no network: what they have in common."""

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, Template

from trireme.plain import plain

REPORT = "report.html"
"""The report on a model, in the workspace and among the artifacts of the step that has made it."""

RUN_LINK = "<!-- run -->"
"""Where in that report the run is linked to, when its picture lies beside it."""


def template(package: str, name: str) -> Template:
    """Returns a template of a package, which may extend ``page.html``."""
    loader = ChoiceLoader([PackageLoader(package, "."), PackageLoader(__name__, ".")])
    return Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    ).get_template(name)


def _shown(value: Any) -> Any:
    """Returns a value without what a terminal would do where a program has coloured its words."""
    return plain(value) if type(value) is str else value  # not what is markup already
