"""URLs of repositories: the kinds there are, and what is refused before git sees it."""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from trireme.errors import InputError
from trireme.files.home import in_a_pod

_HOST = r"(?P<host>\w[\w.-]*|\[[0-9A-Fa-f:.]+\])"
_USER = r"(\w[\w.+-]*@)"
_PATH = r"[^\s?#\x00-\x1f\x7f]"
_REMOTE = (
    re.compile(rf"(?P<scheme>https?|git)://{_HOST}(?P<port>:\d+)?/{_PATH}*"),
    re.compile(rf"(?P<scheme>ssh)://{_USER}?{_HOST}(?P<port>:\d+)?/{_PATH}*"),
    re.compile(rf"{_USER}{_HOST}:(?!-){_PATH}+"),  # ssh, as scp writes it
)
_LOCAL = re.compile(rf"file:///{_PATH}+")
_CREDENTIALS = re.compile(
    r"https?://[^/@\s]*@|\w+://[^/@\s:]*:[^/@\s]*@|[^/@\s][^/@\s:]*:[^/@\s]+@|https?://[^\s?]*\?"
    # What looks like a port may be the digits that a password with a slash begins with.
    r"|\w+://[\w-]+:\d+/[^\s?#]*@",
    re.IGNORECASE,
)
_BUNDLE = re.compile(r"bundle://(?P<place>configmap|mlflow)/(?P<commit>[0-9a-f]{40})")


class Bundle(NamedTuple):
    """What the URL of a bundle says, see ``checkout.bundle``."""

    place: str
    commit: str

    def __str__(self) -> str:
        """Returns the URL."""
        return f"bundle://{self.place}/{self.commit}"


class Server(NamedTuple):
    """What a remote URL leads to."""

    scheme: str
    host: str
    origin: str


def check(url: str) -> None:
    """Refuses what is neither a URL nor a directory, and a URL that holds a secret."""
    if _CREDENTIALS.match(url):
        raise InputError(
            "code_url holds a password or token, which would end up in logs and records; give the "
            "URL without it, and in code_secret the name of a Secret that holds it"
        )
    if bundle(url):
        return
    if url.startswith("@"):
        raise InputError(f"code_url {url!r}: a saved name is given as code={url}")
    if url and not server(url) and not _LOCAL.fullmatch(url) and not _is_directory(url):
        raise InputError(
            f"code_url {shown(url)!r} is neither a directory on this machine nor an https, ssh, "
            "git or file URL"
        )


def check_there(url: str) -> None:
    """Refuses a directory of this machine, which the pods of a cluster cannot have."""
    if is_directory(url):
        raise InputError(
            f"code_url {shown(url)!r}: this machine's directories travel to a cluster with "
            "'trireme run' only; give a server's URL, or a file:// URL of a volume that the pods "
            "mount"
        )


def source(url: str) -> str:
    """Returns the URL of a repository for git; a directory becomes a ``file://`` URL."""
    if server(url) or bundle(url):
        return url
    folder = path(url) if is_local(url) else directory(url)
    if in_a_pod() and not _is_on_a_volume(folder):
        raise InputError(
            f"code_url {url!r}: in a pod a repository must be on a mounted volume, such as the "
            "run's workspace, or come from a server"
        )
    return folder.as_uri()


def of_submodule(url: str, parent: str) -> str:
    """Returns the URL of a submodule for git."""
    absolute = _joined(parent, url) if url.startswith(("./", "../")) else url
    if _CREDENTIALS.match(absolute):
        raise InputError("its URL holds a password or token; remove it there")
    if server(absolute):
        return absolute
    if is_local(parent) and (_LOCAL.fullmatch(absolute) or absolute.startswith("/")):
        return source(absolute)
    raise InputError(f"its URL {shown(absolute)!r} is not an https, ssh or git URL")


def is_local(source: str) -> bool:
    """Whether a repository is a directory on this machine."""
    return source.startswith("file://")


def bundle(url: str) -> Bundle | None:
    """Returns what the URL of a bundle says; None for anything else."""
    match = _BUNDLE.fullmatch(url)
    return Bundle(**match.groupdict()) if match else None


def path(source: str) -> Path:
    """Returns the directory that a ``file://`` URL names."""
    return Path(unquote(urlsplit(source).path))


def server(url: str) -> Server | None:
    """Returns what a remote URL leads to; None for anything else."""
    for pattern in _REMOTE:
        if match := pattern.fullmatch(url):
            parts = {"scheme": "ssh", "port": ""} | match.groupdict(default="")
            scheme, host = parts["scheme"], parts["host"]
            return Server(scheme, host, f"{scheme}://{host}{parts['port']}")
    return None


def shown(url: str) -> str:
    """Returns a URL that was refused without the parts that could be a secret."""
    return re.sub(r"(?s)\?.*", "?...", re.sub(r"(?s)\A(\w+://)?.*@", r"\1...@", url))


def _joined(parent: str, relative: str) -> str:
    base, separator = parent.rstrip("/"), "/"
    while relative.startswith(("./", "../")):
        up, _, relative = relative.partition("/")
        if up == "..":
            # git@example.org:code.git has nothing but a colon to cut at.
            separator = "/" if "/" in base else ":"
            base = base.rpartition(separator)[0]
    return f"{base}{separator}{relative}"


def directory(path: str) -> Path:
    """Returns the directory of this machine that a path means."""
    return Path(path).expanduser().resolve()


def is_directory(url: str) -> bool:
    """Whether this is a directory of this machine, and no URL."""
    return bool(url) and not server(url) and "://" not in url and _is_directory(url)


def _is_directory(text: str) -> bool:
    try:
        return Path(text).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, not a path, no such user
        return False


def _is_on_a_volume(directory: Path) -> bool:
    """Whether a directory is outside of the container's own file system, or not there at all."""
    return not directory.exists() or directory.stat().st_dev != Path("/").stat().st_dev
