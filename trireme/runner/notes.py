"""Notes on a job for a cluster: what a person should know though it is allowed."""

from typing import Any

from trireme.frameworks import kind_of
from trireme.job.job import TrainingJob
from trireme.manifests import why_no_trainjob
from trireme.observers.preflight import wrapping
from trireme.runner.reclaimed import note


def notes(job: TrainingJob, manifest: dict[str, Any], *, followed: bool) -> list[str]:
    """Returns what may surprise in a job's operator, followed or not, and the job's notes."""
    sentences = job.notes
    several = sum(replica.count for replica in job.roles.values()) > 1
    if job.preflight and several and (reason := wrapping.why_not(job)):
        sentences.append(f"there is no preflight: {reason}")
    place = (job.code.url, job.code.directory) if job.code else (None, "")
    if reclaimed := note(job, *place):
        sentences.append(reclaimed)
    if job.on_hang != "report" and not followed:
        sentences.append(f"on_hang {job.on_hang}: only --wait looks whether a job hangs")
    if "runtime" in manifest:  # which is made for the job, and says all of it
        return sentences
    if job.operator == "auto" and (reason := why_no_trainjob(job)):
        sentences.append(
            f"it becomes a {manifest['kind']}, which Kubeflow no longer includes, and no TrainJob: "
            f"{reason}"
        )
    if not kind_of(manifest).replicas:
        runtime = manifest["spec"]["runtimeRef"]["name"]
        return [
            *sentences,
            f"runtime {runtime} sets how often a failed program is restarted, by default 6 "
            "times; a TrainJob cannot set it",
        ]
    unseen = []
    if not followed and job.retries and "ExitCode" in job.restart_policies:
        unseen.append(
            f"retries {job.retries}: the training operator does not count restarts with "
            "restart_policy ExitCode, only --wait does; give a time_limit"
        )
    if not followed and job.elastic and job.clean_up == "Running":
        unseen.append(
            "elastic: the job succeeds with its first worker, and the others' logs are deleted "
            "with their pods; use --wait to keep them"
        )
    return [*sentences, *unseen]
