"""Provision of a job on this machine: its code, its data, and places for its results."""

from pathlib import Path
from typing import Any

from trireme.code.data_link import link
from trireme.code.git import checkout
from trireme.data.description import check_here
from trireme.data.staging import cache_of, stage
from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.runner.local import installed, runner


def check(job: TrainingJob, directory: Path) -> dict[str, Any]:
    """Returns the manifest of a job if nothing that can be known now keeps it from running here."""
    installed.check(job)
    directories = _places(job, directory)
    if job.code:
        directories["code_dir"] = str(Path.cwd())  # as long as the repository is not here
    else:
        _check_entrypoint(job, Path(directories.get("code_dir", job.code_dir)))
    if job.dataset:
        check_here(job.dataset)
    manifest = render(job.model_copy(update=directories | {"code": None, "dataset": None}))
    runner.check(manifest)
    return manifest


def provision(job: TrainingJob, directory: Path) -> TrainingJob:
    """Returns a job with code, data and results in places of this machine, all of them filled."""
    installed.check(job)
    directories = _places(job, directory)
    if job.code:
        code = job.code
        directories["code_dir"] = checkout(
            code.url,
            code.revision,
            directory / "code",
            secret=code.secret,
            directory=code.directory,
            submodules=code.submodules,
        ).path
    _check_entrypoint(job, Path(directories.get("code_dir", job.code_dir)))
    if job.dataset:
        check_here(job.dataset)
        staged = stage(job.dataset, directory / "data", cache_of(directory))
        directories["data_dir"] = staged.path
    if job.data_at:
        data = directories.get("data_dir", job.data_dir)
        link(Path(directories["code_dir"]), job.data_at, data, directory / "code")
    for name in ("data_dir", "checkpoint_dir", "model_dir"):
        _make(name, Path(directories.get(name, getattr(job, name))))
    return job.model_copy(update=directories | {"code": None, "dataset": None})


def _places(job: TrainingJob, directory: Path) -> dict[str, str]:
    """Returns where a job's directories are on this machine, but for those that it names."""
    directories = {
        "data_dir": str(directory / "data"),
        "checkpoint_dir": str(directory / "checkpoints"),
        "model_dir": str(directory / "model"),
        "code_dir": str(Path.cwd()),
    }
    return {name: path for name, path in directories.items() if name not in job.model_fields_set}


def _check_entrypoint(job: TrainingJob, code_dir: Path) -> None:
    if job.entrypoint and not (code_dir / job.entrypoint).is_file():
        hint = "" if job.code or "code_dir" in job.model_fields_set else ", the current directory"
        raise InputError(f"entrypoint {job.entrypoint!r} does not exist in {code_dir}{hint}")


def _make(field: str, directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{field} {str(directory)!r} cannot be created: {error.strerror}"
        ) from None
