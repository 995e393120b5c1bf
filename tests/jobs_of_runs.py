"""Jobs as the steps of a pipeline describe them."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from trireme.job.job import TrainingJob
from trireme.runner.job_of_run import JobParameters, RunOfJob, job_of

OF_JOB = {each.name for each in fields(JobParameters)}


def job_in(workspace: Path, **changes: Any) -> TrainingJob:
    """Describes the job of a run: two replicas of train.py of the code in its workspace.

    Args:
        changes: Fields of JobParameters and of RunOfJob.
    """
    given: dict[str, Any] = {"framework": "pytorch", "entrypoint": "train.py", "workers": 1}
    run: dict[str, Any] = {"code": str(workspace / "code"), "data": str(workspace / "data")}
    for name, value in changes.items():
        (given if name in OF_JOB else run)[name] = value
    return job_of(JobParameters(**given), RunOfJob(workspace=workspace, **run))
