"""Run a training job and keep its result."""

import os
import shutil
import threading
from pathlib import Path
from typing import NamedTuple

import yaml

from components.errors import InputError
from components.tracking import journal
from components.tracking.environment import TRACKER
from components.training import runner
from components.training.job import TrainingJob
from components.training.manifest import render

SUMMARY = 200  # characters of the program's last line that stand for what it did


class Trained(NamedTuple):
    """What a training job left.

    Attributes:
        model: The directory that was its MODEL_DIR, complete.
        checkpoints: The directory of its checkpoints.
    """

    model: str
    checkpoints: str


def prepare(
    workspace: Path,
    *,
    code: str,
    data: str,
    image: str,
    entrypoint: str,
    args: list[str],
    workers: int,
    processes_per_worker: int,
    seed: int,
    time_limit: int,
    tracking: dict[str, str] | None = None,
) -> TrainingJob:
    """Describes the training job of a run.

    Args:
        workspace: The run workspace, which checkpoints and model go to.
        code: Directory of the repository.
        data: Directory of the dataset.
        image: Image of every replica.
        entrypoint: The training program, relative to the repository.
        args: Its arguments.
        workers: Replicas besides the master.
        processes_per_worker: Processes in each replica.
        seed: What the program finds in SEED.
        time_limit: Seconds the job may run; 0 for no limit.
        tracking: Variables that lead the program to its MLflow run.

    Raises:
        InputError: A field is wrong.
    """
    if not 0 <= seed < 2**32:
        raise InputError(f"seed {seed}: must be between 0 and 4294967295")
    if time_limit < 0:
        raise InputError(f"time_limit {time_limit}: must be seconds, or 0 for no limit")
    return TrainingJob.create(
        name="train",
        image=image,
        code_dir=code,
        entrypoint=entrypoint,
        args=args,
        workers=workers,
        processes_per_worker=processes_per_worker,
        env={"SEED": str(seed)} | (tracking or {}),
        data_dir=data,
        checkpoint_dir=str(workspace / "checkpoints"),
        # Half a model is never taken for a whole one: the job writes here, success renames it.
        model_dir=str(workspace / "model.partial"),
        time_limit=time_limit or None,
    )


def train(job: TrainingJob, workspace: Path) -> Trained:
    """Runs a job to its end; its model appears whole or not at all.

    Args:
        job: The job, as ``prepare`` describes it.
        workspace: The run workspace.

    Raises:
        InputError: The entrypoint is not in the repository.
        JobFailed: The job did not succeed.
    """
    if "KUBERNETES_SERVICE_HOST" in os.environ and TRACKER not in os.environ:
        raise InputError("this version of Trireme trains on one machine only, not on a cluster")
    if not Path(job.code_dir, job.entrypoint).is_file():
        raise InputError(
            f"entrypoint {job.entrypoint!r} does not exist in the repository that was checked out"
        )
    model = workspace / "model"
    shutil.rmtree(job.model_dir, ignore_errors=True)
    for directory in (job.model_dir, job.checkpoint_dir):
        Path(directory).mkdir(parents=True, exist_ok=True)
    manifest = render(job)
    logs = workspace / "steps" / "train"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "job.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False, width=1000))
    _record(job, logs)

    last_line = ""
    one_at_a_time = threading.Lock()

    def show(replica: str, line: str) -> None:
        nonlocal last_line
        if replica == "master-0" and line.strip():
            last_line = line.strip()[:SUMMARY]
        with one_at_a_time:
            print(f"[{replica}] {line}", flush=True)

    seconds = runner.run(manifest, logs, show)
    shutil.rmtree(model, ignore_errors=True)
    Path(job.model_dir).rename(model)
    _mend_links(model, Path(job.model_dir))
    journal.log_metrics({"replica_seconds": sum(seconds.values())})
    journal.log_artifact(model, "model")
    journal.summarize(last_line)
    return Trained(str(model), job.checkpoint_dir)


def _mend_links(model: Path, before: Path) -> None:
    """Points links that the program made inside its MODEL_DIR to where that is now.

    A link that leads nowhere is removed: nothing could be kept of it.
    """
    for link in model.rglob("*"):
        if not link.is_symlink():
            continue
        target = link.readlink()
        if target.is_relative_to(before):
            link.unlink()
            link.symlink_to(model / target.relative_to(before))
        if not link.exists():
            link.unlink()


def _record(job: TrainingJob, logs: Path) -> None:
    journal.log_params(
        job.model_dump(
            include={"framework", "image", "entrypoint", "args", "workers", "processes_per_worker"}
        )
        | {"world_size": job.world_size}
    )
    journal.log_tags({"image": job.image})
    journal.log_artifact(logs / "job.yaml")
    for index in range(job.workers):
        journal.log_artifact(logs / f"worker-{index}.log", "logs")
    journal.log_artifact(logs / "master-0.log", "logs")
