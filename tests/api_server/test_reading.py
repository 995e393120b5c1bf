"""What the launcher reads out of jobs and pods."""

import itertools

import pytest
from player import manifests

from trireme.job.job import TrainingJob
from trireme.kubernetes import pods
from trireme.manifests import render
from trireme.runner import failed_replica
from trireme.runner.cluster import identity, reasons, submission
from trireme.runner.cluster.status import expected_replicas, status_of


def job(*conditions, **metadata):
    return manifests()["PyTorchJob"] | {
        "metadata": {"name": "digits"} | metadata,
        "status": {"conditions": [{"type": name, "status": how} for name, how in conditions]},
    }


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], "created"),
        ([("Created", "True")], "created"),
        ([("Created", "True"), ("Running", "True")], "running"),
        ([("Created", "True"), ("Running", "False"), ("Restarting", "True")], "restarting"),
        ([("Created", "True"), ("Running", "True"), ("Succeeded", "True")], "succeeded"),
        ([("Created", "True"), ("Running", "False"), ("Complete", "True")], "succeeded"),
        ([("Created", "True"), ("Running", "True"), ("Failed", "True")], "failed"),
        ([("Running", "True"), ("Failed", "False")], "running"),
        ([("Suspended", "False"), ("Running", "True")], "running"),
        ([("Created", "True"), ("Suspended", "True")], "suspended"),
    ],
)
def test_the_order_of_conditions_does_not_matter(conditions, state):
    for order in itertools.permutations(conditions):
        assert status_of(job(*order)).state == state


@pytest.mark.parametrize(
    ("counts", "conditions", "state"),
    [
        ({"active": 1, "ready": 0}, [], "created"),
        ({"active": 1, "ready": 1}, [], "running"),
        ({"active": 1, "ready": 1}, [("Suspended", "False")], "running"),
        ({"active": 0, "ready": 1, "succeeded": 1}, [("Complete", "True")], "succeeded"),
        ({"active": 1, "ready": 1}, [("Failed", "True")], "failed"),
    ],
)
def test_a_train_job_runs_by_the_counts_of_its_jobs(counts, conditions, state):
    """As Trainer 2.3 tells it: it has the conditions Suspended, Complete and Failed only."""
    given = job(*conditions) | {"kind": "TrainJob", "spec": {}}
    given["status"]["jobsStatus"] = [{"name": "node"} | counts]
    assert status_of(given).state == state


def test_a_job_that_is_being_deleted_has_ended_if_it_has():
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert status_of(job(("Running", "True"), **going)).state == "deleting"
    assert status_of(job(("Succeeded", "True"), **going)).state == "succeeded"


def test_replicas_are_counted():
    made = manifests()
    made["TFJob"]["spec"]["tfReplicaSpecs"]["PS"] = {"replicas": 3}
    assert expected_replicas(made["TFJob"]) == 5
    assert expected_replicas(made["TrainJob"]) == 2
    del made["TrainJob"]["spec"]["trainer"]["numNodes"]
    assert expected_replicas(made["TrainJob"]) == 0


OPERATOR = "training.kubeflow.org"


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        # As the operators label their pods.
        (
            {
                f"{OPERATOR}/replica-type": "master",
                f"{OPERATOR}/replica-index": "0",
                f"{OPERATOR}/job-role": "master",
            },
            "master-0",
        ),
        ({f"{OPERATOR}/replica-type": "ps", f"{OPERATOR}/replica-index": "12"}, "ps-12"),
        ({f"{OPERATOR}/job-role": "worker", f"{OPERATOR}/replica-index": "3"}, "worker-3"),
        ({f"{OPERATOR}/job-role": "launcher"}, "launcher-0"),
        (
            {
                "jobset.sigs.k8s.io/replicatedjob-name": "node",
                "batch.kubernetes.io/job-completion-index": "1",
            },
            "node-1",
        ),
        ({}, "some-pod"),
    ],
)
def test_replicas_are_named_after_their_labels(labels, name):
    assert identity.replica_name({"metadata": {"name": "some-pod", "labels": labels}}) == name


def pod(phase="Failed", **status):
    return {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "pytorch"}]},
        "status": {"phase": phase} | status,
    }


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            {"reason": "DeadlineExceeded", "message": "too long"},
            "ran into its pod's time limit (DeadlineExceeded): too long",
        ),
        (
            {
                "conditions": [
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "PreemptionByScheduler",
                        "message": "a more important pod came",
                    }
                ]
            },
            "was removed from its node (PreemptionByScheduler): a more important pod came",
        ),
        (
            {
                "initContainerStatuses": [
                    {"name": "fetch", "state": {"terminated": {"exitCode": 1}}}
                ]
            },
            "was not started: its init container fetch exited with status 1",
        ),
        ({"reason": "NodeLost"}, "failed (NodeLost)"),
        ({}, "failed for an unknown reason"),
    ],
)
def test_how_a_pod_failed_is_said_in_words(status, words):
    assert pods.failure(pod(**status), "pytorch").words == words


@pytest.mark.parametrize(
    ("owner", "made", "own"),
    [
        ({"kind": "PyTorchJob", "uid": "1"}, "10:00:00", True),
        ({"kind": "PyTorchJob", "uid": "0"}, "10:00:30", False),
        ({"kind": "TFJob", "uid": "2"}, "10:00:30", False),
        # MPIJob's launcher, and all of a TrainJob.
        ({"kind": "Job", "uid": "3"}, "10:00:30", True),
        ({"kind": "Job", "uid": "3"}, "09:59:30", False),
    ],
)
def test_a_pod_of_another_job_of_the_name_is_known(owner, made, own):
    metadata = {"creationTimestamp": f"2026-01-01T{made}Z", "ownerReferences": [owner]}
    ours = job(uid="1", creationTimestamp="2026-01-01T10:00:00Z")
    assert identity.is_of({"metadata": metadata}, ours) is own


@pytest.mark.parametrize(
    ("framework", "runtime", "own"),
    [
        ("pytorch", None, {"train-master-0", "train-worker-0", "train-worker-1"}),
        ("mpi", None, {"train-launcher-0", "train-node-0", "train-node-1"}),
        ("pytorch", "torch-distributed", {"train-node-0"}),
    ],
)
def test_the_jobs_of_a_train_job_are_known_by_their_names(framework, runtime, own):
    described = TrainingJob.create(
        name="train", framework=framework, entrypoint="train.py", workers=2, runtime=runtime
    )
    ours, at = render(described, "trainer"), {"creationTimestamp": "2026-01-01T10:00:00Z"}
    ours["metadata"] |= at
    others = {"train-other-0", "train-2-worker-0", "train-node", "train-master-0-x"}
    events = {name: {"involvedObject": {"kind": "Job", "name": name}} for name in own | others}
    known = {
        name
        for name, event in events.items()
        if reasons._is_of_its_jobs(ours, event | {"metadata": at})
    }
    assert known == own


def test_what_could_not_be_started_has_not_run():
    at = "2026-01-01T00:01:00Z"
    failed = {"reason": "StartError", "startedAt": "1970-01-01T00:00:00Z", "finishedAt": at}
    states = {"name": "pytorch", "lastState": {"terminated": failed}, "restartCount": 1}
    states["state"] = {"running": {"startedAt": at}}
    assert pods.spans(pod("Running", containerStatuses=[states]), "pytorch").keys() == {1}


def test_a_pod_that_has_succeeded_after_a_restart_has_not_failed():
    states = {
        "name": "pytorch",
        "restartCount": 1,
        "lastState": {"terminated": {"exitCode": 1}},
        "state": {"terminated": {"exitCode": 0}},
    }
    assert pods.failure(pod("Succeeded", containerStatuses=[states]), "pytorch") is None


def test_the_same_specification_is_known_whatever_the_metadata():
    one, other = manifests()["PyTorchJob"], manifests()["PyTorchJob"]
    other["metadata"] |= {"labels": {"run": "2"}, "ownerReferences": [{"uid": "1"}]}
    assert submission.spec_hash(one) == submission.spec_hash(other)
    # A launcher that has found MLflow away gives a job none of its run.
    of_a_run = ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID")

    def give(job, *names):
        for role in job["spec"]["pytorchReplicaSpecs"].values():
            variables = [{"name": name, "value": "7"} for name in names]
            role["template"]["spec"]["containers"][0]["env"] = variables

    give(one, "A", "MLFLOW_RUN_ID")
    give(other, "A", *of_a_run)
    assert submission.spec_hash(one) == submission.spec_hash(other)
    give(one, "A")
    give(other, "A", "MLFLOW_EXPERIMENT_NAME")  # which is that of a job in no run
    assert submission.spec_hash(one) != submission.spec_hash(other)
    give(other, "A")
    other["spec"]["nprocPerNode"] = "2"
    assert submission.spec_hash(one) != submission.spec_hash(other)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:3",
        "torch.distributed.DistBackendError: NCCL communicator was aborted",
        "tensorflow.python.framework.errors_impl.UnavailableError: no connection",
        "ORTE has lost communication with a remote daemon.",
    ],
)
def test_a_replica_whose_peer_is_gone_was_dragged_down(line):
    assert failed_replica.is_peer_loss(["Traceback (most recent call last):", line])
    assert not failed_replica.is_peer_loss(["ValueError: the cause"])


@pytest.mark.parametrize("before", ["", "[rank0]:   File "])
def test_what_torchrun_reports_is_not_shown(before):
    lines = [f"line {number}" for number in range(30)]
    said = "E0101 00:00:00.000000 1 torch/distributed/elastic/multiprocessing/api.py:1] failed"
    shown = failed_replica.last_lines("worker-0", [*lines, before + said, "more of it"])
    assert shown.splitlines() == [f"[worker-0] line {number}" for number in range(10, 30)]
