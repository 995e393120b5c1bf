"""Builds the images that trireme/images.py names: ``python images/build.py [NAME...]``."""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from trireme import images  # noqa: E402

IMAGES = {
    "base": images.BASE,
    "pytorch": images.PYTORCH,
    "tensorflow": images.TENSORFLOW,
    "mpi": images.MPI,
    "jax": images.JAX,
    "xgboost": images.XGBOOST,
    "mlflow": images.MLFLOW,
}
LOCKS = {"mpi": "pytorch"}
"""Whose packages an image has, where they are not its own."""

WITH_FRAMEWORK = ("pytorch", "tensorflow", "mpi")
BUILDERS = ("podman", "buildah", "docker")
PUSHED = ROOT / "images.yaml"
SOURCE = "https://github.com/trireme/trireme"


def builder(names: Sequence[str] = BUILDERS) -> str | None:
    """Returns the first builder that is there and, docker's server included, works.

    Args:
        names: Which are tried.
    """
    for name in names:
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True).returncode
        ):
            return name
    return None


def tag(name: str, accelerator: str) -> str:
    """Returns an image's full name; that of one for GPUs ends in ``-cuda``.

    Args:
        name: The image, such as ``pytorch``.
        accelerator: ``cpu`` or ``cuda``.
    """
    cuda = accelerator == "cuda" and name in WITH_FRAMEWORK
    return images.for_gpus(IMAGES[name]) if cuda else IMAGES[name]


def command(program: str, name: str, accelerator: str, revision: str) -> list[str]:
    """Returns the command that builds an image.

    Args:
        program: One of ``BUILDERS``.
        name: The image.
        accelerator: ``cpu`` or ``cuda``.
        revision: The commit that it is built from; nothing if that is not known.
    """
    lock = LOCKS.get(name, name)
    arguments = {
        "NAME": name,
        "LOCK": f"{lock}-{accelerator}" if name in WITH_FRAMEWORK else lock,
        "VERSION": IMAGES[name].rpartition(":")[2],
        "REVISION": revision,
        "SOURCE": SOURCE,
    }
    return [
        *(program, "build", "--file", str(ROOT / "images/Containerfile")),
        *("--target", name if name in ("mpi", "mlflow") else "steps"),
        *(part for key, value in arguments.items() for part in ("--build-arg", f"{key}={value}")),
        # buildah keeps no layers, podman and docker do.
        *(["--layers"] if program == "buildah" else []),
        *shlex.split(os.environ.get("BUILD_OPTIONS", "")),
        *("--tag", tag(name, accelerator), str(ROOT)),
    ]


def push(program: str, image: str, registry: str) -> str:
    """Pushes an image to a registry; returns its name there, with its digest.

    Args:
        program: One of ``BUILDERS``.
        image: The image's full name, as ``tag`` returns it.
        registry: Where it goes, such as ``registry.example.org/team``.

    Raises:
        subprocess.CalledProcessError: the builder could not.
    """
    there = f"{registry}/{image.rpartition('/')[2]}"
    repository = there.rpartition(":")[0]
    options = shlex.split(os.environ.get("PUSH_OPTIONS", ""))
    subprocess.run([program, "tag", image, there], check=True)
    if program == "docker":
        subprocess.run([program, "push", *options, there], check=True)
        inspect = [program, "image", "inspect", "--format", "{{json .RepoDigests}}", there]
        found = json.loads(subprocess.run(inspect, check=True, capture_output=True).stdout)
        return str(next(each for each in found if each.startswith(f"{repository}@")))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "digest"
        subprocess.run([program, "push", *options, "--digestfile", file, there], check=True)
        return f"{repository}@{file.read_text().strip()}"


def read(file: Path) -> dict[str, str]:
    """Returns what an earlier build has written, nothing where there was none; see ``write``."""
    if not file.exists():
        return {}
    lines = (line.partition(": ") for line in file.read_text().splitlines() if line.strip())
    return {name: image for name, _, image in lines}


def write(file: Path, pushed: dict[str, str]) -> None:
    """Writes images with digests by the names that pipelines have for them, for ``--images``."""
    file.write_text("".join(f"{name}: {image}\n" for name, image in sorted(pushed.items())))


def revision() -> str:
    """Returns the commit that the tree is at; ``-dirty`` at its end says that files differ.

    It is empty where that is not known: the tree is no git checkout, or git will not read it.
    """
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        return ""
    describe = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty"]
    return subprocess.run(describe, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Builds what the command line names.

    Returns:
        The exit status: the builder's, or 2 where there is none.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(IMAGES)}")
    parser.add_argument("--accelerator", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--builder", choices=BUILDERS, help="by default the first that works")
    parser.add_argument("--registry", default="", help="where --push pushes to, HOST[/PATH]")
    parser.add_argument("--push", action="store_true", help=f"push, and write {PUSHED.name}")
    options = parser.parse_args()
    registry = options.registry.rstrip("/")
    if bool(registry) != options.push:
        parser.error("--registry and --push go together (make images REGISTRY=... PUSH=1)")
    if "://" in registry or registry != registry.lower():
        parser.error(f"--registry {registry}: must be as in registry.example.org/team")
    if unknown := set(options.names) - set(IMAGES):
        parser.error(f"no image {', '.join(sorted(unknown))}: there are {', '.join(IMAGES)}")
    wanted = [options.builder] if options.builder else BUILDERS
    program = builder(wanted)
    if program is None:
        print(f"error: no builder works; install one of {', '.join(wanted)}", file=sys.stderr)
        return 2
    commit = revision()
    if not commit:
        print(f"note: {ROOT} is at no commit that git knows; the images name none", file=sys.stderr)
    for name in options.names or IMAGES:
        done = subprocess.run(command(program, name, options.accelerator, commit))
        if done.returncode:
            return done.returncode
        if options.push:
            image = tag(name, options.accelerator)
            try:
                pushed = push(program, image, registry)
            except subprocess.CalledProcessError as error:
                return error.returncode
            write(PUSHED, read(PUSHED) | {image: pushed})
            print(f"{PUSHED.name}: {pushed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
