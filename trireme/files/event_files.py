"""The event files that programs write for TensorBoard: where they are, and what they have got more.

Also used as a program, sent to a replica's Python, with nothing imported but the standard library:
standard input is JSON, ``since`` and the ``sizes`` of the files that are known; standard output has
for each file that is longer a line of JSON, ``file``, ``start`` and ``size``, and then its bytes.
"""

import json
import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

LOGGING_DIR = "TENSORBOARD_LOGGING_DIR"
"""Names the directory where transformers writes them by itself, and others that are told so."""

VARIABLES = (LOGGING_DIR, "CHECKPOINT_DIR", "MODEL_DIR", "CODE_DIR")
"""What names the directories of a program, each before one that it may be in: the last is its
working directory."""

OF_CHECKPOINTS = "tensorboard"
"""The folder of CHECKPOINT_DIR that LOGGING_DIR names."""

BEGINNING = "events.out.tfevents."  # followed by seconds since 1970, host, process id


def found(
    directories: Iterable[str | Path], since: float = 0.0, without: Collection[Path] = ()
) -> dict[Path, Path]:
    """Returns the event files in directories, by their paths from there.

    Args:
        since: Seconds since 1970; files that were begun before are somebody else's.
        without: Directories that are left out, where they are inside of these.
    """
    files: dict[Path, Path] = {}
    for directory in directories:
        for root, folders, names in os.walk(directory):
            hidden = {name for name in folders if name.startswith(".")}
            left_out = {name for name in folders if Path(root, name) in without}
            folders[:] = sorted({*folders} - hidden - left_out)
            for name in names:
                file = Path(root, name)
                if (
                    name.startswith(BEGINNING)
                    and file.is_file()
                    and not file.is_symlink()  # as somebody's TensorBoard is shown here
                    and file not in files.values()
                    and _begun(file) >= int(since)
                    and os.access(file, os.R_OK)
                ):
                    files[file.relative_to(directory)] = file
    return files


def link(
    folder: Path, directories: Iterable[str | Path], since: float, without: Collection[Path] = ()
) -> None:
    """Puts links to the event files in directories into a folder, where they are not there yet."""
    for path, file in found(directories, since, without).items():
        link_file = folder / path
        link_file.parent.mkdir(parents=True, exist_ok=True)
        if not link_file.is_symlink():
            link_file.symlink_to(file)


def _begun(file: Path) -> float:
    moment = file.name.removeprefix(BEGINNING).partition(".")[0]
    return int(moment) if moment.isdigit() else file.stat().st_mtime


def main() -> None:
    """Writes what has been asked for."""
    request = json.load(sys.stdin)
    directories = [os.environ[name] for name in VARIABLES if os.environ.get(name)]
    for path, file in found(directories, request["since"]).items():
        with file.open("rb") as stream:
            stream.seek(start := request["sizes"].get(str(path), 0))
            more = stream.read()
        if more:
            header = {"file": str(path), "start": start, "size": len(more)}
            sys.stdout.buffer.write(json.dumps(header).encode() + b"\n" + more)


if __name__ == "__main__":
    main()
