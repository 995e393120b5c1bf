"""Calls of the command line, as a tool of an agent makes them: an answer, or one sentence."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import TypeVar

from pydantic import TypeAdapter

from trireme.answers.answer import Part

A = TypeVar("A", bound=Part)

LIMIT = 600.0  # seconds that a command may take
PATIENCE = 20.0  # seconds for one that goes on by itself to be refused


class CommandFailed(Exception):
    """A command could not do what it should; the text is what a person or an agent needs."""


def answer(kind: type[A], words: Sequence[str]) -> A:
    """Returns the answer of a command, also of one that has found that something fails."""
    done = _run([*words, "--output", "json"])
    if not done.stdout.strip():
        raise CommandFailed(_problem(done))
    return _read(kind, done.stdout)


def lines(kind: type[A], words: Sequence[str]) -> list[A]:
    """Returns the answers of a command that writes one a line."""
    done = _run([*words, "--output", "json"])
    if done.returncode:
        raise CommandFailed(_problem(done))
    return [_read(kind, line) for line in done.stdout.split("\n") if line]


def text(words: Sequence[str]) -> str:
    """Returns what a command says that has done something."""
    done = _run(words)
    if done.returncode:
        raise CommandFailed(done.stderr.strip() or done.stdout.strip())
    return done.stdout.strip()


def start(words: Sequence[str]) -> None:
    """Starts a command that goes on by itself, and looks a while whether it is refused."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:  # a pipe would fill, or break
        process = subprocess.Popen(
            _command(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return
        if status == 2:
            errors.seek(0)
            raise CommandFailed(errors.read().strip())


def _command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "trireme", *words]


def _run(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            _command(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"trireme {words[0]} took more than {LIMIT:.0f} s") from None


def _read(kind: type[A], content: str) -> A:
    parsed: A = TypeAdapter(kind).validate_json(content)
    return parsed


def _problem(done: "subprocess.CompletedProcess[str]") -> str:
    """Returns what a command has said, as its error for scripts has it, in words."""
    last = done.stderr.strip().split("\n")[-1]
    try:
        problem = json.loads(last)
        parts = [problem["sentence"], *(f"next: {command}" for command in problem["next"])]
        return "\n".join([*parts, *problem["last_lines"]])
    except (ValueError, LookupError, TypeError):
        return last or f"it ended with status {done.returncode} and said nothing"
