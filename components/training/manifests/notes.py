"""What a person should know of a job on a cluster before it runs, though it is allowed."""

from typing import Any

from trireme.components.training.description.job import TrainingJob
from trireme.components.training.frameworks import kind_of


def notes(job: TrainingJob, manifest: dict[str, Any], *, followed: bool) -> list[str]:
    """Returns what a job's operator does otherwise than one might think, and the job's own notes.

    Args:
        followed: Whether somebody follows it to its end: a pipeline's step, or submit --wait.
    """
    if "runtime" in manifest:  # which is made for the job, and says all of it
        return job.notes
    if not kind_of(manifest).replicas:
        runtime = manifest["spec"]["runtimeRef"]["name"]
        return [
            *job.notes,
            f"a program that fails is started again as often as runtime {runtime} says, or 6 times "
            "where it says nothing; a TrainJob cannot say it",
        ]
    unseen = []
    if not followed and job.retries and "ExitCode" in job.restart_policies:
        unseen.append(
            f"retries {job.retries}: with restart_policy ExitCode the training operator counts no "
            "restarts, only who follows the job does, as with --wait; give a time_limit"
        )
    if not followed and job.elastic and job.clean_up == "Running":
        unseen.append(
            "elastic: the job succeeds with its first worker, and what the others print goes with "
            "their pods; follow it, as with --wait, to keep their logs"
        )
    return [*job.notes, *unseen]
