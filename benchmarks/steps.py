"""A user's pipeline of 100 steps here, against kfp's own local runner and against bare processes.

Fifty steps that do not depend on each other work for a while, fifty in a row do nothing. kfp's
runner takes one step after the other; the bare processes are the same functions without a pipeline,
as many at once as there are processors.

    python benchmarks/steps.py [ROUNDS]
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kfp import dsl

INDEPENDENT, IN_A_ROW = 50, 50
WORK = "sum(i * i for i in range(3_000_000))"  # some tenths of a second of a processor


@dsl.component(install_kfp_package=False)
def work() -> int:
    """Keeps a processor busy."""
    return sum(i * i for i in range(3_000_000))


@dsl.component(install_kfp_package=False)
def count(number: int) -> int:
    """Does nothing that takes time."""
    return number + 1


@dsl.pipeline(name="hundred-steps")
def hundred_steps():
    """Has 100 steps."""
    for _ in range(INDEPENDENT):
        work().set_caching_options(False)
    number = count(number=0).output
    for _ in range(IN_A_ROW - 1):
        number = count(number=number).output


def by_trireme(folder: Path) -> None:
    """Runs it as a user does."""
    command = [sys.executable, "-m", "trireme", "run", f"{__file__}:hundred_steps"]
    _run(command, folder)


def by_kfp(folder: Path) -> None:
    """Runs it by kfp.local, in a process of its own."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from kfp import local; import steps\n"
        "local.init(local.SubprocessRunner(use_venv=False))\n"
        "steps.hundred_steps()\n"
    )
    _run([sys.executable, "-c", program], folder)


def by_hand(folder: Path) -> None:
    """Runs the bare functions, each as an interpreter."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        command = [sys.executable, "-c", WORK]
        working = [pool.submit(_run, command, folder) for _ in range(INDEPENDENT)]
        for number in range(IN_A_ROW):
            _run([sys.executable, "-c", f"print({number} + 1)"], folder)
        for future in working:
            future.result()


def _run(command: list[str], folder: Path) -> None:
    environment = os.environ | {"TRIREME_HOME": str(folder / "home")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[:4]} exited with status {done.returncode}: {done.stderr[-500:]}")


def measured(run: Callable[[Path], None], folder: Path) -> tuple[float, float]:
    """Returns the seconds that a way takes, and those of processors."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run(folder)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu


def main() -> None:
    """Runs all of them in turn and prints medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    ways = {"trireme": by_trireme, "kfp.local": by_kfp, "bare": by_hand}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name in list(ways)[number % 3 :] + list(ways)[: number % 3]:
                times[name].append(measured(ways[name], Path(folder)))
                print(f"{name:<10} {times[name][-1][0]:.1f} s", flush=True)
    bare = statistics.median(wall for wall, _ in times["bare"])
    print(f"\n{'':<10} {'wall':>8} {'of bare':>8} {'cores':>6} {'over bare, a step':>18}")
    for name, runs in times.items():
        wall = statistics.median(wall for wall, _ in runs)
        cores = statistics.median(cpu / wall for wall, cpu in runs)
        over = 1000 * (wall - bare) / (INDEPENDENT + IN_A_ROW)
        print(f"{name:<10} {wall:6.1f} s {wall / bare:8.2f} {cores:6.2f} {over:15.0f} ms")


if __name__ == "__main__":
    main()
