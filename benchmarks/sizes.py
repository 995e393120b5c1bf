"""What grows with how much of it there is: runs, jobs, trials, pipelines, replicas, files.

Each is done at several sizes, the largest a hundred times the smallest. Printed are CPU seconds
and wall of all processes, the peak of memory of one, and the exponents: 1 is linear, and what
costs the same at every size has 0.

    python benchmarks/sizes.py [WHAT...]

A million files of 100 bytes need 9 GB of disk.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml
from following import KUBECONFIG, ApiServer, Logs, job_of
from growth import MIB, Cost, cost, exponent
from pipeline import BIN

from trireme.data.staging import stage
from trireme.evaluation import trials
from trireme.sweep import choose, search_space

STEPS = ("checkout", "dataset", "train", "evaluate", "export", "finish")

PIPELINE = """
from kfp import dsl
from trireme import WORKSPACE, checkout, finishing

@dsl.pipeline(name="p{number}", pipeline_config=WORKSPACE)
def p{number}(code_url: str = ""):
    with finishing("p{number}"):
        checkout(url=code_url)
"""

JOB = """
name: many
framework: custom
command: ["true"]
workers: {count}
"""


Work = Callable[[], object]


def trireme(home: Path, *words: str, lines: int = 0, **more: str) -> None:
    """Runs the command line, which prints at least so many lines."""
    done = subprocess.run(
        [BIN / "trireme", *words],
        env=os.environ | {"TRIREME_HOME": str(home)} | more,
        cwd=home,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.count("\n") >= lines, done.stderr


def runs(folder: Path, count: int) -> Work:
    """Lists so many runs."""
    for number in range(count):
        directory = folder / "runs" / f"run-{number:05}"
        directory.mkdir(parents=True)
        step = {"state": "FINISHED", "seconds": 1.5, "result": "of it", "resources": {}}
        record = {"state": "finished", "started": number, "seconds": 9.0, "pid": 1, "born": ""}
        record |= {"cwd": "/"}
        (directory / "run.json").write_text(json.dumps(record))
        ended = (json.dumps({"step": name} | step) + "\n" for name in STEPS)
        (directory / "steps.jsonl").write_text("".join(ended))
    return partial(trireme, folder, "list", lines=count)


def jobs(folder: Path, count: int) -> Work:
    """Lists so many jobs of a cluster, which the tests' stand-in plays."""
    server = ApiServer(Logs())
    manifest = job_of(2)
    status = {"conditions": [{"type": "Succeeded", "status": "True", "reason": "Done"}]}
    for number in range(count):
        job = {**manifest, "metadata": {**manifest["metadata"], "name": f"job-{number}"}}
        server.create(
            {"plural": "pytorchjobs", "namespace": "team"}, job | {"status": status}, dry=False
        )
    config = folder / "kubeconfig"
    cluster = {"clusters": [{"name": "here", "cluster": {"server": server.url}}]}
    config.write_text(yaml.safe_dump(KUBECONFIG | cluster))
    return partial(
        trireme, folder, "job", "list", "-n", "team", lines=count, KUBECONFIG=str(config)
    )


def sweep(folder: Path, count: int) -> Work:
    """Plans a sweep of so many trials, keeps what comes of each, and takes the best."""

    def work() -> None:
        space = {"--learning-rate": [number + 1 for number in range(count)]}
        for trial in search_space.trials(space, [], "train.py"):
            directory = trials.trial_folder(folder, trial.number)
            (directory / "model").mkdir(parents=True)
            (directory / choose.LOGS).mkdir(parents=True)
            result = trials.TrialResult(
                trial.number, trial.values, score=-trial.number, params={"image": ""}
            )
            trials.save(result, folder)
        with contextlib.redirect_stdout(None):
            choose.choose(folder)

    return work


def pipelines(folder: Path, count: int) -> Work:
    """Compiles so many pipelines."""
    text = "".join(PIPELINE.format(number=number) for number in range(count))
    (folder / "many.py").write_text(text)
    references = [f"./many.py:p{number}" for number in range(count)]
    return partial(trireme, folder, "compile", *references)


def files(folder: Path, count: int) -> Work:
    """Stages a dataset of so many small files, for the first time."""
    for number in range(count):
        if number % 1000 == 0:
            part = folder / "data" / f"{number // 1000:04}"
            part.mkdir(parents=True)
        (part / f"{number}.txt").write_text(f"{number:099}\n")

    def work() -> None:
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            stage((folder / "data").as_uri(), folder / "staged")

    return work


def replicas(folder: Path, count: int) -> Work:
    """Runs a job of so many replicas whose program does nothing."""
    (folder / "job.yaml").write_text(JOB.format(count=count))
    return partial(trireme, folder, "job", "submit", "job.yaml", "--local")


SIZES: dict[Callable[[Path, int], Work], tuple[int, ...]] = {
    runs: (100, 1_000, 10_000),
    jobs: (20, 200, 2_000),
    sweep: (10, 100, 1_000),
    pipelines: (1, 10, 100),
    replicas: (1, 8, 64),
    files: (10_000, 100_000, 1_000_000),
}


def measured(case: Callable[[Path, int], Work], size: int) -> Cost:
    """Measures one size and prints its row."""
    with tempfile.TemporaryDirectory() as folder:
        work = case(Path(folder), size)

        def with_children() -> int:
            work()
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024

        spent = cost(with_children)
    print(
        f"{size:9,} {case.__name__:9} {spent.cpu:7.2f} s CPU {spent.wall:7.2f} s "
        f"{max(spent.memory, spent.result) / MIB:6,.0f} MiB",
        flush=True,
    )
    return spent


def main(chosen: list[str]) -> None:
    """Measures and prints the table."""
    for case, sizes in SIZES.items():
        if chosen and case.__name__ not in chosen:
            continue
        costs = [measured(case, size) for size in sizes]
        cpu, wall = (exponent(sizes, [spent[at] for spent in costs]) for at in (0, 1))
        print(f"exponent of CPU {cpu:.2f}, of wall {wall:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
