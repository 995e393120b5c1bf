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
    required: list[str], code: Path | None, framework: str, secret: str, git: Mapping[str, str]
) -> None:
    """Refuses what cannot be installed here, as far as no package's code is run to know that.

    See ``install.install``.

    Args:
        code: Where the code is; None where it is not here, and no file of it is wanted.
    """
    if code:
        requirements.check_files(required, code)
        requirements.check_names(required, code)
    installed = present.packages(framework)
    uv = Uv(code or Path.cwd(), secret, installed, git, required, builds=False)
    try:
        resolved(required, framework, installed, uv)
    except NotKnown as error:
        say(f"note: {error}")


def check_for_pods(required: list[str], code: Path | None, framework: str) -> None:
    """Refuses what pods cannot install, for the Python and beside the packages of their images.

    Nothing is said where this machine cannot tell: without uv, the images' lists, the index, or
    what builds a package.

    Args:
        code: See ``check``.

    Raises:
        Unsatisfiable: So says the index that this machine asks; pods may have another one.
    """
    if code:
        requirements.check_files(required, code, present.IMAGES_PYTHON)
        requirements.check_names(required, code)
    installed = present.of_image(framework)
    try:
        if installed:
            uv = Uv(code or Path.cwd(), "", installed, SOON, required, builds=False)
            resolved(required, framework, installed, uv)
    except Unsatisfiable:
        raise
    except NotKnown as error:
        say(f"note: {error}")
    except TriremeError:
        return
