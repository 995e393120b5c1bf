"""Write a bundle for whoever helps: an explanation, logs, manifest and versions, no secrets."""

import json
import re
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from trireme.answers import writing
from trireme.answers.explanations import Explanation
from trireme.credentials.withheld import is_secret, without_values
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
# As programs print what they were given: password=x, "api_key": "x y"; not tokens: 512.
_NAMED = re.compile(
    r"""(?P<name>[\w.-]*(passw|passphrase|secret|credential|(api|access|private)[_-]?key|token)[\w.-]*)
    (?P<between>\\*["']?\s*[=:]\s*)
    ((?P<quote>\\*["'])(?P<quoted>.*?)(?<!\\)(?P=quote)|(?P<open>["']?)(?P<value>[^\s"',;}\]]+))""",
    re.IGNORECASE | re.VERBOSE,
)


def check(file: Path) -> None:
    """Refuses a file that cannot become a bundle."""
    if file.suffix != ".zip":
        raise InputError(f"--bundle {str(file)!r}: must be the name of a .zip file")
    if not file.absolute().parent.is_dir():
        raise InputError(f"--bundle {str(file)!r}: {file.absolute().parent} is not there")


def write(
    explanation: Explanation,
    file: Path,
    logs: Callable[[OnLine], None],
    files: Mapping[str, Path],
    manifests: Mapping[str, Mapping[str, Any]],
    parameters: Mapping[str, Any],
) -> None:
    """Writes the bundle.

    Args:
        logs: Passes on the lines of steps or replicas.
        files: More files that are texts, by their name in the bundle.
        manifests: Manifests of training jobs, likewise.
        parameters: Those of the run.
    """
    hidden = _spellings({secret for part in (parameters, manifests) for secret in _secrets(part)})
    # Keys have many lines.
    last_lines = without_secrets("\n".join(explanation.last_lines), hidden).splitlines()
    values = json.loads(writing.in_a_line(replace(explanation, last_lines=last_lines)))
    explanation = TypeAdapter(Explanation).validate_python(_each_without_secrets(values, hidden))
    texts = {
        "explanation.txt": "\n".join(words.lines(explanation)),
        "explanation.json": writing.as_json(explanation),
        "versions.txt": "\n".join(_versions()),
    }
    for name, manifest in manifests.items():
        texts[name] = yaml.safe_dump(_each_without_secrets(manifest, hidden), sort_keys=False)
    tails: dict[str, deque[str]] = {}

    def keep(name: str, lines: str) -> None:
        tails.setdefault(name, deque(maxlen=LINES)).extend(lines.split("\n"))

    try:
        logs(keep)
    except TriremeError as error:
        tails["unknown"] = deque([str(error)])
    raw = {f"logs/{as_file_name(name, 'log')}.log": "\n".join(tails[name]) for name in tails}
    raw |= {
        name: path.read_text(errors="replace") for name, path in files.items() if path.is_file()
    }
    texts |= {name: without_secrets(text, hidden) for name, text in raw.items()}
    partial = file.with_name(f".{file.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as bundle:
            for name, text in texts.items():
                bundle.writestr(name, text)
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


def _each_without_secrets(value: Any, hidden: Iterable[str]) -> Any:
    """Returns a value with each text in it likewise, before JSON or YAML put quotes around it."""
    if isinstance(value, str):
        return without_secrets(value, hidden)
    if isinstance(value, list):
        return [_each_without_secrets(item, hidden) for item in value]
    if isinstance(value, Mapping):
        return {name: _each_without_secrets(member, hidden) for name, member in value.items()}
    return value


def _withheld(match: re.Match[str]) -> str:
    value, quote = match["quoted"] or match["value"] or "", match["quote"] or ""
    is_a_count = "token" in match["name"].lower() and value.replace(".", "").isdigit()
    if not value or is_a_count:
        return match[0]
    return f"{match['name']}{match['between']}{quote or match['open']}***{quote}"


def _secrets(content: Any, name: str = "") -> Iterator[str]:
    """Yields the secret values of parameters, or of a manifest."""
    if isinstance(content, str) and len(content) >= SHORTEST and is_secret(name, content):
        yield content
    value = arguments.parsed(content)
    if isinstance(value, Mapping):
        if isinstance(value.get("name"), str) and isinstance(value.get("value"), str):
            yield from _secrets(value["value"], value["name"])  # as Kubernetes has variables
        for key, member in value.items():
            yield from _secrets(member, str(key))
    elif isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        yield from (secret for secret in arguments.secrets(texts) if len(secret) >= SHORTEST)
        for item in value:
            if not isinstance(item, str):
                yield from _secrets(item)


def _spellings(secrets: Iterable[str]) -> list[str]:
    """Returns secrets as programs print them, the longest first: in JSON, in Python, by lines."""
    spelled = {
        spelling
        for secret in secrets
        for spelling in (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            repr(secret)[1:-1],
            *(line for line in secret.splitlines() if len(line) >= SHORTEST),
        )
    }
    return sorted(spelled, key=len, reverse=True)


def _versions() -> list[str]:
    return sorted({f"{package.metadata['Name']}=={package.version}" for package in distributions()})
