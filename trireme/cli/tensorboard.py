"""The command line of TensorBoard: ``trireme tensorboard`` and ``trireme job tensorboard``."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.runs import RunName
from trireme.cli.target import on_target
from trireme.errors import InputError, TriremeError, exit_in_words
from trireme.process import extras
from trireme.process.signals import Interrupted, from_a_terminal, handled, interrupt
from trireme.targets.meant import meant
from trireme.text.say import say

if TYPE_CHECKING:
    from trireme.targets.base import Target

GRACE = 5.0  # seconds that it gets to end
EVERY = 5.0  # seconds between two looks for more; it reads its files as often
POLL = 0.1  # seconds between two looks whether it listens
TAIL = 20  # lines of its output that are shown when it ends by itself

Bring = Callable[[Path], bool]
"""Brings the event files that there are into a folder; returns whether there may be more later."""

Port = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1; default: a free one.")
]


@on_target()
def tensorboard(target: "Target", run: RunName = "", port: Port = None) -> None:
    """Open TensorBoard with what the training program of a run has written for it."""
    run = meant(target, run)
    show(f"run {run}", lambda folder: target.event_files(run, folder), port)


def show(name: str, bring: Bring, port: int | None) -> None:
    """Shows event files in TensorBoard, those that come later too, until Ctrl-C."""
    if find_spec("tensorboard") is None:
        raise InputError(f"tensorboard is not installed: {extras.installing('tensorboard')}")
    from trireme.deployment.serving import check_port
    from trireme.runner.local.ports import Ports

    with (
        handled(interrupt, from_a_terminal()),
        closing(Ports()) as ports,
        tempfile.TemporaryDirectory(prefix="trireme-") as directory,
    ):
        if port:
            check_port(port)
        folder = Path(directory, "events")
        folder.mkdir()
        try:
            more = bring(folder)
            if not any(folder.iterdir()):
                if not more:
                    raise InputError(
                        f"{name} has left no event files (events.out.tfevents.*) that can be read: "
                        "its program has written none into its working directory, "
                        "CHECKPOINT_DIR or MODEL_DIR, from where a cluster's go to MLflow"
                    )
                say(f"{name} has written no event files yet; TensorBoard shows them when it does")
            _serve(name, folder, port or ports.take(), bring if more else None)
        except Interrupted as interruption:
            for signal_number in from_a_terminal():
                signal.signal(signal_number, signal.SIG_IGN)  # once is enough
            raise typer.Exit(128 + interruption.number) from None


def _serve(name: str, folder: Path, port: int, bring: Bring | None) -> None:
    from trireme.deployment.serving import HOST, listens
    from trireme.runner.local.supervised import supervised

    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder)]
    command += ["--host", HOST, "--port", str(port), "--window_title", name]
    # It leaves a file about itself among the temporary ones.
    environment = dict(os.environ) | {"TMPDIR": str(folder.parent)}
    process = supervised(command, GRACE, environment, folder)
    tail: deque[str] = deque(maxlen=TAIL)
    reader = threading.Thread(target=_read, args=(process, tail), daemon=True)
    reader.start()
    try:
        while process.poll() is None and not listens(port):
            time.sleep(POLL)
        if process.poll() is None:
            typer.echo(f"http://{HOST}:{port}/ shows {name}; Ctrl-C stops it")
            sys.stdout.flush()
        _bring_more(process, folder, bring)
    finally:
        process.terminate()
        process.wait()
        reader.join(GRACE)
    raise TriremeError(f"TensorBoard {exit_in_words(process.returncode)}", "\n".join(tail))


def _bring_more(process: "subprocess.Popen[bytes]", folder: Path, bring: Bring | None) -> None:
    """Keeps a folder up to date until the process that reads it has ended."""
    last_error = ""
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(EVERY if bring else None)
            return
        try:
            bring = bring if bring and bring(folder) else None
        except TriremeError as error:  # a cluster that is away comes back
            if str(error) != last_error:
                say(last_error := str(error))


def _read(process: "subprocess.Popen[bytes]", tail: deque[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        tail.append(line.decode(errors="replace").rstrip())
