"""trireme/terminal/console.py: what of a step's log is shown where there is no terminal."""

import io
import os
from contextlib import suppress

import pytest

from trireme.progress import Progress
from trireme.terminal.console import Console


def shown(*words: object) -> list[str]:
    """Returns what is printed of a step that prints lines, and tells how far it is."""
    stream = io.StringIO()
    console = Console(stream)
    console.started("train")
    for word in words:
        if isinstance(word, Progress):
            console.progress("train", word)
        else:
            console.lines("train", str(word))
    return stream.getvalue().splitlines()[1:]


def test_warnings_of_a_step_are_shown_and_no_others() -> None:
    assert shown("warning: no room", "[master-0] warning: a library's", "warnings") == [
        "train     warning: no room"
    ]
    assert shown("\n".join(["warning: early", *["line"] * 100_000])) == ["train     warning: early"]


def test_why_a_step_does_not_go_on_is_told_once_and_that_it_does_again() -> None:
    room, image, back_off = (Progress(None, why, reason=why) for why in ("room", "image", "back"))
    third = Progress(0.33, "33%")
    held_up = Progress(0.33, "33%; room", reason="room")
    assert shown(room, room, image, back_off, image, Progress(None, ""), third, held_up, third) == [
        "train     room",
        "train     image",
        "train     back",
        "train     goes on",
        "train     33%",
        "train     33%; room",
        "train     33%",
    ]


def test_percent_is_not_told_that_an_epoch_has_told_already() -> None:
    third = Progress(0.33, "33%")
    assert shown("[master-0] loss 1", third) == ["train     33%"]
    assert shown("[master-0] epoch 3/3 loss 1", third) == ["train     epoch 3/3 loss 1"]
    bar = "Epoch 2/3: 100%"
    assert shown(f"[master-0] {bar}", third, Progress(0.8, "80%")) == [
        f"train     {bar}",
        "train     80%",
    ]


def test_what_runs_goes_on_when_nobody_reads_any_more() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        console = Console(stream, verbose=True)
        console.started("train")
        os.close(reading)
        for _ in range(2):
            console.lines("train", "one more")
            console.ended("train", "FINISHED", "done")


@pytest.mark.parametrize(("name", "value"), [("TTY_COMPATIBLE", "0"), ("FORCE_COLOR", "")])
def test_a_terminal_has_live_lines_though_rich_would_not_take_it_for_one(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream:
        console = Console(stream)
        with console.showing(["checkout", "train"]):
            console.started("checkout")
            console.print("note: said above")
            console.ended("checkout", "FINISHED", "main, 1a2b3c4")
        console.heading("run FINISHED")
    written = ""
    with suppress(OSError):  # of a terminal that is closed, once all has been read
        while read := os.read(ours, 1 << 16):
            written += read.decode()
    os.close(ours)
    assert "\x1b[2K" in written, "lines that change"
    assert "\x1b[1mrun FINISHED\x1b[0m" in written
    assert "note: said above\r\n" in written
