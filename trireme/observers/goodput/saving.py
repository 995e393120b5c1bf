"""Looking for checkpoints: files that are written in CHECKPOINT_DIR, whatever program does it."""

import threading
import time
from contextlib import suppress
from pathlib import Path

from trireme.files import checkpoint_files
from trireme.files import event_files as events
from trireme.observers.goodput.stops import Writing

PAUSE = 0.5  # seconds between two looks
SHARE = 0.02  # of the time that looking may take, as at a file system far away
QUIET = 3.0  # seconds without a change after which a checkpoint is whole
LONGEST = 900.0  # seconds of changes without a pause beyond which they are no checkpoint
LOGS = (".log", ".txt", ".jsonl", ".csv", ".out", ".err", ".lock")
"""How files end that programs write besides, and go on writing."""


class Saving:
    """Sees checkpoints, from file states that it is given one after another.

    Attributes:
        now: What is being written; None where nothing is.
    """

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] | None = None
        self._at = self._changed = 0.0
        self.now: Writing | None = None

    def take(self, files: dict[str, tuple[int, int]], at: float) -> Writing | None:
        """Takes in sizes and times of files; returns a checkpoint that is whole now."""
        before, last = self._before, self._at
        self._before, self._at = files, at
        if before is None:  # what lies there is of before
            return None
        new = [state for name, state in files.items() if before.get(name) != state]
        if new:
            written = max(changed for _, changed in new) / 1e9
            # The clock of the volume's server may be another.
            ended = written if last <= written <= at else at
            self.now = Writing(self.now.began if self.now else last, ended)
            self._changed = at
            return None
        if self.now is None or at - self._changed < QUIET:
            return None
        whole, self.now = self.now, None
        return whole if whole.ended - whole.began <= LONGEST else None


class Watch(threading.Thread):
    """A thread that looks for checkpoints in a directory until it is told to end.

    Attributes:
        seen: The checkpoints so far.
        sees_all: Whether all files are looked at; of too many it ends.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._directory, self._over = directory, threading.Event()
        self._saving = Saving()
        self.seen: list[Writing] = []
        self.sees_all = True

    def run(self) -> None:
        """Looks again and again."""
        pause = 0.0
        while not self._over.wait(pause):
            at, began = time.time(), time.monotonic()
            files = states(self._directory)
            if files is None:
                self.sees_all = False
                return
            if whole := self._saving.take(files, at):
                self.seen.append(whole)
            pause = max(PAUSE, (time.monotonic() - began) / SHARE)

    def end(self) -> None:
        """Ends it; what is being written counts as far as it is."""
        self._over.set()
        self.join(PAUSE)
        if unfinished := self._saving.now:
            self._saving.now = None
            self.seen.append(unfinished)


def states(directory: Path) -> dict[str, tuple[int, int]] | None:
    """Returns size and last change, in ns, of files that may be of checkpoints, by their paths.

    None where there are too many: each time others of them would be looked at, and seem new.
    """
    found: dict[str, tuple[int, int]] = {}
    files = list(checkpoint_files.found(directory))
    if len(files) == checkpoint_files.MOST:
        return None
    for file in files:
        if file.suffix in LOGS or file.name.startswith((".", events.BEGINNING)):
            continue
        with suppress(OSError):  # it is being replaced
            state = file.stat(follow_symlinks=False)
            found[str(file)] = state.st_size, state.st_ctime_ns  # also when it gets its name
    return found
