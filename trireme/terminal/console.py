"""The view of a run: one live line per step, or plain lines when nobody watches."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import typer

from trireme.observers.printed.position import position
from trireme.plain import plain
from trireme.progress import Progress
from trireme.terminal.engine_lines import KfpLines
from trireme.terminal.step_line import Line
from trireme.text.say import forget_reader

if TYPE_CHECKING:
    from trireme.terminal.live import Screen

BURST = 50  # lines that come together and are all looked at
WIDTH = 300  # characters of a line that are shown while it is the latest

_WARNING = "warning: "  # of the step itself; what programs print begins with their replica
_REPLICA = re.compile(r"\[(?:master|chief|launcher|worker)-0\] (.*)")  # one of these speaks
_WORKER = "[worker-0] "  # only where there is none of the others

_COPYING = re.compile(r"(\S+ \S+ of \S+ \S+, [\d,]+ of [\d,]+ files, .*)")  # a dataset


class Console:
    """Shows a run on a terminal, or as plain lines to anything else."""

    def __init__(self, stream: TextIO, verbose: bool = False) -> None:
        self._stream = stream
        self._verbose = verbose
        self._is_terminal = _is_terminal(stream)
        self._live = self._is_terminal and not verbose
        self._screen: Screen | None = None
        self._lines: dict[str, Line] = {}
        self._loops: dict[str, str] = {}
        self._begun: dict[str, float] = {}
        self._kfps = KfpLines()

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Shows on a terminal what is waited for before the first step."""
        if not self._live:
            yield
            return
        with self._drawn() as screen, screen.waiting(text):
            yield

    @contextmanager
    def showing(self, steps: list[str]) -> Iterator[None]:
        """Shows the steps while they run."""
        self._lines = {name: Line() for name in steps}
        if not self._live:
            yield
            return
        with self._drawn() as screen, screen.showing(self._lines):
            yield

    @contextmanager
    def _drawn(self) -> "Iterator[Screen]":
        from trireme.terminal.live import Screen

        self._screen = Screen(self._stream)
        try:
            yield self._screen
        finally:
            self._screen = None

    def started(self, step: str, loop: str = "") -> None:
        """Shows that a step has started; all steps of a loop have one line together."""
        self._loops[step], self._begun[step] = loop, time.monotonic()
        line = self._lines.get(loop) if loop else None
        if line is None or not line.state:
            line = self._lines[loop or step] = Line(started=time.monotonic())
        line.state = "running"
        line.running += 1
        if loop:
            line.text = line.counts
        if not self._live:
            self.print(f"{step:<9} started")

    def lines(self, step: str, lines: str) -> None:
        """Takes in lines of a step's log; of very many the last, warnings, and those on epochs."""
        every = lines.split("\n")
        early = [line for line in every[:-BURST] if _tells(line)]
        for line in early[-BURST:] + every[-BURST:]:
            self._take_in(step, line)
        if self._verbose:
            shown = (line for line in every if not self._kfps.are(step, line))
            self._write("".join(f"{step:<9} {plain(line)}\n" for line in shown))

    def _take_in(self, step: str, line: str) -> None:
        if line.startswith(_WARNING) and not self._verbose:
            self.print(f"{step:<9} {line}")
        shown = self._lines[self._loops[step] or step]
        match = _REPLICA.match(line) or _COPYING.match(line)
        if match and not line.startswith(_WORKER):
            shown.is_led = True
        if match and match[1].strip() and not (shown.is_led and line.startswith(_WORKER)):
            text = plain(match[1].strip())[:WIDTH]
            if not self._loops[step]:
                shown.text = text
            at = None if self._live or self._verbose else position(text)
            if at and at.epoch is not None and at.epochs:
                shown.told = (at.epoch - 1) / at.epochs  # it may have just begun
                self.print(f"{step:<9} {text}")

    def progress(self, step: str, progress: Progress) -> None:
        """Shows how far the training of a step is."""
        line = self._lines[self._loops[step] or step]
        line.progress = progress
        words = progress.words
        is_news = bool(progress.reason) and progress.reason not in line.reasons
        if progress.reason:
            line.reasons.add(progress.reason)
        elif line.reasons:
            line.reasons.clear()
            is_news, words = True, words or "goes on"
        if progress.share is not None:
            is_further = int(10 * progress.share) > int(10 * line.share)
            is_news |= is_further and progress.share > line.told + 0.005
            line.share = progress.share
        if is_news and not self._live:
            self.print(f"{step:<9} {words}")

    def ended(self, step: str, state: str, summary: str, seconds: float | None = None) -> None:
        """Shows how a step ended."""
        line = self._lines[self._loops[step] or step]
        duration = time.monotonic() - self._begun[step] if seconds is None else seconds
        line.running -= 1
        line.ended[state] += 1
        if not line.running:
            line.seconds = line.elapsed if self._loops[step] else duration
            line.progress, line.share, line.state = None, 0.0, state
        line.text = plain(summary)
        if self._loops[step]:
            line.text = f"{line.counts}; {step}: {line.text}"
        if not self._live:
            self.print(f"{step:<9} {state.lower()} in {duration:.1f} s  {plain(summary)}".rstrip())

    def print(self, text: str = "") -> None:
        """Prints text, without what would change the terminal."""
        if screen := self._screen:  # another thread may take it down
            screen.print(plain(text))
        else:
            self._write(f"{plain(text)}\n")

    def heading(self, text: str) -> None:
        """Prints text likewise, in bold."""
        self._write(f"{typer.style(plain(text), bold=True)}\n")

    def facts(self, facts: dict[str, str]) -> None:
        """Prints names and values, one a line."""
        width = max(map(len, facts), default=0)
        for name, value in facts.items():
            self._write(f"{typer.style(f'  {name:<{width}}  ', dim=True)}{plain(value)}\n")

    def _write(self, text: str) -> None:
        try:
            typer.echo(text, self._stream, nl=False, color=self._is_terminal)
        except BrokenPipeError:  # whoever has read it is gone; what runs goes on
            forget_reader(self._stream)


def _tells(line: str) -> bool:
    return "poch" in line or "POCH" in line or line.startswith(_WARNING)


def _is_terminal(stream: TextIO | None) -> bool:
    """Tells whether a stream is a terminal that can do more than print."""
    is_one = stream is not None and stream.isatty()  # it is None where somebody has closed it
    return is_one and os.environ.get("TERM") not in ("dumb", "unknown")
