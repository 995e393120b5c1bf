"""Credentials for git: what a Secret holds, never on disk or in a command line.

Secrets have the keys that Kubernetes gives them: ``username`` and ``password``
(kubernetes.io/basic-auth; a token is a password), ``ssh-privatekey`` (kubernetes.io/ssh-auth), and
beside it ``known_hosts``.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from trireme.code.url import Server, is_local, server
from trireme.credentials import secrets
from trireme.errors import InputError

KEYS = ("username", "password", "ssh-privatekey", "known_hosts")

ANY_USER = "oauth2"
"""A user name that GitHub, GitLab and Gitee take together with a token."""

_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15"


class Access(NamedTuple):
    """What git is run with to reach a repository."""

    options: tuple[str, ...]
    environment: dict[str, str]
    hidden: tuple[str, ...] = ()


@contextmanager
def access(source: str, name: str) -> Iterator[Access]:
    """Gives what git needs to reach a repository, for as long as this is entered.

    With a Secret nothing else is used: no key, password store or configuration of ssh that
    happens to be on this machine. Without one, git finds what it always finds.
    """
    secret = secrets.read(name, "code", KEYS)
    environment = {"GIT_ALLOW_PROTOCOL": "https:http:ssh:git" + ":file" * is_local(source)}
    if not secret:
        if name:
            raise InputError(
                f"code_secret {name!r}: there is no such Secret with one of {', '.join(KEYS)}"
            )
        ssh = os.environ.get("GIT_SSH_COMMAND", _SSH)
        yield Access((), environment | {"GIT_SSH_COMMAND": ssh})
        return
    to = server(source)
    _check(secret, name, to)
    if to:
        secrets.check_host("code_secret", name, "code", to.host)
    with ExitStack() as stack:
        options = ["-c", "credential.helper=", "-c", "core.askPass="]
        if to and to.scheme in ("http", "https"):
            options += ["-c", f"credential.{to.origin}.helper={_helper(secret, stack)}"]
        ssh = _ssh(secret, name, stack)
        environment |= {"GIT_SSH_COMMAND": ssh, "GIT_ASKPASS": "", "SSH_ASKPASS": ""}
        hidden = (secret["password"],) if secret.get("password") else ()
        yield Access(tuple(options), environment, hidden)


@contextmanager
def for_others(url: str, name: str) -> Iterator[dict[str, str]]:
    """Gives the variables by which git that others run opens what the Secret opens.

    The password goes to the repository's own server alone.
    """
    if not url or not secrets.read(name, "code", KEYS):
        yield {}
        return
    with access(url, name) as granted:
        settings = [option.partition("=") for option in granted.options[1::2]]
        # https://git-scm.com/docs/git-config#ENVIRONMENT
        variables = {"GIT_CONFIG_COUNT": str(len(settings))}
        for number, (key, _, value) in enumerate(settings):
            variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        granted.environment.pop("GIT_ALLOW_PROTOCOL")  # uv also reads what it has on the disk
        yield variables | granted.environment


def _check(secret: secrets.Secret, name: str, to: Server | None) -> None:
    for key in ("username", "password"):
        if any(character in secret.get(key, "") for character in "\r\n\0"):
            raise InputError(f"code_secret {name!r}: its {key} must be one line")
    if to and to.scheme in ("http", "https") and not secret.get("password"):
        raise InputError(f"code_secret {name!r} has no password, which {to.origin} needs")
    if to and to.scheme == "ssh" and "ssh-privatekey" not in secret:
        raise InputError(f"code_secret {name!r} has no ssh-privatekey, which {to.host} needs")


def _helper(secret: secrets.Secret, stack: ExitStack) -> str:
    """Returns a credential helper, which git runs only for the origin that it is configured for."""
    # Unlike what GIT_ASKPASS names it is not asked in words that would have to be understood to
    # know whose password is wanted, for instance after a redirect. See
    # https://git-scm.com/docs/gitcredentials.
    username = secret.get("username") or ANY_USER
    answer = _memory_file(f"username={username}\npassword={secret['password']}\n", stack)
    return f'!answer() {{ test "$1" != get || cat {answer}; }}; answer'


def _ssh(secret: secrets.Secret, name: str, stack: ExitStack) -> str:
    command = f"{_SSH} -F none -o IdentitiesOnly=yes -o IdentityAgent=none"
    command += " -o StrictHostKeyChecking=yes -o UpdateHostKeys=no"
    if "ssh-privatekey" in secret:
        # A key that was pasted on Windows, or that lost the end of its last line, is refused.
        key = _memory_file(secret["ssh-privatekey"].replace("\r\n", "\n") + "\n", stack)
        _check_key(key, name)
        command += f" -i {key}"
    if "known_hosts" in secret:
        known_hosts = _memory_file(secret["known_hosts"] + "\n", stack)
        command += f" -o UserKnownHostsFile={known_hosts} -o GlobalKnownHostsFile=none"
    return command


def _memory_file(content: str, stack: ExitStack) -> str:
    """Returns the name of a file in memory, readable by this user, that ends with this process."""
    descriptor = os.memfd_create("secret")
    stack.callback(os.close, descriptor)
    os.fchmod(descriptor, 0o600)
    with os.fdopen(os.dup(descriptor), "w") as file:
        file.write(content)
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _check_key(key: str, name: str) -> None:
    try:
        checked = subprocess.run(
            ["ssh-keygen", "-y", "-P", "", "-f", key],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    except FileNotFoundError:
        raise InputError("ssh is not installed; install openssh-client and run again") from None
    nobody = "No user exists" in checked.stderr  # as pods run that have a number for a user
    if checked.returncode != 0 and not nobody:
        raise InputError(
            f"code_secret {name!r}: its ssh-privatekey is not a private key, or needs a "
            "passphrase, which nobody can type here"
        )
