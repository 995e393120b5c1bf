"""The preflight of a job without its training: ``trireme job preflight``."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from trireme.errors import InputError
from trireme.job import names
from trireme.job.job import TrainingJob
from trireme.kubernetes.connection import Cluster
from trireme.observers.base import Observers
from trireme.observers.preflight import wrapping
from trireme.observers.preflight.observer import Preflight
from trireme.observers.preflight.report import PreflightFailed, Report
from trireme.observers.printing import Printing

TIME_LIMIT = 1800  # seconds
PATIENCE = 120.0  # seconds that replicas try to reach each other, as a person waits for them

Lines = Callable[[str, str], None]


def described(job: TrainingJob) -> TrainingJob:
    """Returns the job that makes only the preflight of another one, under a name of its own."""
    if reason := wrapping.why_not(job):
        raise InputError(f"there is no preflight: {reason}")
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
    preflight = Preflight(job, patience=wrapping.PATIENCE_HERE, alone=True)
    with suppress(PreflightFailed):
        runner.run(
            render(job),
            directory / "logs",
            Observers([preflight, Printing(on_line)]),
            isolated=isolated,
        )
    return preflight.report


def run_there(
    job: TrainingJob,
    manifest: dict[str, Any],
    cluster: Cluster,
    on_line: Lines,
    on_state: Callable[[str], None],
) -> Report:
    """Makes the preflight on a cluster, and returns what it has found; no job is left."""
    from trireme.runner.cluster import runner, submission
    from trireme.runner.cluster.follower import Limits

    policy = manifest["spec"].get("runPolicy", {})
    if "cleanPodPolicy" in policy:
        policy["cleanPodPolicy"] = "None"  # what each has found is to be read
    preflight = Preflight(job, patience=PATIENCE, alone=True)
    observers = Observers([preflight, Printing(on_line, on_state)])
    limits = Limits(job.queued_limit, job.starting_limit)
    try:
        with suppress(PreflightFailed):
            runner.launch(manifest, cluster, limits, observers)
    finally:
        if left := submission.find(cluster, manifest):
            submission.delete(cluster, left)
    return preflight.report
