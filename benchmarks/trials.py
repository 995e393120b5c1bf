"""What a trial of a sweep costs: the reference trainer against torchrun, and a program of nothing.

CPU seconds of all processes. What a sweep costs besides its trials is known by one of two. The
trivial trial trains and is evaluated by programs that import next to nothing; what it costs is set
against both run alone.

    python benchmarks/trials.py [TRIALS]
"""

import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from pipeline import BIN, measure

from trireme.process.processes import cpus

REPOSITORY = Path(__file__).resolve().parents[1]
TRAINER = REPOSITORY / "trainers/pytorch_classifier.py"
FEW = 2

TRAIN = """
import os
open(os.path.join(os.environ["MODEL_DIR"], "model.txt"), "w").write("model")
"""
EVALUATE = """
import os
place = os.environ["EVALUATION_DIR"]
open(os.path.join(place, "metrics.json"), "w").write('{"goodness": 0.5}')
open(os.path.join(place, "scores.npy"), "wb").write(SCORES)
"""


def sweep(home: Path, count: int, figure: str, *parameters: str) -> float:
    """Returns what a sweep takes of which no model is good enough to be exported."""
    assignments = [f"grid={json.dumps({'seed': list(range(count))})}", "workers=0", *parameters]
    assignments.append(f"gate={json.dumps({'least': {figure: 1}})}")
    command = [str(BIN / "trireme"), "run", "sweep"]
    command += [word for assignment in assignments for word in ("-p", assignment)]
    return measure(command, {"TRIREME_HOME": str(home)})[0].cpu


def programs(folder: Path) -> Path:
    """Makes a repository of the programs of a trivial trial."""
    folder.mkdir()
    scores = io.BytesIO()
    np.save(scores, np.full(8, 0.5))
    (folder / "train.py").write_text(TRAIN)
    (folder / "evaluate.py").write_text(f"SCORES = {scores.getvalue()!r}\n{EVALUATE}")
    for words in ("init -q", "add .", "-c user.name=x -c user.email=x@x commit -qm x"):
        subprocess.run(["git", "-C", folder, *words.split()], check=True)
    return folder


def alone(*commands: list[str], **variables: str) -> float:
    """Returns what commands take, with folders of their own."""
    with tempfile.TemporaryDirectory() as directory:
        names = ("MODEL_DIR", "CHECKPOINT_DIR", "EVALUATION_DIR")
        for name in names:
            Path(directory, name).mkdir()
        folders = {name: str(Path(directory, name)) for name in names}
        return sum(measure(command, folders | variables)[0].cpu for command in commands)


def compare(name: str, ours: list[float], count: int, theirs: float) -> None:
    """Prints what a sweep takes, and what each of its trials adds."""
    per_trial = (ours[1] - ours[0]) / (count - FEW)
    print(
        f"{name}: {count} trials {ours[1]:.1f} s, {ours[1] / (count * theirs):.2f} times as many "
        f"alone; each {per_trial:.2f} s, alone {theirs:.2f} s, {per_trial - theirs:+.2f} s",
        flush=True,
    )


def main() -> None:
    """Measures both kinds of trials."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    with tempfile.TemporaryDirectory() as directory:
        home, data = Path(directory, "home"), Path(directory, "data")
        code = programs(Path(directory, "code"))
        data.mkdir()
        (data / "nothing").write_text("nothing")
        assignments = [f"code_url={code}", "entrypoint=train.py", f"dataset_uri={data}"]
        assignments.append('evaluation={"entrypoint": "evaluate.py"}')
        sweep(home, FEW, "goodness", *assignments)  # sets up MLflow's store, fills the disk cache
        seconds = [sweep(home, many, "goodness", *assignments) for many in (FEW, count)]
        both = ([sys.executable, str(code / file)] for file in ("train.py", "evaluate.py"))
        compare("trivial", seconds, count, alone(*both))

        seconds = [sweep(home, many, "accuracy") for many in (FEW, count)]
        digits = next((home / "cache" / "trees").glob("*/train.npz")).parent
        command = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node=1", str(TRAINER)]
        threads = str(len(os.sched_getaffinity(0)))
        # Threads that wait as ours do: others would spin, the more the busier the machine is.
        variables = {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE"}
        with ThreadPoolExecutor(cpus()) as pool:  # as many at a time as in the sweep
            runs = pool.map(lambda _: alone(command, DATA_DIR=str(digits), **variables), range(4))
            theirs = statistics.mean(runs)
        compare("reference trainer", seconds, count, theirs)


if __name__ == "__main__":
    main()
