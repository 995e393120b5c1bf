"""Resolve what a run requires before there is one: what cannot be installed is refused then."""

from collections.abc import Mapping
from pathlib import Path

from trireme.errors import TriremeError
from trireme.packages import present, requirements
from trireme.packages.install import resolved
from trireme.packages.uv import NotKnown, Unsatisfiable, Uv
from trireme.text.say import say

SOON = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "10"}
"""For an index that a cluster may reach and this machine does not."""


def check(
    wanted: list[str], code: Path | None, framework: str, secret: str, git: Mapping[str, str]
) -> None:
    """Refuses what cannot be installed here, as far as no package's code is run to know that.

    See ``install.install``.

    Args:
        code: Where the code is; None where it is not here, and no file of it is wanted.
    """
    if code:
        requirements.check_files(wanted, code)
        requirements.check_names(wanted, code)
    there = present.packages(framework)
    uv = Uv(code or Path.cwd(), secret, there, git, wanted, builds=False)
    try:
        resolved(wanted, framework, there, uv)
    except NotKnown as error:
        say(f"note: {error}")


def check_for_pods(wanted: list[str], code: Path | None, framework: str) -> None:
    """Refuses what pods cannot install, for the Python and beside the packages of their images.

    Nothing is said where this machine cannot tell: without uv, the images' lists, the index, or
    what builds a package.

    Args:
        code: See ``check``.

    Raises:
        Unsatisfiable: So says the index that this machine asks; pods may have another one.
    """
    if code:
        requirements.check_files(wanted, code, present.IMAGES_PYTHON)
        requirements.check_names(wanted, code)
    there = present.of_image(framework)
    try:
        if there:
            uv = Uv(code or Path.cwd(), "", there, SOON, wanted, builds=False)
            resolved(wanted, framework, there, uv)
    except Unsatisfiable:
        raise
    except NotKnown as error:
        say(f"note: {error}")
    except TriremeError:
        return
