"""Which images have to be there."""

import pytest

from images import build
from tests.images.containers import is_built


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that ``make images-test`` gives; without it nothing has to be there."""
    parser.addoption("--built", help="the images that have to be there; if none is named, all")


def pytest_configure(config: pytest.Config) -> None:
    """Says by name what is missing."""
    given = config.getoption("--built", None)
    if given is None:
        return
    names = given.split() or list(build.IMAGES)
    if unknown := set(names) - set(build.IMAGES):
        there = ", ".join(build.IMAGES)
        raise pytest.UsageError(f"no image {', '.join(sorted(unknown))}: there are {there}")
    if missing := [name for name in names if not is_built(name)]:
        tags = ", ".join(build.tag(name, "cpu") for name in missing)
        raise pytest.UsageError(f'not built here: {tags}; make images IMAGES="{" ".join(missing)}"')
