"""The scalars in TensorBoard's event files, by name, each with its step and its time.

Also used as a program, as whoever wrote the files may have damaged them: standard input is JSON,
the files by their paths; standard output JSON, too.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

LIMIT = 120.0  # seconds that reading may take
POINTS = 1000  # of a name, that are kept
NAMES = 100  # that are kept

Scalars = dict[str, list[tuple[int, float, int]]]


def can_be_read() -> bool:
    """Tells whether TensorBoard, which reads them, is installed here."""
    return find_spec("tensorboard") is not None


def read(files: Mapping[Path, Path]) -> Scalars:
    """Returns the scalars in files, given by their paths; of very many values some, and the last.

    Where TensorBoard cannot read them there are none.
    """
    request = json.dumps({str(path): str(file) for path, file in files.items()})
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=LIMIT)
        scalars: Scalars = json.loads(done.stdout.rpartition("\n")[2])
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return {}
    return scalars


def _all(files: Mapping[str, str]) -> Scalars:
    # TensorBoard reads them without TensorFlow as well, which takes long to load.
    sys.modules["tensorflow"] = None  # type: ignore[assignment]
    from google.protobuf.message import DecodeError
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util

    folders = {PurePosixPath(path).parent.as_posix() for path in files}
    above = os.path.commonpath(folders) if folders else ""
    points_by_name: dict[str, dict[int, tuple[float, int]]] = defaultdict(dict)
    for path, file in sorted(files.items()):
        # Those of one folder go on from each other; those of several tell different things.
        folder = PurePosixPath(path).parent.relative_to(above)
        try:
            for event in EventFileLoader(file).Load():
                for value in event.summary.value:
                    if value.metadata.plugin_data.plugin_name != "scalars":
                        continue
                    name = str(folder / value.tag.lstrip("/"))
                    number = float(tensor_util.make_ndarray(value.tensor).item())
                    if name in points_by_name or len(points_by_name) < NAMES:
                        points_by_name[name][event.step] = (number, int(event.wall_time * 1000))
        except (DecodeError, ValueError, TypeError, OverflowError):
            continue  # what comes after is damaged
    return {
        name: _some([(step, *point) for step, point in sorted(points.items())])
        for name, points in points_by_name.items()
    }


def _some(points: list[tuple[int, float, int]]) -> list[tuple[int, float, int]]:
    every = -(-len(points) // POINTS)
    return points[len(points) - 1 :: -every][::-1]


if __name__ == "__main__":
    print("\n" + json.dumps(_all(json.load(sys.stdin))), end="")
