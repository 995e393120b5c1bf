"""Write a bundle for whoever helps: an explanation, logs, manifest and versions, no secrets."""

import re
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from trireme.answers import writing
from trireme.answers.explanations import Explanation
from trireme.credentials.withheld import is_withheld, without_values
from trireme.errors import InputError, TriremeError
from trireme.explaining import words
from trireme.plain import as_file_name, plain
from trireme.tracking import arguments

LINES = 5000  # of each step's or replica's log, the last
SHORTEST = 4  # letters of a value that is taken out

OnLine = Callable[[str, str], None]

_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
)
# As programs print what they were given: password=x, "api_key": "x"; not tokens: 512.
_NAMED = re.compile(
    r"""(?P<name>[\w.-]*(passw|passphrase|secret|credential|(api|access|private)[_-]?key|token)[\w.-]*)
    (?P<between>["']?\s*[=:]\s*["']?)(?P<value>[^\s"',;}\]]+)""",
    re.IGNORECASE | re.VERBOSE,
)


def check(file: Path) -> None:
    """Refuses a file that cannot become a bundle."""
    if file.suffix != ".zip":
        raise InputError(f"--bundle {str(file)!r}: must be the name of a .zip file")
    if not file.absolute().parent.is_dir():
        raise InputError(f"--bundle {str(file)!r}: {file.absolute().parent} is not there")


def write(
    told: Explanation,
    file: Path,
    logs: Callable[[OnLine], None],
    files: Mapping[str, Path],
    given: Iterable[Any] = (),
) -> None:
    """Writes the bundle.

    Args:
        logs: Passes on the lines of steps or replicas.
        files: More files that are texts, by their name in the bundle.
        given: What a run or job was given, with what may be secret in it.
    """
    texts = {
        "explanation.txt": "\n".join(words.lines(told)),
        "explanation.json": writing.as_json(told),
        "versions.txt": "\n".join(_versions()),
    }
    kept: dict[str, deque[str]] = {}

    def keep(name: str, lines: str) -> None:
        kept.setdefault(name, deque(maxlen=LINES)).extend(lines.split("\n"))

    try:
        logs(keep)
    except TriremeError as error:
        texts["logs/unknown.txt"] = str(error)
    for name, lines in kept.items():
        texts[f"logs/{as_file_name(name, 'log')}.log"] = "\n".join(lines)
    for name, path in files.items():
        if path.is_file():
            texts[name] = path.read_text(errors="replace")
    hidden = sorted({each for one in given for each in _secrets(one)}, key=len, reverse=True)
    partial = file.with_name(f".{file.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as bundle:
            for name, text in texts.items():
                bundle.writestr(name, without_secrets(text, hidden))
        partial.rename(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"--bundle {str(file)!r}: {error.strerror}") from None


def without_secrets(text: str, hidden: Iterable[str] = ()) -> str:
    """Returns a text without what is, or is called, secret.

    Args:
        hidden: Values that are to be taken out besides.
    """
    text = _KEY.sub("***", without_values(plain(text)))
    for value in hidden:
        text = text.replace(value, "***")
    return _NAMED.sub(_withheld, text)


def _withheld(found: re.Match[str]) -> str:
    is_a_count = "token" in found["name"].lower() and found["value"].replace(".", "").isdigit()
    return found[0] if is_a_count else f"{found['name']}{found['between']}***"


def _secrets(given: Any, name: str = "") -> Iterator[str]:
    """Yields the values that are withheld of parameters, or of a manifest."""
    if isinstance(given, Mapping):
        if isinstance(given.get("name"), str) and isinstance(given.get("value"), str):
            yield from _secrets(given["value"], given["name"])  # as Kubernetes has variables
        for key, value in given.items():
            yield from _secrets(value, str(key))
    elif isinstance(given, list):
        texts = [each for each in given if isinstance(each, str)]
        yield from (each for each in arguments.secrets(texts) if len(each) >= SHORTEST)
        for each in given:
            if not isinstance(each, str):
                yield from _secrets(each)
    elif isinstance(given, str) and len(given) >= SHORTEST and is_withheld(name, given):
        yield given


def _versions() -> list[str]:
    found = {each.metadata["Name"]: each.version for each in distributions()}
    return sorted(f"{name}=={version}" for name, version in found.items() if name)
