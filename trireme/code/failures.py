"""Failures of git, by its words: a fault to try again, or an answer to tell a person."""

import re

from trireme.code.url import server
from trireme.credentials import certificates
from trireme.errors import InputError, TriremeError

_FAULT = re.compile(
    r"requested URL returned error: (429|5\d\d)|HTTP (429|5\d\d)|timed? ?out|too slow|"
    r"could not resolve|name resolution|failed to connect|couldn't connect|unable to connect|"
    r"connection (was )?(reset|refused|closed|aborted|timed out)|broken pipe|early EOF|RPC failed|"
    r"unexpected disconnect|empty reply|recv failure|send failure|transfer closed|"
    r"hung up unexpectedly|not closed cleanly|kex_exchange_identification|network is unreachable|"
    r"expected flush|bad line length|protocol error|index-pack failed|"
    r"no route to host|SSL_(connect|read|write|ERROR_SYSCALL)|gnutls_handshake|unexpected EOF|"
    r"died of signal|^(killed|terminated)$",
    re.IGNORECASE | re.MULTILINE,
)
_REFUSED = re.compile(
    r"authentication failed|could not read (username|password)|terminal prompts disabled|"
    r"returned error: 40[13]|permission denied \(|access denied",
    re.IGNORECASE,
)
_HOST_KEY = re.compile(r"host key verification failed|identification has changed", re.IGNORECASE)
_NO_REPOSITORY = re.compile(
    r"repository .*not found|returned error: 404|does not appear to be a git repository",
    re.IGNORECASE,
)
_NOT_THERE = re.compile(
    r"couldn't find remote ref|not our ref|unadvertised object|no such remote ref|"
    r"could not find remote ref",
    re.IGNORECASE,
)
_TELLING = ("Error downloading object:", "fatal:", "error:", "ssh:")
_SAYING_NOTHING = re.compile(
    r"could not read from remote repository|^warning:|hung up unexpectedly|"
    r"correct access rights|repository exists",
    re.IGNORECASE,
)


def is_fault(output: str) -> bool:
    """Whether git failed for a reason that may be gone at the next attempt."""
    answers = (_REFUSED, _HOST_KEY, _NO_REPOSITORY, _NOT_THERE)
    return bool(_FAULT.search(output)) and not any(answer.search(output) for answer in answers)


def is_not_there(output: str) -> bool:
    """Whether the server has no such branch, tag or commit, or does not hand it out by its id."""
    return bool(_NOT_THERE.search(output))


def reason(output: str) -> str:
    """Returns the line that tells most, fit for a terminal.

    URLs lose what may be secret: LFS servers sign theirs in the query, and a person's own
    configuration of git may put a token before the host.
    """
    output = re.sub(r"://[^/@\s']+@", "://", re.sub(r"\?[^\s']+", "?...", output))
    lines = ["".join(filter(str.isprintable, line)) for line in output.splitlines()]
    lines = [line.strip() for line in lines if line.strip()]
    worth = [line for line in lines if not _SAYING_NOTHING.search(line)]
    telling = [line for line in worth if line.startswith(_TELLING)]
    return (telling or worth or lines or ["git said nothing"])[0]


def unreadable(source: str, output: str, secret: str) -> TriremeError:
    """Returns why a repository cannot be read, and what can be done, as an error to raise."""
    if _HOST_KEY.search(output):
        where = f"as known_hosts to the Secret {secret!r}" if secret else "to ~/.ssh/known_hosts"
        return InputError(
            f"code_url {source!r} cannot be read: the server's key is unknown or has changed; "
            f"compare it with the key that its owner publishes and add it {where}"
        )
    if untrusted := certificates.refused(output, f"code_url {source!r}", "GIT_SSL_CAINFO"):
        return untrusted
    sentence = f"code_url {source!r} cannot be read: {reason(output)}"
    if is_fault(output):
        return TriremeError(sentence)
    advice = _advice(source, output, secret)
    return InputError(f"{sentence}; {advice}" if advice else sentence)


def _advice(source: str, output: str, secret: str) -> str:
    of_ssh = (to := server(source)) is not None and to.scheme == "ssh"
    needed = "ssh-privatekey" if of_ssh else "username and password or token"
    if secret and _REFUSED.search(output):
        return f"check the {needed} of the Secret {secret!r}"
    if secret and _NO_REPOSITORY.search(output):
        return f"check the URL, and that the Secret {secret!r} may read it"
    if to and (_REFUSED.search(output) or _NO_REPOSITORY.search(output)):
        return f"a private repository needs code_secret, the name of a Secret with {needed}"
    return ""
