"""The preflight of a job without its training: ``trireme job preflight``."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trireme.errors import InputError, JobFailed
from trireme.job import names
from trireme.job.job import TrainingJob
from trireme.kubernetes.connection import Cluster
from trireme.observers.preflight import wrapping
from trireme.observers.preflight.report import Report

TIME_LIMIT = 1800  # seconds
PATIENCE = 120.0  # seconds that replicas try to reach each other, as a person waits for them

Lines = Callable[[str, str], None]


def described(job: TrainingJob) -> TrainingJob:
    """Returns the job that makes only the preflight of another one, under a name of its own."""
    if why := wrapping.why_not(job):
        raise InputError(f"there is no preflight: {why}")
    end = f"-preflight-{secrets.token_hex(2)}"
    replicas = {
        role: replica.model_copy(update={"restart_policy": None})
        for role, replica in job.replicas.items()
    }
    changes = {
        "name": job.name[: names.LIMIT - len(end)].rstrip("-") + end,
        "replicas": replicas,
        "restart_policy": None if job.runtime else "Never",
        "retries": None,
        "on_hang": "report",
        "time_limit": TIME_LIMIT,
        "suspend": False,
        "preflight": True,
    }
    return job.model_copy(update=changes)


def run_here(job: TrainingJob, directory: Path, on_line: Lines, *, isolated: bool) -> Report:
    """Makes the preflight on this machine, and returns what it has found.

    Args:
        job: As from ``described``.
        directory: For the job's code and data.
        isolated: Whether each replica gets a network of its own.
    """
    from trireme.manifests import render
    from trireme.runner.local import provision, runner

    job = provision.provision(job, directory)
    manifest, report = render(job), Report()
    wrapping.wrap(manifest, job, wrapping.PATIENCE_HERE, alone=True)
    try:
        runner.run(manifest, directory / "logs", _shown(report, on_line), isolated=isolated)
    except JobFailed:
        if not report.failure:
            raise
    return report


def run_there(
    job: TrainingJob,
    manifest: dict[str, Any],
    cluster: Cluster,
    on_line: Lines,
    on_state: Callable[[str], None],
) -> Report:
    """Makes the preflight on a cluster, and returns what it has found; no job is left."""
    from trireme.runner.cluster import launcher, submission
    from trireme.runner.cluster.follower import Limits

    policy = manifest["spec"].get("runPolicy", {})
    if "cleanPodPolicy" in policy:
        policy["cleanPodPolicy"] = "None"  # what each has found is to be read
    report = Report()
    try:
        launcher.launch(
            manifest,
            cluster,
            limits=Limits(job.queued_limit, job.starting_limit),
            on_line=on_line,
            on_state=on_state,
            prepare=wrapping.wrapper(job, PATIENCE, alone=True),
            preflight=report,
        )
    except JobFailed:
        if not report.failure:
            raise
    finally:
        if there := submission.find(cluster, manifest):
            submission.delete(cluster, there)
    return report


def _shown(report: Report, on_line: Lines) -> Lines:
    def show(replica: str, lines: str) -> None:
        for line in lines.split("\n"):
            if (shown := report.shown(replica, line)) is not None:
                on_line(replica, shown)

    return show
