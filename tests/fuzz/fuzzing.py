"""What somebody might hand over by mistake or to do harm, and what has to become of it."""

import inspect
import os
import re
import resource
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from trireme.errors import TriremeError

CORPUS = Path(__file__).parent / "corpus"

LONGEST = 2_100  # characters of a sentence
SECONDS = float(os.environ.get("TRIREME_FUZZ_SECONDS") or 0)
SOON = 1.0 if SECONDS else 20.0  # seconds of this process; machines that test are busy
ROOM = 300 << 10  # KiB by which the most memory that this process ever had may grow

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

SNIPPETS = [
    *("", "\0", "\n", "\r\n", "\t", "\x1b[2J", "\x9b2J", "\ud800", "\ufeff", "\u202e", "\u2028"),
    *("0", "-1", "1e999", "-0", "1e-400", ".nan", "NaN", "-Infinity", "0x10", "null", "true", "no"),
    *("2026-13-45", "0001-01-01", "9999-12-31", "0001-01-01T00:00:00+14:00"),
    *("9" * 30, "9" * 5_000, "\u0661", "=", "==", ";", "&", "%00", "%2e%2e"),
    *("0x" + "f" * 5_000, "1" + ":1" * 400 + ".5", "!!timestamp x", "!!bool x", "!!float ''"),
    *("[", "]", "{", "}", "(", ")", ":", ": ", ",", "- ", "? ", "|", ">", "#", "'", '"', "\\", "/"),
    *("&a ", "*a", "<<: ", "!!python/object:os.system ", "!!binary ", "!!timestamp ", "---\n", "%"),
    *("..", "../", "//", "~", "~root", "*", "**", "***/", "?", "[!", "@", "://", "$(", "{{$", "{{"),
    *("x" * 3_000, "[" * 3_000, "{a: " * 3_000, "é" * 300, "*a" * 100, "\U0001f980" * 100),
]
"""What readers stumble over."""

DEEP = [[]]
for _ in range(300):
    DEEP = [DEEP]

EXTREMES = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400),
    *(0.5, -0.0, 1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
    *([], {}, [[]], {"": ""}, {"\0": 1}, {"\x1b[2J": {"\ud800": []}}, DEEP, ["x"] * 2_000),
    {f"k{number}": number for number in range(2_000)},
    *SNIPPETS,
]
"""What no field is made for."""

# What a test changes comes from choices alone, so that hypothesis can make an example smaller.
_place = st.integers(0, 10_000)


def corpus(kind, which="*"):
    """Returns the files of a kind, such as ``valid-*``: what is right, or has broken a reader."""
    found = sorted((CORPUS / kind).glob(which))
    assert found, f"there is nothing in {CORPUS / kind}"
    return found


@st.composite
def changed_text(draw, texts):
    """Returns one of some texts with a few changes."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 5))):
        start, end = sorted(draw(_place) % (len(text) + 1) for _ in range(2))
        end = min(end, start + draw(st.sampled_from([0, 1, 5, 40, 10_000])))
        piece = text[start:end]
        instead = draw(
            st.sampled_from(["", piece * 2, piece * 50, piece[::-1]])
            | st.sampled_from(SNIPPETS)
            | st.text(max_size=10)
        )
        text = text[:start] + instead + text[end:]
    return text


@st.composite
def changed_bytes(draw, contents):
    """Returns one of some files' contents with a few changes."""
    content = draw(st.sampled_from(contents))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(_place) % (len(content) + 1)
        end = start + draw(st.sampled_from([0, 1, 2, 8, 100, 10_000]))
        most = st.sampled_from([b"", b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, b"{", b"9"])
        content = content[:start] + draw(most | st.binary(max_size=16)) + content[end:]
    return content


@st.composite
def changed_value(draw, values):
    """Returns one of some values of JSON with a few changes at any depth."""
    value = draw(st.sampled_from(values))
    for _ in range(draw(st.integers(1, 3))):
        value = _changed(draw, value)
    return value


def _changed(draw, value):
    if isinstance(value, dict | list) and value and draw(_place) % 5:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[draw(_place) % len(keys)]
        copy = value.copy()
        match draw(st.sampled_from(["within", "within", "within", "gone", "twice", "renamed"])):
            case "within":
                copy[key] = _changed(draw, value[key])
            case "gone":
                del copy[key]
            case "twice" if isinstance(copy, list):
                copy.insert(draw(_place) % len(copy), value[key])
            case "twice" | "renamed" if isinstance(copy, dict):
                copy[draw(st.sampled_from(SNIPPETS) | st.sampled_from(keys))] = value[key]
        return copy
    if isinstance(value, str) and draw(st.booleans()):
        return draw(changed_text([value]))
    wrapped = draw(st.sampled_from(["not", "list", "dict"]))
    if wrapped == "not":
        return draw(st.sampled_from(EXTREMES) | st.text(max_size=20) | st.integers() | st.floats())
    return [value] if wrapped == "list" else {"a": value}


def fuzz(few, **given_by):
    """Has a test run on a few examples, always the same; or on new ones for as long as is wanted.

    That is ``TRIREME_FUZZ_SECONDS``.
    """

    def decorate(test):
        once = settings(
            max_examples=200 if SECONDS else few,
            derandomize=not SECONDS,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            # Making an example smaller can take longer than finding it.
            phases=[Phase.generate] if SECONDS else [Phase.generate, Phase.shrink],
        )(given(**given_by)(test))

        def run(**fixtures):
            end = time.monotonic() + SECONDS
            once(**fixtures)
            while time.monotonic() < end:
                once(**fixtures)

        run.__name__, run.__signature__ = test.__name__, inspect.signature(once)
        return run

    return decorate


def read_or_refused(read, *given, within=SOON):
    """Returns what a reader makes of something; None where it says in a sentence why not.

    It does so soon, and in bounded memory.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    try:
        return read(*given)
    except TriremeError as error:
        sentence = str(error)
        assert sentence.strip(), "it says nothing"
        assert len(sentence) <= LONGEST, f"it says too much: {sentence}"
        assert not _CONTROL.search(sentence), f"it is no line: {sentence!r}"
        return None
    finally:
        took = time.process_time() - began
        assert took < within, f"it took {took:.1f} s"
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < ROOM, f"it took {grown >> 10} MiB"
