"""Event files of the replicas of jobs and runs; kubectl is one that says which pod was asked."""

import os
from pathlib import Path

import pytest
from argo_runs import begun
from player import Player, manifests

from trireme.job import names
from trireme.runner.cluster import jobs, submission
from trireme.targets import registry
from trireme.targets.argo import workflows
from trireme.tracking import event_files as artifacts

NAME = "events.out.tfevents.1700000000.host.1.0"
KUBECTL = f"""#!/bin/sh
printf '{{"file": "runs/%s/{NAME}", "start": 0, "size": 2}}\\nok' "$3"
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    file = tmp_path / "bin" / "kubectl"
    file.parent.mkdir()
    file.write_text(KUBECTL)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


def job_of(cluster, name, logs, runs=("master",)):
    """Makes a job with two replicas, of which some run; returns it and who plays its operator."""
    manifest = manifests()["PyTorchJob"]
    manifest["metadata"]["name"] = name
    job = submission.submit(cluster, manifest)
    player = Player(cluster, logs)
    for role in ("master", "worker"):
        pod = player.pod(job, role)
        if role in runs:
            player.run(pod)
    return job, player


def brought(folder):
    return {str(file.relative_to(folder).parent) for file in folder.rglob("events.*")}


def test_those_of_replicas_that_run_are_brought(standing_in, container_logs, kubectl, folder):
    job, player = job_of(standing_in, "digits", container_logs)
    assert jobs.event_files(standing_in, "digits", folder) is True
    assert brought(folder) == {"runs/digits-master-0"}
    assert next(folder.rglob("events.*")).read_text() == "ok"
    player.exit("digits-master-0", 0)
    player.condition(job, "Succeeded")
    assert jobs.event_files(standing_in, "digits", folder) is False


@pytest.fixture
def downloads(monkeypatch):
    """What is asked of MLflow, which has one file."""
    asked = []

    def download(run: str, folder: Path) -> None:
        asked.append(run)
        (folder / "train").mkdir()
        (folder / "train" / NAME).write_text("of MLflow")

    monkeypatch.setattr(artifacts, "download", download)
    return asked


def test_a_run_has_those_of_its_jobs_and_then_those_in_mlflow(
    argo_standing_in, container_logs, kubectl, folder, downloads
):
    cluster = argo_standing_in
    run = begun(cluster)
    change = {"status": {"phase": "Running"}}
    workflow = cluster.patch(workflows.WORKFLOWS, run, cluster.namespace, change)
    uid = workflow["metadata"]["uid"]
    job_of(cluster, names.of_run(uid), container_logs)
    job_of(cluster, names.of_run(uid, 7), container_logs)
    job_of(cluster, "train-other", container_logs)
    argo = registry.open("argo", {})
    assert argo.event_files(run, folder) is True
    name = names.of_run(uid)
    assert brought(folder) == {f"runs/{name}-master-0", f"007/runs/{name}-007-master-0"}
    assert not downloads
    cluster.patch(workflows.WORKFLOWS, run, cluster.namespace, {"status": {"phase": "Succeeded"}})
    assert argo.event_files(run, folder) is False and not downloads
    later = folder / "later"
    later.mkdir()
    assert argo.event_files(run, later) is False
    assert downloads == [run] and brought(later) == {"train"}


def test_a_job_that_has_not_started_may_have_some_later(standing_in, container_logs, folder):
    job_of(standing_in, "digits", container_logs, runs=())
    assert jobs.event_files(standing_in, "digits", folder) is True
    assert not any(folder.iterdir())
