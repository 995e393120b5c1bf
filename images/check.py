"""Checks, inside an image, that it is what it should be: ``python check.py NAME``.

Says what is wrong, a line each, and ends with the number of them.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path

PREFIX = Path(sys.prefix)
SHARE = Path(__file__).parent
FRAMEWORKS = {"torch", "tensorflow", "jax", "xgboost"}
NEEDED = {
    "base": ["obstore", "kfp.kubernetes", "kubernetes", "mlflow.tracking"],
    "pytorch": ["torch", "onnx", "onnxruntime", "onnxscript", "mlflow.onnx", "optuna", "sklearn"],
    "tensorflow": ["tensorflow", "tf2onnx", "onnxruntime", "mlflow.onnx", "optuna", "sklearn"],
    "mpi": ["torch", "mpi4py.MPI"],
    "jax": ["jax", "mlflow.tracking", "PIL"],
    "xgboost": ["xgboost.tracker", "mlflow.tracking", "PIL"],
    "mlflow": ["mlflow.server", "boto3", "psycopg2", "flask_wtf"],
}
"""The modules that an image is there for."""


def user() -> Iterator[str]:
    """The user is a number other than root, and has no way to become another."""
    if os.getuid() == 0:
        yield "runs as root"
    if sudo := shutil.which("sudo"):
        yield f"there is {sudo}"


def programs(name: str) -> Iterator[str]:
    """``trireme``, kfp's executor, git, uv and, for MPI, mpirun and sshd start."""
    commands = [
        ["trireme", "--help"],
        [sys.executable, "-m", "kfp.dsl.executor_main", "--help"],
        ["git", "--version"],
        ["git", "lfs", "version"],
        ["uv", "--version"],
    ]
    if name == "mpi":
        commands += [["mpirun", "--version"], ["ssh", "-V"]]
    if name == "mlflow":
        commands += [["mlflow", "server", "--help"]]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            yield f"there is no {command[0]}"
            continue
        if done.returncode:
            yield f"{' '.join(command)} fails: {done.stderr.strip()[-300:]}"


def modules(name: str) -> Iterator[str]:
    """What the image is there for can be imported; base has no framework."""
    for module in NEEDED[name]:
        try:
            import_module(module)
        except Exception as error:  # mpi4py's without an MPI is a RuntimeError
            yield f"import {module}: {error}"
    installed = {found.metadata["Name"] for found in distributions()}
    if name in ("base", "mlflow") and installed & FRAMEWORKS:
        yield f"holds {', '.join(installed & FRAMEWORKS)}"


def leftovers() -> Iterator[str]:
    """Nothing that only building needs, and no key."""
    for tool in ("gcc", "cc", "make", "pip", "pip3"):
        if found := shutil.which(tool):
            yield f"there is {found}"
    for cache in (Path.home() / ".cache/pip", Path("/root/.cache"), Path("/src"), Path("/wheels")):
        if cache.exists():
            yield f"there is {cache}"
    for key in Path("/etc/ssh").glob("ssh_host_*"):
        yield f"there is a key, {key}"


def places() -> Iterator[str]:
    """Programs cannot be changed, and the default directories can be used."""
    place = PREFIX.stat()  # asked for access, a read-only root would say no whoever owns it
    if place.st_uid == os.getuid() or place.st_mode & 0o022:
        yield f"{PREFIX} can be written to"
    if not os.access("/root/code", os.X_OK):
        yield "/root/code cannot be entered"
    if not Path("/workspace").stat().st_mode & 0o002:
        yield "/workspace cannot be written to"


def sbom() -> Iterator[str]:
    """The list of packages is whole."""
    listed = json.loads((SHARE / "sbom.cdx.json").read_text())["components"]
    names = {component["name"] for component in listed}
    missing = {found.metadata["Name"] for found in distributions()} | {"git", "python3"}
    if missing := missing - names:
        yield f"sbom.cdx.json lacks {', '.join(sorted(missing))}"


def main(name: str) -> int:
    """Makes all checks.

    Args:
        name: The image's name, such as ``base``.

    Returns:
        How many of them found something wrong.
    """
    checks: list[Callable[[], Iterator[str]]] = [
        user,
        lambda: programs(name),
        lambda: modules(name),
        leftovers,
        places,
        sbom,
    ]
    wrong = [line for check in checks for line in check()]
    for line in wrong:
        print(f"{name}: {line}")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
