"""A look at this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from trireme.doctor import Fact, Verdict, ok
from trireme.errors import InputError
from trireme.files.home import home
from trireme.frameworks import FRAMEWORKS
from trireme.process import extras
from trireme.process.processes import check_proc
from trireme.tracking import machine, store

PROGRAMS = {
    "git": ("git", "code is checked out with it"),
    "git-lfs": ("git-lfs", "repositories that keep large files in LFS need it"),
    "mpirun": ("openmpi-bin", "MPI jobs on this machine need it"),
    "ip": ("iproute2", "trireme job submit --local --isolated needs it"),
}
"""Programs, the Debian packages that bring them, and what for."""

LEAST_FREE = 2e9  # bytes: a run of the default pipeline takes 10 MB, its data and model more
ANSWER_LIMIT = 10.0  # seconds


def facts() -> Iterator[Fact]:
    """Yields what there is, in the order in which a run needs it."""
    python = ".".join(map(str, sys.version_info[:3]))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield ok(f"Trireme {_trireme()}, Python {python}, {machine.cpu()}, {memory:.0f} GiB of memory")
    yield _disk(home())
    try:
        check_proc()
    except InputError as error:
        yield Fact(Verdict.FAILED, str(error))
    yield _gpus()
    modules = {framework.module: name for name, framework in FRAMEWORKS.items() if framework.module}
    for module, name in modules.items():
        yield _framework(module, name)
    for program, (package, what_for) in PROGRAMS.items():
        yield _program(program, package, what_for)
    yield _kubectl()
    yield _mlflow()


def _trireme() -> str:
    try:
        return version(extras.DISTRIBUTION)
    except PackageNotFoundError:  # run from its source
        return "of this folder"


def _disk(directory: Path) -> Fact:
    existing = next(folder for folder in (directory, *directory.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if not existing.is_dir():
        return Fact(
            Verdict.FAILED, f"{directory}: runs are kept there, and {existing} is no folder"
        )
    if not os.access(existing, os.W_OK):
        return Fact(
            Verdict.FAILED, f"{directory}: runs are kept there, and this user may not write there"
        )
    if free < LEAST_FREE:
        return Fact(
            Verdict.FAILED,
            f"{directory}: only {free / 1e9:.1f} GB are free for runs; make room, see "
            "trireme prune --help, or name another folder in TRIREME_HOME",
        )
    return ok(f"{directory}: {free / 1e9:.0f} GB are free for runs")


def _gpus() -> Fact:
    if not shutil.which("nvidia-smi"):
        return Fact(Verdict.MISSING, "GPUs: no NVIDIA driver; training uses the CPU")
    command = [
        "nvidia-smi",
        "--query-gpu=name,memory.total,driver_version",
        "--format=csv,noheader",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Fact(Verdict.UNKNOWN, f"GPUs: nvidia-smi does not answer: {error}")
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        output = " ".join((done.stderr or done.stdout).split())
        return Fact(Verdict.UNKNOWN, f"GPUs: nvidia-smi says: {output or 'nothing'}")
    return ok(f"GPUs: {'; '.join(lines)}")


def _framework(module: str, name: str) -> Fact:
    if find_spec(module) is None:
        extra = extras.of(module)
        mend = extras.installing(extra) if extra else f"pip install {module}"
        return Fact(Verdict.MISSING, f"{module} for jobs of {name}: {mend}")
    try:
        words = f"{module} {version(module)}"
    except PackageNotFoundError:  # its distribution is called otherwise
        words = module
    return Fact(Verdict.OK, words, allows=f"jobs of {name}")


def _program(program: str, package: str, what_for: str) -> Fact:
    if shutil.which(program):
        return Fact(Verdict.OK, program, allows="jobs of mpi" if program == "mpirun" else "")
    verdict = Verdict.FAILED if program == "git" else Verdict.MISSING
    return Fact(verdict, f"{program}: {what_for}; as root: apt-get install {package}")


def _kubectl() -> Fact:
    if shutil.which("kubectl"):
        return ok("kubectl")
    words = "trireme job exec and tensorboard need it for jobs on a cluster"
    return Fact(Verdict.MISSING, f"kubectl: {words}; see https://kubernetes.io/docs/tasks/tools/")


def _mlflow() -> Fact:
    uri = os.environ.get("MLFLOW_TRACKING_URI") or store.default_uri(home())
    if find_spec("mlflow") is None:
        return Fact(
            Verdict.FAILED, f"mlflow: runs are recorded with it: {extras.installing('models')}"
        )
    try:
        store.check_writable(uri)
    except (InputError, ModuleNotFoundError) as error:
        return Fact(Verdict.FAILED, str(error))
    words = f"MLflow {version('mlflow')}: runs are recorded at {store.public(uri)}"
    return Fact(Verdict.OK, words, allows="pipelines")
