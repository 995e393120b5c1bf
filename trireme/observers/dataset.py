"""A look at the dataset before and after a training: others share it, and its fingerprint stays."""

from pathlib import Path
from stat import S_ISDIR
from typing import Any

from trireme.observers.base import Observer

MOST = 50_000  # files of a dataset that are looked at; of a larger one none is
NAMED = 5  # files that are named

TAG = "dataset.changed"
"""The tag of a training's run with the files of its dataset that the program has changed."""

_State = dict[str, tuple[int, int]]


class Unchanged(Observer):
    """Says which files of DATA_DIR a program has made, changed or removed, by size and time."""

    def __init__(self, folder: Path) -> None:
        """Takes the folder of the dataset."""
        self._folder = folder
        self._before: _State | None = None

    def prepare(self, manifest: dict[str, Any]) -> None:
        """Looks at the dataset before the job is made, the first time."""
        if self._before is None:
            self._before = _state(self._folder)

    def end(self, failure: BaseException | None) -> None:
        """Tells what is different."""
        after = _state(self._folder) if self._before else {}
        if not (self._before and after):  # as large ones, and what nobody can read
            return
        changed = sorted(
            name
            for name in self._before.keys() | after.keys()
            if self._before.get(name) != after.get(name)
        )
        if changed:
            names = ", ".join(changed[:NAMED])
            names += f" and {len(changed) - NAMED:,} more" if changed[NAMED:] else ""
            sentence = (
                f"warning: the program has changed its dataset, which other runs share and whose "
                f"fingerprint is that of before: {names}"
            )
            self.record(tags={TAG: names}, words=[sentence])


def _state(folder: Path) -> _State:
    """Returns size and time of each file, by its path; empty where there are too many."""
    states: _State = {}
    resolved = folder.resolve()  # which is a link into the cache
    for file in resolved.rglob("*"):
        try:
            now = file.stat()
        except OSError:  # it has gone just now, or is a broken link
            continue
        if not S_ISDIR(now.st_mode):
            states[str(file.relative_to(resolved))] = now.st_size, now.st_mtime_ns
        if len(states) > MOST:
            return {}
    return states
