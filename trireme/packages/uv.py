"""Run uv, and say in one sentence what it cannot do."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import InvalidRequirement, Requirement

from trireme.cause import exception
from trireme.credentials import certificates, secrets, withheld
from trireme.credentials.withheld import without_values
from trireme.errors import InputError, TriremeError
from trireme.files.home import in_a_pod
from trireme.packages.present import HELD, Present
from trireme.packages.requirements import use_git, variables_in, without_queries

PURPOSE = "requirements"

KEYS = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
"""Keys of the Secret, and the variables by which uv takes them."""

_URLS = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
_LOGIN = re.compile(r"(?<=://)([^/\s]+)@")  # all before the host of a URL

_FAULTS = re.compile(
    "error sending request|tcp connect|dns error|timed? ?out|Failed to download(?! and build)"
    "|HTTP status server error",
    re.IGNORECASE,
)
_NEEDS = re.compile(r"(?:(?P<who>\S+) depends? on|you require) (?P<what>\S+)")
_DENIED = re.compile("lack of valid authentication credentials")
_NOT_BUILT = re.compile(r"Failed to build|build backend")
_DISABLED = re.compile(
    r"building (?:source\s+distributions|from\s+source)[^:\n]*\sis\s+disabled", re.I
)
_PACKAGE = re.compile(r"[Ff]ailed to (?:download and )?build (?:source distribution )?`([^`]+)`")
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)
_COMMAND = re.compile(r"(error: |[\w.]*CalledProcessError: )command ", re.IGNORECASE)
_HINT = re.compile(r"\n\n *hint:")
_WHICH = re.compile(r"(?:distributions\s+for|required\s+for|attempted\s+to\s+build)\s+`([^`]+)`")
_OF_GIT = ("SSH_AUTH_SOCK", "GIT_ASKPASS", "SSH_ASKPASS")
_UNKNOWN = re.compile(
    r"Because (?:there is no version of )?(?P<name>\S+?)"
    r"(?: was not found in the package registry)? and you require (?P=name)"
)
_SIGNS = re.compile(r"^(error|cause|hint): *|^[^\w`'\"]+", re.MULTILINE)
_NO_SOLUTION = re.compile(
    r"No solution found when resolving dependencies: |"
    r", we can conclude that your requirements are unsatisfiable\.?"
)
LIMIT = 600  # characters of what uv says
SHOWN = 20  # lines of a package's builder that are shown


class Unsatisfiable(InputError):
    """There are no packages that meet what is required."""


class NotBuilt(InputError):
    """A package without a wheel could not be built.

    Attributes:
        output: All that its builder and uv have said.
    """

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message, "\n".join(output.splitlines()[-SHOWN:]))
        self.output = output


class NotKnown(TriremeError):
    """What a package requires only its own code tells, as a setup.py, which is not run to know."""


class Uv:
    """uv, in the directory of a repository, with a package index that may be private.

    What it builds gets its environment: it has nothing of this user's that opens a server. The
    logins of indexes come to it by its standard input, as a file of requirements, ``logins``.

    Args:
        git: Variables by which git opens repositories that are required, and others.
        wanted: What is required, by this user: of a variable that it names the value is meant.
        builds: Whether packages may be built, for which their code is run.
    """

    def __init__(
        self,
        code: Path,
        secret: str,
        present: Present,
        git: Mapping[str, str] = MappingProxyType({}),
        required: Sequence[str] = (),
        *,
        builds: bool = True,
    ) -> None:
        self.code, self._present, self.builds = code, present, builds
        is_git = use_git(required, code)
        self._kept = {*variables_in(required), *(_OF_GIT if is_git else ())}
        by_key = secrets.read(secret, PURPOSE, KEYS)
        if secret and not by_key:
            raise InputError(
                f"requirements_secret {secret!r}: there is no such Secret with one of "
                f"{', '.join(KEYS)}"
            )
        self._variables = {KEYS[key]: url for key, url in by_key.items()}
        self._variables |= {
            name: value
            for name, value in git.items()
            if is_git or not name.startswith(("GIT_", "SSH_"))
        }
        of_uv = {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & os.environ.keys()
        if "PIP_INDEX_URL" in os.environ and not of_uv:  # it is meant for uv, too
            self._variables.setdefault("UV_DEFAULT_INDEX", os.environ["PIP_INDEX_URL"])
        self._hidden = [part for url in self.urls for part in _LOGIN.findall(url)]

    @property
    def logins(self) -> list[str]:
        """The file of requirements that every command with others has to name, if there is one."""
        return ["-"] if self._input else []

    @property
    def urls(self) -> list[str]:
        """Where it looks by itself, which no lock has to say."""
        locations = " ".join(self._places.values())
        return ["https://pypi.org/simple", *re.findall(r"https?://\S+", locations)]

    @property
    def _places(self) -> dict[str, str]:
        environment = os.environ | self._variables
        return {name: environment[name] for name in _URLS if name in environment}

    @property
    def _input(self) -> str:
        """The URLs with a login; uv uses it for the same URL without one, in its place."""
        lines = []
        for name, places in self._places.items():
            is_page = name == "UV_FIND_LINKS"  # of which commas separate several
            option, url = ("find-links", r"[^\s,]+") if is_page else ("extra-index-url", r"\S+")
            urls = filter(_LOGIN.search, re.findall(f"https?://{url}", places))
            lines += [f"--{option} {address}\n" for address in urls]
        return "".join(lines)

    @property
    def environment(self) -> dict[str, str]:
        """What it is run with, which what it builds gets, too."""
        variables = withheld.environment(self._kept)
        variables.pop("VIRTUAL_ENV", None)
        variables |= {"UV_PYTHON_DOWNLOADS": "never", "GIT_TERMINAL_PROMPT": "0"}
        variables |= ({"UV_NO_CACHE": "1"} if in_a_pod() else {}) | self._variables
        return variables | {name: _LOGIN.sub("", places) for name, places in self._places.items()}

    def __call__(self, *arguments: str) -> None:
        """Runs a command of it."""
        result = subprocess.run(
            [_program(), *arguments, "--quiet", "--python", sys.executable],
            cwd=self.code,
            env=self.environment,
            input=self._input,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if result.returncode:
            output = result.stderr
            for text in self._hidden:
                output = output.replace(text, "***")
            raise explained(output, self._present, self.builds)


def explained(output: str, present: Present, builds: bool = False) -> TriremeError:
    """Returns the error that uv's words mean: whoever is at fault.

    Args:
        builds: See ``Uv``; a requirements file may forbid it, too.
    """
    # It breaks long lines; of the first of each it says what it is.
    unbroken = re.sub(r"\n[ │]+(?!(?:cause|hint|error):)(?=\w)", " ", without_queries(output))
    lines = [" ".join(_SIGNS.sub("", line.strip()).split()) for line in unbroken.splitlines()]
    words = ": ".join(filter(None, lines))[:LIMIT]
    if refused := certificates.refused(output, "requirements: the package index", "SSL_CERT_FILE"):
        return refused
    if _DISABLED.search(unbroken):
        package = _WHICH.search(unbroken)
        if builds:
            return InputError(
                f"requirements: {package[1] if package else 'a package'} has no wheel, and a "
                "requirements file wants nothing built (--only-binary)"
            )
        return NotKnown(
            f"requirements: what {package[1] if package else 'the project'} requires only its own "
            "code tells, such as a setup.py, which is run where the run installs it, and not before"
        )
    if _FAULTS.search(output):
        return TriremeError(f"requirements: the package index does not answer: {words}")
    for needs in _NEEDS.finditer(" ".join(lines)):
        requirement = needs["what"].rstrip(",.")
        if conflict := _conflicting(requirement, present):
            requirer = f"{needs['who']} needs " if needs["who"] else ""
            return Unsatisfiable(
                f"requirements: {requirer}{requirement}, but {conflict} is there already and stays"
            )
    if (unknown := _UNKNOWN.search(words)) and not _DENIED.search(output):
        return Unsatisfiable(f"requirements: there is no package {unknown['name']} in the index")
    if _NOT_BUILT.search(output):
        return _not_built(without_queries(output), words)
    kind = Unsatisfiable if _NO_SOLUTION.search(words) else InputError
    return kind(f"requirements: {_NO_SOLUTION.sub('', words)}")


def _not_built(output: str, words: str) -> NotBuilt:
    """Returns the error of a package whose builder has failed: what that has said last."""
    _, _, builders = output.partition("[stderr]\n")
    # Its lines are indented, and uv's own come after them.
    lines = textwrap.dedent(_HINT.split(builders)[0]).splitlines()
    errors = [line for line in lines if _ERROR.search(line)]
    said_last = [exception(lines), *reversed(errors)]
    # That a command has failed says less than what the command has said.
    ranked = sorted(filter(None, said_last), key=lambda line: bool(_COMMAND.match(line)))
    if not ranked:
        return NotBuilt(f"requirements: {words}", output)
    package = _PACKAGE.search(output)
    name, why = package[1] if package else "a package", without_values(ranked[0])[:LIMIT]
    return NotBuilt(f"requirements: {name} cannot be built: {why}", output)


def _conflicting(text: str, present: Present) -> str:
    """Returns what is there that a requirement rules out and that is never replaced."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return ""
    version = present.version(requirement.name) if requirement.name in HELD else ""
    fits = not version or requirement.specifier.contains(version, prereleases=True)
    return "" if fits else f"{requirement.name}=={version}"


def _program() -> str:
    beside = shutil.which("uv", path=str(Path(sys.executable).parent))
    program = beside or shutil.which("uv")
    if not program:
        raise InputError("requirements need uv, which is not installed: pip install uv")
    return program
