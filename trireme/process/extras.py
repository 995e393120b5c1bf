"""Extras of the package that bring what this installation lacks."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from trireme.errors import InputError

BROUGHT_BY = {
    "PIL": "pillow",
    "flask": "mlflow",
    "h5py": "tensorflow",
    "pandas": "mlflow",
    "psycopg2": "psycopg2-binary",
    "scipy": "scikit-learn",
    "sklearn": "scikit-learn",
    "sqlalchemy": "mlflow",
}
"""Distributions by modules that come with them and are called otherwise."""

DISTRIBUTION = "trireme-pipelines"
"""What this package is called where packages are; ``trireme`` there is another project's."""

_REQUIREMENT = re.compile(r"([\w.-]+).*;.*\bextra == ['\"]([\w-]+)['\"]")


@contextmanager
def explained() -> Iterator[None]:
    """Says in one sentence that a module is missing that an extra of this package brings."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = of(module)
        if not extra:
            raise
        raise InputError(f"{module} is not installed: {installing(extra)}") from error


def of(module: str) -> str:
    """Returns the extra that brings a module; empty for any other module."""
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.utils import canonicalize_name

    package = canonicalize_name(BROUGHT_BY.get(module, module))
    try:
        required = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # run from its source, without an installation
        return ""
    brought = [match.groups() for match in map(_REQUIREMENT.match, required) if match]
    brought = [pair for pair in brought if pair[1] != "dev"]  # which holds versions back, too
    extras = [extra for name, extra in brought if canonicalize_name(name) == package]
    # A framework's own extra may list it too; what asks here is of no framework.
    if "models" in extras:
        return "models"
    sizes = Counter(extra for _, extra in brought)  # the largest hold others
    return min(extras, key=lambda extra: sizes[extra], default="")


def installing(extra: str) -> str:
    """Returns the command that installs an extra, from where this copy was installed."""
    from importlib.metadata import distribution

    # https://packaging.python.org/en/latest/specifications/direct-url-data-structure/
    origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"pip install {editable}'{unquote(urlsplit(url).path)}[{extra}]'"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return f"pip install '{DISTRIBUTION}[{extra}]{f' @ {url}' if url else ''}'"
