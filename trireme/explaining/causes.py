"""The cause of a failure, by rules on what was said of it and printed last."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from trireme.answers.explanations import Cause, LiesWith
from trireme.cause import OF_A_LIBRARY, exception
from trireme.credentials.withheld import without_values
from trireme.runner.failed_replica import is_peer_loss


class Rule(NamedTuple):
    """A kind of failure.

    Attributes:
        said: What its sentence has.
        printed: What the last lines have, which may say it where the sentence does not.
        remedy: What to do, for a person.
        goes_on: Whether to resume is likely to help, with nothing changed.
    """

    kind: str
    lies_with: LiesWith
    said: str
    remedy: str
    printed: str = r"(?!)"
    goes_on: bool = False


RULES = (
    Rule(
        "cancelled", "person", r"was cancelled", "it can go on, if that was not meant", goes_on=True
    ),
    Rule(
        "preflight",
        "machine",
        r"\Apreflight: ",
        "mend what the preflight names, and start it again",
    ),
    Rule(
        "gpu-memory",
        "limits",
        r"CUDA out of memory|OutOfMemoryError|OOM when allocating",
        "make the batch smaller, or let activations be checkpointed; 'trireme strategy' says what "
        "fits",
        r"CUDA out of memory|OutOfMemoryError: CUDA|OOM when allocating",
    ),
    Rule(
        "out-of-memory",
        "limits",
        r"lack of memory|OOMKilled|needs more memory|out of memory|\bMemoryError\b",
        "give its replicas more memory, or load less at once: a smaller batch, fewer loaders",
        r"^.*\bMemoryError\b|DefaultCPUAllocator: (can't|not enough)",
    ),
    Rule(
        "lost-node",
        "machine",
        r"removed from its node|was evicted|is NotReady|pod was deleted while it ran",
        "it can go on from its last checkpoint, on another node",
        goes_on=True,
    ),
    Rule(
        "machine-down",
        "machine",
        r"this machine went down|the command that ran it was killed",
        "it can go on from its last checkpoint",
        goes_on=True,
    ),
    Rule(
        "gpu-fault",
        "machine",
        r"CUDA error(?!: device-side assert)|\bXid\b|uncorrectable ECC",
        "try it on another node, and have this one's GPU looked at",
        r"CUDA error(?!: device-side assert)|\bXid\b|uncorrectable ECC",
        goes_on=True,
    ),
    Rule(
        "time-limit",
        "limits",
        r"time limit|^the budget of",
        "raise time_limit or budget; what it has trained is in its last checkpoint",
    ),
    Rule(
        "hang",
        "unknown",
        r"\bhangs?\b",
        "look at the stacks in its logs: they say where each process stands",
    ),
    Rule(
        "not-started",
        "input",
        r"could not be started|did not start|ImagePull|ErrImage|CreateContainer",
        "mend the image, the command or what it mounts",
    ),
    Rule(
        "tracking",
        "machine",
        r"\bMLflow (at|refuses|does not)|is not in MLflow",
        "see that MLflow answers; then it can go on",
        goes_on=True,
    ),
)
"""The first that fits is taken."""

PEER = Rule(
    "peer-lost",
    "machine",
    "",
    "look at the other replicas' logs: this one only says that another was gone",
    goes_on=True,
)
EXCEPTION = Rule(
    "exception",
    "program",
    "",
    "mend the program and start it anew: to resume would take the same code",
)
CRASH = Rule("crash", "program", "", "a library of the program crashed; its versions may not fit")
KILLED = Rule(
    "killed",
    "unknown",
    "",
    "find who ended it: a scheduler, the kernel for lack of memory, or a person; then it can go on",
    goes_on=True,
)
STATUS = Rule("exit-status", "program", "", "look at what it printed before it ended")
NOT_VALID = Rule("invalid-input", "input", "", "correct what the sentence names, and start it anew")
NOT_KNOWN = Rule("unknown", "unknown", "", "look at its logs")

EVERY = (*RULES, PEER, EXCEPTION, CRASH, KILLED, STATUS, NOT_VALID, NOT_KNOWN)

_REPLICA = re.compile(r"replica (?P<name>[a-z][\w-]*-\d+)\b")
_STATUS = re.compile(r"exited with status (?P<status>\d+)")
_SIGNAL = re.compile(r"was ended by (?P<signal>SIG[A-Z0-9]+)")
_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
_FRAME = re.compile(r'^\s+File "(?P<file>.+?)", line (?P<line>\d+)')
_OF_A_REPLICA = re.compile(r"\[(?P<name>[a-z][\w-]*-\d+)\] ?(?P<line>.*)")


def cause(
    sentence: str, lines: Sequence[str], *, step: str = "", replica: str = "", status: int = 0
) -> tuple[Cause, Rule]:
    """Returns why something failed, and the rule by which that is known.

    Args:
        sentence: What was said of it.
        lines: What its replica has printed last, each with or without its name.
        status: The exit status of the command; 2 where the input is at fault.
    """
    printed = [match["line"] if (match := _OF_A_REPLICA.match(line)) else line for line in lines]
    raised = exception(printed)
    rule = _rule(sentence, printed, raised, status)
    replica_match, exited = _REPLICA.search(sentence), _STATUS.search(sentence)
    printer = next((match["name"] for line in lines if (match := _OF_A_REPLICA.match(line))), "")
    result = Cause(
        kind=rule.kind,
        lies_with=rule.lies_with,
        sentence=without_values(sentence),
        step=step,
        replica=replica_match["name"] if replica_match else replica or printer,
        exit_status=int(exited["status"]) if exited else None,
        exception=raised,
        place=_place(printed) if raised else "",
    )
    return result, rule


def _rule(sentence: str, lines: Sequence[str], raised: str, status: int) -> Rule:
    text = "\n".join(lines)
    for rule in RULES:
        if re.search(rule.said, sentence) or re.search(rule.printed, text, re.MULTILINE):
            return rule
    if raised and is_peer_loss([raised]):
        return PEER
    if raised:
        return EXCEPTION
    if signal := _SIGNAL.search(sentence):
        return CRASH if signal["signal"] in _CRASHES else KILLED
    if _STATUS.search(sentence):
        return STATUS
    return NOT_VALID if status == 2 else NOT_KNOWN


def _place(lines: Sequence[str]) -> str:
    """Returns the innermost line of the program itself that a traceback has."""
    frames = [frame for line in lines if (frame := _FRAME.match(line))]
    own = [frame for frame in frames if not OF_A_LIBRARY.match(frame["file"])]
    if not own:
        return ""
    return f"{own[-1]['file'].rpartition('/')[2]}:{own[-1]['line']}"
