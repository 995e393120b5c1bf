"""Checking out a repository against ``git clone --depth 1``, over http on loopback.

A repository of 2,000 files and 200 commits is made on the spot. The two take turns; printed are
medians and their ratio, of the function alone and as a process of its own, which has Python to
start. Then what a short commit id costs, found among commits without files and by fetching
everything.

    python benchmarks/checkout.py [PAIRS]
"""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pipeline import measure, row

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from git_servers import http_server

from trireme.code.git import checkout

FILES, COMMITS = 2000, 200


def make_repository(directory: Path) -> str:
    """Makes a bare repository; returns the id of a commit in the middle."""
    words = [f"word{number}" for number in range(5000)]
    chance = random.Random(0)

    def text() -> str:
        return " ".join(chance.choices(words, k=chance.randrange(50, 1500)))

    def blob(number: int) -> str:
        content = text()
        return (
            f"M 644 inline package{number % 40}/file{number}.py\ndata {len(content)}\n{content}\n"
        )

    stream = []
    for commit in range(COMMITS):
        committer = f"committer A <a@example.org> {1_700_000_000 + commit} +0000"
        stream.append(f"commit refs/heads/main\nmark :{commit + 1}\n{committer}\ndata 1\nx\n")
        changed = range(FILES) if commit == 0 else chance.sample(range(FILES), 20)
        stream += map(blob, changed)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(directory)], check=True)
    git = ["git", "-C", str(directory)]
    subprocess.run([*git, "fast-import", "--quiet"], input="".join(stream), text=True, check=True)
    subprocess.run([*git, "config", "uploadpack.allowFilter", "true"], check=True)
    subprocess.run([*git, "repack", "-adq"], check=True)
    middle = [*git, "rev-parse", f"main~{COMMITS // 2}"]
    return subprocess.run(middle, capture_output=True, text=True, check=True).stdout.strip()


def seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def pairs_of(
    count: int, target: Path, ours: Callable[[], float], theirs: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Measures both in turn, each first as often as the other."""
    both: tuple[list[float], list[float]] = ([], [])
    for number in range(count):
        for index in (0, 1) if number % 2 else (1, 0):
            shutil.rmtree(target, ignore_errors=True)
            both[index].append((ours, theirs)[index]())
    return both


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as directory:
        root, target = Path(directory), Path(directory, "out", "code")
        middle = make_repository(root / "public" / "code.git")
        with http_server(root) as server:
            url = f"{server.url}/public/code.git"
            clone = ["git", "clone", "--quiet", "--depth=1", url, str(target)]
            module = [sys.executable, "-m", "trireme.code", url, "", str(target)]
            everything = ["git", "clone", "--quiet", url, str(target)]

            print(f"medians of {pairs} pairs\n{'':<12} {'trireme':>9} {'git':>9}      ratio")
            cloning = lambda: measure(clone, {})[0].wall  # noqa: E731
            inside = lambda: seconds(lambda: checkout(url, "", target))  # noqa: E731
            row("function", *pairs_of(pairs, target, inside, cloning), "s")
            process = lambda: measure(module, {})[0].wall  # noqa: E731
            row("process", *pairs_of(pairs, target, process, cloning), "s")
            all_of_it = lambda: measure(everything, {})[0].wall  # noqa: E731
            short = lambda: seconds(lambda: checkout(url, middle[:8], target))  # noqa: E731
            row("short commit", *pairs_of(pairs, target, short, all_of_it), "s")
            checkout(url, middle, target)
            again = [seconds(lambda: checkout(url, middle, target)) for _ in range(pairs)]
            print(f"the same commit again: {sorted(again)[pairs // 2] * 1000:.0f} ms")


if __name__ == "__main__":
    main()
