"""What a run's last step does on a cluster: nothing of the run is left that still works."""

import copy

from components.finish.finishing import finish
from components.training.cluster import connection, jobs, submission
from components.training.cluster.refusals import Forbidden


def test_jobs_of_the_run_that_still_work_are_deleted_and_no_others(
    cluster, monkeypatch, untracked, pytorch, player, tmp_path, capsys
):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(connection, "Cluster", lambda: cluster)
    for name in ("train-7", "train-7-003", "train-7-004", "train-70", "mine"):
        manifest = copy.deepcopy(pytorch)
        manifest["metadata"]["name"] = name
        job = submission.submit(cluster, manifest)
        if name == "train-7-004":
            player.condition(job, "Succeeded")
    finish("FAILED", "", "sweep", "7", "", tmp_path)
    assert {row.name for row in jobs.list_jobs(cluster)} == {"train-7-004", "train-70", "mine"}
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        "deleted the training job train-7, which was still there",
        "deleted the training job train-7-003, which was still there",
    ]


def test_a_step_that_may_not_delete_says_so_and_ends_the_run(
    monkeypatch, untracked, tmp_path, capsys
):
    def refuse():
        raise Forbidden("this service account may not list pytorchjobs")

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(connection, "Cluster", refuse)
    finish("SUCCEEDED", "", "sweep", "7", "", tmp_path)
    assert "warning: this service account may not list" in capsys.readouterr().out
