"""Variables that open servers for this user, which somebody else's program is not given."""

import os
import re
from collections.abc import Collection

SHORTEST = 8  # characters of a value that is looked for in a text

_SECRET = re.compile(
    r".*(TOKEN(?!IZER)|PASSW|PASSPHRASE|SECRET|CREDENTIAL|ASKPASS|COOKIE|_AUTH$|_PAT$).*"
    r"|.*(API|ACCESS|ACCOUNT|PRIVATE|SERVICE|STORAGE)_?KEY.*"
    r"|(AWS|AZURE|GOOGLE|CLOUDSDK|OSS|ALIBABA_?CLOUD)_.*",
    re.IGNORECASE,
)
_WITHHELD = re.compile(
    rf"{_SECRET.pattern}|(TRIREME|KFP?|ARGO)_.*"
    r"|MLFLOW_(TRACKING|REGISTRY|RUN_ID|EXPERIMENT)_?.*"
    r"|UV_INDEX_.*_USERNAME|KUBECONFIG|NETRC|SSH_AUTH_SOCK|DOCKER_CONFIG|REGISTRY_AUTH_FILE",
    re.IGNORECASE,
)
# What services give, by its form, and what stands where a login is asked for.
_TOKEN = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|glpat-[\w-]{20,}"
    r"|AKIA[0-9A-Z]{16})\b|(?<=Bearer )[^\s'\"]+"
)
# A login in a URL, as of a database.
_LOGIN = re.compile(r"(?<=\w://)[^/@\s]+@")
_HAVE_LOGINS = re.compile(r".*_PROXY", re.IGNORECASE)
"""Variables whose URLs whatever asks a server needs as they are."""


def is_withheld(name: str, value: str = "") -> bool:
    """Whether a variable is one that only this user's own programs are given."""
    has_login = bool(_LOGIN.search(value)) and not _HAVE_LOGINS.fullmatch(name)
    return has_login or bool(_WITHHELD.fullmatch(name))


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is one that nobody else may read."""
    return bool(_SECRET.fullmatch(name) or _LOGIN.search(value))


def without_values(text: str) -> str:
    """Returns a text without what variables that are withheld hold, tokens, and logins in URLs."""
    for name, value in os.environ.items():
        if len(value) >= SHORTEST and _WITHHELD.fullmatch(name):
            text = text.replace(value, "***")
    return _LOGIN.sub("***@", _TOKEN.sub("***", text))


def environment(allowed: Collection[str] = ()) -> dict[str, str]:
    """Returns the environment without what is withheld.

    Args:
        allowed: Names of variables that are given nevertheless.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in allowed or not is_withheld(name, value)
    }
