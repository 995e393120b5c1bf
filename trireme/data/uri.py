"""URIs of datasets."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from trireme import plugins
from trireme.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NONE = "builtin://none"
"""The dataset of programs that bring their own data: no files, so that DATA_DIR is empty."""

BUILTIN = ("builtin://digits", "builtin://python-source", NONE)
"""Datasets that come with Trireme."""

STORES = ("oss", "s3", "gs")
"""Kinds that are a bucket of an object store."""

MOUNTED = ("pvc", "nfs")
"""Kinds that can only be mounted, on a cluster."""

ACCEPTED = (
    "a path, file://, builtin://digits, pvc://claim/path, nfs://server/path, oss://bucket/path, "
    "s3://bucket/path, gs://bucket/path, hf://org/name, hf://datasets/org/name, https://, "
    "http://{}, and builtin://none for no dataset"
)
"""What a dataset may be, with a place for the schemes of other packages."""

CLAIM = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""What the name of a PersistentVolumeClaim looks like."""

_REGISTERED = re.compile(r"models:/([^/@]+)(?:@([^/@]+)|/([0-9]+))?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_PLACES = {
    "pvc": (CLAIM, "the name of a claim"),
    "nfs": (re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?"), "a server"),
    **dict.fromkeys(
        STORES, (re.compile(r"[A-Za-z0-9][-._A-Za-z0-9]{1,220}[A-Za-z0-9]"), "a bucket")
    ),
}
_REPOSITORY = re.compile(
    r"(?P<name>(datasets/)?(?!datasets/)[A-Za-z0-9][-._A-Za-z0-9]*/[A-Za-z0-9][-._A-Za-z0-9]*)"
    r"(@(?P<revision>[-._%A-Za-z0-9]+))?(?P<path>/[^\0]+)?"
)
_LOGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@")
_SECRET_PARAMETER = re.compile(
    r".*(signature|token|credential|passw|secret).*|sig|auth.*|(.*[-_])?(access|api|private)?[-_]?key",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Place:
    """A URI taken apart.

    Attributes:
        kind: ``file``, ``builtin``, ``pvc``, ``nfs``, ``oss``, ``s3``, ``gs``, ``hf``, ``http`` or
            ``models``, or the scheme of another package's source.
        host: A bucket, a server, a claim; of ``hf`` a repository, ``datasets/org/name`` or
            ``org/name``; of ``models`` the name of a registered model.
        path: What is meant in there, with no ``/`` at either end; for ``file`` a path here.
        revision: Of ``hf``: a branch, a tag or a commit; of ``models``: an alias or a version.
    """

    kind: str
    host: str
    path: str
    revision: str = ""


def added() -> "dict[str, EntryPoint]":
    """Returns what other packages have for schemes of their own, by scheme."""
    built_in = ("file", "builtin", "http", "https", "hf", *STORES, *MOUNTED)
    return plugins.found(plugins.DATA_SOURCES, built_in)


def accepted() -> str:
    """Says what a dataset may be."""
    return ACCEPTED.format("".join(f", {scheme}://" for scheme in added()))


def place(uri: str) -> Place:
    """Takes a dataset's URI apart."""
    if not uri or "\0" in uri:
        raise InputError(f"dataset_uri {uri!r} names nothing; accepted are {accepted()}")
    if holder := _LOGIN.match(uri):
        raise InputError(_advice(holder[1]))
    if uri.startswith("models:/"):
        return _registered(uri)
    match = _SCHEME.fullmatch(uri)
    if not match:
        return Place("file", "", uri)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return _file(uri, rest)
    if scheme == "builtin":
        if uri not in BUILTIN:
            raise InputError(
                f"dataset_uri {uri!r} is not built in; built in are {', '.join(BUILTIN)}"
            )
        return Place("builtin", "", rest)
    if scheme in ("http", "https"):
        return _web(uri)
    if scheme == "hf":
        return _hub(uri, rest)
    if scheme not in (*_PLACES, *added()):
        raise InputError(
            f"dataset_uri {uri!r}: {scheme}:// is not supported; accepted are {accepted()}"
        )
    host, _, path = rest.partition("/")
    if "@" in host:
        raise InputError(_advice(f"{scheme}://"))
    pattern, expected = _PLACES.get(scheme, (re.compile(r".+"), "a place"))
    if not pattern.fullmatch(host):
        raise InputError(
            f"dataset_uri {uri!r}: {host!r} is not {expected}, as in {scheme}://NAME/path"
        )
    path = path.strip("/")
    if path and not set(path.split("/")).isdisjoint({"", ".", ".."}):
        raise InputError(f"dataset_uri {uri!r}: the path must not hold '//', '.' or '..'")
    return Place(scheme, host, path)


def origin(url: str) -> tuple[str, str, int]:
    """Returns what a URL leads to: scheme, server and port; https where it names no scheme."""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        return parts.scheme, parts.hostname or "", port
    except ValueError:  # which who uses it says
        return "", "", 0


def at_commit(uri: str, commit: str) -> str:
    """Returns the URI of a Hub's repository as it was at a commit, or of a model's version."""
    repository = place(uri)
    if repository.kind == "models":
        return commit
    return f"hf://{repository.host}@{commit}/{repository.path}".rstrip("/")


def absolute(uri: str) -> str:
    """Returns a URI that means the same in any folder: a relative path with its folder."""
    is_named = _SCHEME.fullmatch(uri) or uri.startswith(("/", "~", "models:/"))
    is_relative = uri and not is_named
    return str(Path(uri).absolute()) if is_relative else uri


def local(uri: str) -> Path:
    """Returns the file or directory here that a URI of the kind ``file`` names."""
    try:
        path = Path(place(uri).path).expanduser()
        if path.exists():
            return path
    except (OSError, ValueError, RuntimeError):  # too long, not a path, no such user
        pass
    raise InputError(f"dataset_uri {uri!r}: there is no such file or directory")


def _file(uri: str, rest: str) -> Place:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise InputError(f"dataset_uri {uri!r}: must be file:///path, a path on this machine")
    return Place("file", "", unquote(f"/{path}"))


def _hub(uri: str, rest: str) -> Place:
    # As in https://huggingface.co/docs/huggingface_hub/guides/hf_file_system
    match = _REPOSITORY.fullmatch(rest.removesuffix("/"))
    if not match or not set((match["path"] or "").split("/")[1:]).isdisjoint({"", ".", ".."}):
        raise InputError(
            f"dataset_uri {uri!r}: must be hf://org/name[@revision][/path] of a model, or "
            "hf://datasets/org/name[@revision][/path]"
        )
    return Place(
        "hf", match["name"], (match["path"] or "")[1:], unquote(match["revision"] or "main")
    )


def _registered(uri: str) -> Place:
    # As MLflow has it: https://mlflow.org/docs/latest/ml/model-registry/
    match = _REGISTERED.fullmatch(uri)
    if not match:
        raise InputError(
            f"dataset_uri {uri!r}: must be models:/NAME, models:/NAME@ALIAS or models:/NAME/VERSION"
        )
    return Place("models", match[1], "", match[2] or match[3] or "")


def _web(uri: str) -> Place:
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port  # either is only looked at when it is asked for
    except ValueError:
        raise InputError(f"dataset_uri {uri!r} is not a URL") from None
    if parts.username is not None or parts.password is not None:
        raise InputError(_advice(f"{parts.scheme}://"))
    if any(_SECRET_PARAMETER.fullmatch(name) for name, _ in parse_qsl(parts.query)):
        raise InputError(_advice(f"{parts.scheme}://{host}{parts.path}"))
    if not host or re.search(r"\s", uri):
        raise InputError(f"dataset_uri {uri!r} is not a URL")
    name = unquote(parts.path.rpartition("/")[2])
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise InputError(f"dataset_uri {uri!r}: must name a file, as in https://host/name.csv")
    return Place("http", host, name)


def _advice(shown: str) -> str:
    return (
        f"dataset_uri {shown}... holds a password, a key or a signature, which would end up in "
        "logs and records; give the URI without it and name a Secret"
    )
