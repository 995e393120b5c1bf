"""Passwords, tokens and keys, known by the name of the Secret that holds them.

On a cluster a name is that of a Kubernetes Secret, which is mounted into the step's pod. Here the
same name is that of a directory, ``~/.trireme/secrets/NAME`` with a file for each key, or of
environment variables ``NAME_KEY``, such as ``TRIREME_CODE_PASSWORD`` for the key ``password`` of
``trireme-code``.

The key ``host`` of any names the servers that it is for; it is sent to no other then.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from trireme.errors import InputError
from trireme.files.home import home, mounted

MOUNTS = Path("/var/run/secrets/trireme")
"""Where pods have their Secrets, in a directory for each purpose."""

DEFAULTS = {
    "code": "trireme-code",
    "requirements": "trireme-requirements",
    "dataset": "trireme-dataset",
    "base_model": "trireme-base-model",
    "webhook": "trireme-webhook",
}
"""What Secrets are called where nobody says otherwise, by purpose; there need not be one."""

HOST = "host"

# Kubernetes takes dots, too, but Kubeflow Pipelines also calls the pod's volume by this name.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Secret(dict[str, str]):
    """The keys of a Secret and their values, which do not show when it is printed."""

    def __repr__(self) -> str:
        """Returns the names of the keys alone."""
        return f"Secret({', '.join(self)})"


def check(field: str, name: str) -> None:
    """Refuses what cannot be the name of a Secret."""
    if name and not _NAME.fullmatch(name):
        raise InputError(
            f"{field} {name!r}: must be the name of a Secret, of small letters, digits and -"
        )


def given(name: str, purpose: str) -> str:
    """Returns the name of the Secret to use: empty where it is the default and there is none."""
    if name != DEFAULTS[purpose]:
        return name
    mount = MOUNTS / purpose
    if mount.is_dir():
        return name if mounted(mount) else ""
    return name if is_here(name) else ""


def is_here(name: str) -> bool:
    """Whether this machine has a Secret of that name."""
    variables = any(variable.startswith(f"{_prefix(name)}_") for variable in os.environ)
    return bool(name) and (variables or (home() / "secrets" / name).is_dir())


def hosts(name: str, purpose: str) -> list[str]:
    """Returns the servers that a Secret is for; none where it does not say that."""
    return read(name, purpose, [HOST]).get(HOST, "").split()


def check_host(field: str, name: str, purpose: str, host: str) -> None:
    """Refuses to send what a Secret holds to another server than it is for, where it says that."""
    if (own_hosts := hosts(name, purpose)) and host not in own_hosts:
        raise InputError(
            f"{field} {name!r}: its key {HOST} says that it is for {', '.join(own_hosts)}, and "
            f"not for {host}"
        )


def check_named_elsewhere(
    where: str, name: str, purpose: str, host: str, by: str = "the repository's file"
) -> None:
    """Refuses to send a Secret of this machine to a server that its user has not named."""
    if not is_here(name) or host in hosts(name, purpose):
        return
    raise InputError(
        f"{where}: the Secret {name} of this machine would be sent to {host}, which only {by} "
        f"names; if it is for that server, write {host} into its key {HOST}, "
        f"{home() / 'secrets' / name / HOST}, or set {_prefix(name)}_{_prefix(HOST)}={host}"
    )


def read(name: str, purpose: str, keys: Iterable[str]) -> Secret:
    """Returns what there is of a Secret."""
    mount = MOUNTS / purpose
    if mount.is_dir():
        return _in(mount, keys)
    if not name:
        return Secret()
    variables = {key: f"{_prefix(name)}_{_prefix(key)}" for key in keys}
    values = {key: os.environ[name] for key, name in variables.items() if name in os.environ}
    return Secret(_in(home() / "secrets" / name, keys) | values)


def _prefix(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def _in(directory: Path, keys: Iterable[str]) -> Secret:
    try:
        files = {key: directory / key for key in keys if (directory / key).is_file()}
        return Secret({key: file.read_text().rstrip("\r\n") for key, file in files.items()})
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the secret in {directory} cannot be read: {error}") from None
