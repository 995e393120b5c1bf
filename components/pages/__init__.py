"""Pages of HTML that are one file each and need no network: what they have in common."""

from jinja2 import ChoiceLoader, Environment, PackageLoader, Template


def template(package: str, name: str) -> Template:
    """Returns a template of a package, which may extend ``page.html``."""
    loader = ChoiceLoader([PackageLoader(package, "."), PackageLoader(__name__, ".")])
    return Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).get_template(name)
