"""What a line of a training's log costs: a replica's, logged and shown, against ``cat > file``.

Programs of Python print short lines: many at once, each by itself, and many at once that tell
progress. Printed are the CPU seconds of everything, with the program itself, their ratio, and the
exponent by which ours grow with the lines. In the end the wall time of a program whose shown lines
nobody reads, against the same program read by ``cat``; a job waits five seconds for such a reader
when its program has ended.

    python benchmarks/log_lines.py [LINES]
"""

import os
import subprocess
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

from growth import Cost, cost, exponent

from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.observers.base import Observers
from trireme.observers.printing import Printing
from trireme.observers.progress import Meter
from trireme.plain import plain
from trireme.runner.lines import LivePrinter
from trireme.runner.local import runner

PROGRAMS = {
    "at once": "print('a line of a log, as programs print them, number', n, file=buffered)",
    "one by one": "print('a line of a log, as programs print them, number', n, flush=True)",
    "progress": "print(f'epoch 1/3 step {n}/{lines} loss 0.123', file=buffered)",
}
GOAL = 1.5


def by_cat(command: list[str], folder: Path) -> None:
    """Runs a program whose output goes to a file by a pipe."""
    with (folder / "cat.log").open("wb") as log:
        program = subprocess.Popen(command, stdout=subprocess.PIPE)
        reader = subprocess.Popen(["cat"], stdin=program.stdout, stdout=log)
        assert program.stdout
        program.stdout.close()
        assert not program.wait() and not reader.wait()


def ours(command: list[str], folder: Path, shown: int) -> None:
    """Runs it as a job of one replica, shown in a file."""
    os.dup2(shown, 1)
    places = {name: str(folder) for name in ("code_dir", "checkpoint_dir", "model_dir")}
    job = TrainingJob.create(name="lines", framework="pytorch", command=command, **places)
    with closing(LivePrinter(plain)) as printer:
        runner.run(render(job), folder, Observers([Meter("master-0"), Printing(printer)]))


def compare(name: str, body: str, lines: int, folder: Path) -> Cost:
    """Measures both ways and prints a row."""
    file = folder / "program.py"
    file.write_text(
        f"lines, buffered = {lines}, open(1, 'w')\nfor n in range(lines):\n    {body}\n"
    )
    command = [sys.executable, "-S", str(file)]
    theirs = cost(partial(by_cat, command, folder))
    with (folder / "shown.log").open("wb") as shown:
        spent = cost(partial(ours, command, folder, shown.fileno()))
    count = (folder / "master-0.log").read_bytes().count(b"\n")
    assert count == lines, f"the log has {count} lines of {lines}"
    print(
        f"{name:<10} {lines:9,} lines {spent.cpu:6.2f} s {theirs.cpu:6.2f} s "
        f"{spent.cpu / theirs.cpu:5.2f} (goal {GOAL}) wall {spent.wall / theirs.wall:5.2f}",
        flush=True,
    )
    return spent


def main(most: int) -> None:
    """Measures and prints the table."""
    print(f"{'':<10} {'':>15} {'trireme':>8} {'cat':>8}  ratio of CPU")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, body in PROGRAMS.items():
            sizes = [most // 100, most // 10, most]
            costs = [compare(title, body, size, folder) for size in sizes]
            grows = exponent(sizes, [spent.cpu for spent in costs])
            print(f"exponent of CPU {grows:.2f}", flush=True)
        reading, shown = os.pipe()  # which nobody reads
        file = [sys.executable, "-S", str(folder / "program.py")]
        spent, theirs = (
            cost(partial(work, file, folder, *more))
            for work, more in ((ours, (shown,)), (by_cat, ()))
        )
        os.close(reading)
        print(f"unread: wall {spent.wall:.2f} s against {theirs.wall:.2f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
