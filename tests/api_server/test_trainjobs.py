"""Jobs where Kubeflow Trainer is: with a runtime of their own, which comes and goes with them."""

import pytest
import yaml
from jobs_of_runs import job_in

from trireme.errors import InputError
from trireme.frameworks.kinds import TRAINING_RUNTIMES, TRAINJOB
from trireme.job.job import TrainingJob
from trireme.kubernetes import connection
from trireme.kubernetes.errors import Invalid, Unavailable
from trireme.manifests import render
from trireme.observers.progress import Meter
from trireme.observers.trainer_status import TrainerStatus
from trireme.progress import Progress
from trireme.runner import training_step
from trireme.runner.cluster import jobs, operators, reasons, runner, submission
from trireme.runner.cluster.operators import operator_of
from trireme.runner.cluster.reasons import POD_GROUPS

V1 = ("pytorchjobs", "tfjobs", "mpijobs")
JOB = {"name": "digits", "entrypoint": "train.py", "workers": 1}


@pytest.fixture
def trainer(server, standing_in):
    """A cluster that has Trainer and none of the v1 operators."""
    for plural in V1:
        del server.plurals[plural]
    return standing_in


@pytest.fixture
def manifest():
    return render(TrainingJob.create(**JOB), "trainer")


@pytest.fixture
def cluster(standing_in):
    return standing_in


def runtimes(cluster):
    return cluster.list(TRAINING_RUNTIMES, cluster.namespace)["items"]


@pytest.mark.parametrize(
    ("fields", "missing", "operator"),
    [
        ({}, (), "trainer"),
        ({}, ("trainjobs",), "training-operator"),
        ({"clean_up": "None"}, (), "training-operator"),
        ({"clean_up": "None"}, ("pytorchjobs",), "trainer"),  # which then says why not
        ({}, ("pytorchjobs",), "trainer"),
        ({"framework": "custom"}, ("pytorchjobs",), "trainer"),
        ({"framework": "tensorflow"}, ("pytorchjobs", "trainjobs"), "training-operator"),
        ({"framework": "tensorflow"}, ("tfjobs",), "trainer"),
        ({"framework": "mpi"}, ("mpijobs",), "trainer"),
        ({}, (*V1, "trainjobs"), "training-operator"),  # which is then named
        ({"operator": "trainer"}, (), "trainer"),
        ({"operator": "training-operator"}, ("pytorchjobs",), "training-operator"),
        ({"runtime": "torch-distributed"}, (), "trainer"),
    ],
)
def test_a_job_becomes_what_the_cluster_has_an_operator_for(
    server, standing_in, fields, missing, operator
):
    for plural in missing:
        del server.plurals[plural]
    assert operator_of(standing_in, TrainingJob.create(**JOB | fields)) == operator


GANG = JOB | {"scheduling": {"gang": True}}


@pytest.mark.parametrize(
    ("served", "scheduler"),
    [({"volcano"}, "volcano"), ({"coscheduling"}, "coscheduling"), ({*POD_GROUPS}, "volcano")],
)
def test_a_gang_is_of_the_scheduler_that_the_cluster_has(trainer, monkeypatch, served, scheduler):
    there = [POD_GROUPS[name] for name in served] + [TRAINJOB]
    monkeypatch.setattr(operators, "_serves", lambda cluster, kind: kind in there)
    made = operators.manifest_of(trainer, TrainingJob.create(**GANG))
    assert made["runtime"]["spec"]["podGroupPolicy"] == {scheduler: {}}
    assert reasons.wants_gang(made)


def test_a_gang_without_a_scheduler_is_refused(trainer):
    with pytest.raises(InputError, match="a TrainJob names its gang scheduler; give volcano or"):
        operators.manifest_of(trainer, TrainingJob.create(**GANG))


def test_a_job_brings_its_runtime_and_takes_it_along(trainer, manifest, monkeypatch):
    monkeypatch.setattr(submission, "DELETION_LIMIT", 2.0)
    job = submission.submit(trainer, manifest)
    (runtime,) = runtimes(trainer)
    assert job["spec"]["runtimeRef"] == {
        "kind": "TrainingRuntime",
        "name": runtime["metadata"]["name"],
    }
    assert runtime["spec"] == manifest["runtime"]["spec"]
    assert "runtime" not in job
    (owner,) = runtime["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("TrainJob", job["metadata"]["uid"])
    assert submission.submit(trainer, manifest) == job
    assert len(runtimes(trainer)) == 1
    jobs.delete(trainer, "digits")
    assert runtimes(trainer) == []


def test_another_runtime_is_another_job(trainer, manifest):
    job = submission.submit(trainer, manifest)
    other = render(TrainingJob.create(**JOB, args=["more"]), "trainer")
    assert submission.is_same(job, manifest) and not submission.is_same(job, other)


def test_a_runtime_whose_job_is_refused_does_not_stay(server, trainer, manifest):
    server.fail("POST", "/trainjobs$", code=422, message="spec is wrong")
    with pytest.raises(Invalid, match="spec is wrong"):
        submission.submit(trainer, manifest)
    assert runtimes(trainer) == []


def test_a_job_whose_answer_is_lost_keeps_its_runtime(server, trainer, manifest):
    server.fail("POST", "/trainjobs$", after=True)
    job = submission.submit(trainer, manifest)
    (runtime,) = runtimes(trainer)
    assert runtime["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_who_was_slower_leaves_no_runtime(server, trainer, manifest, monkeypatch):
    job = submission.submit(trainer, manifest)
    monkeypatch.setattr(submission, "find", lambda *_: None)
    assert submission.submit(trainer, manifest) == job
    assert len(runtimes(trainer)) == 1


def test_a_server_that_goes_away_is_told(server, trainer, manifest):
    trainer.patience = 0.1
    server.fail("POST", "/trainjobs$", times=99, code=503)
    with pytest.raises(Unavailable):
        submission.submit(trainer, manifest)


@pytest.mark.slow
def test_its_replicas_have_the_names_of_their_roles(trainer, launched, player):
    described = TrainingJob.create(
        **JOB | {"framework": "tensorflow", "replicas": {"chief": {}, "ps": {}}, "workers": 2}
    )
    tf = render(described, "trainer")
    run = launched(tf)
    job = player.wait_for(tf)
    run.says("0 of 4 replicas run")
    places = [("chief", 0), ("ps", 0), ("worker", 0), ("worker", 1)]
    pods = [player.pod(job, role, index) for role, index in places]
    for pod in pods:
        player.run(pod)
    run.says("running: 4 of 4 replicas run")
    rows = jobs.status(trainer, "digits").replicas
    assert [row.name for row in rows] == ["chief-0", "ps-0", "worker-0", "worker-1"]
    player.exit(pods[3], 1)
    player.condition(job, "Failed", reason="FailedJobs")
    assert str(run.end().error).startswith("replica worker-1 exited with status 1")


def test_why_its_pods_cannot_be_made_is_said_by_the_job_of_a_role(
    trainer, launched, player, manifest
):
    """As Kubernetes 1.36 says of a Job that JobSet 0.12 has made, where a quota is in the way."""
    run = launched(manifest)
    job = player.wait_for(manifest)
    metadata = {"name": "digits-master-0", "namespace": trainer.namespace, "uid": "of-the-job"}
    made = {"kind": "Job", "metadata": metadata}
    other = {"kind": "Job", "metadata": metadata | {"name": "digits-2-master-0"}}
    player.event(other, "FailedCreate", "of another job")
    run.says("starting: 0 of 2 replicas run")
    player.event(made, "FailedCreate", "exceeded quota: cpus")
    run.says("FailedCreate: exceeded quota: cpus")
    assert "of another job" not in str(jobs.status(trainer, "digits").events)
    player.condition(job, "Complete")
    run.end()


@pytest.mark.slow
def test_an_elastic_trainjob_runs_with_its_fewest_replicas(trainer, launched, player):
    elastic = {"workers": 3, "elastic": {"min": 1, "max": 3}}
    manifest = render(TrainingJob.create(**JOB | elastic), "trainer")
    run = launched(manifest)
    job = player.wait_for(manifest)
    player.run(player.pod(job, "worker"))
    run.says("running: 1 of 3 replicas run")
    player.condition(job, "Complete")
    run.end()


def test_a_pipeline_trains_where_only_trainer_is(
    trainer, player, launched, monkeypatch, untracked, tmp_path
):
    step = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "step"},
        "spec": {"containers": [{"name": "main", "image": "a"}]},
    }
    trainer.create(jobs.PODS, step, trainer.namespace)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("POD_NAME", "step")
    monkeypatch.setattr(connection, "Cluster", lambda **_: trainer)
    followed = []

    def follow(manifest, cluster, limits, observers):
        job = submission.submit(cluster, manifest)
        (runtime,) = runtimes(cluster)
        followed.append((job, runtime))
        observers.end(None)
        return {"master-0": 3.0, "worker-0": 3.0}

    monkeypatch.setattr(runner, "launch", follow)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    described = job_in(tmp_path, run="7", time_limit=60)
    claim = {"name": "workspace", "persistentVolumeClaim": {"claimName": "run-7"}}
    task = {"volumes": [claim], "volume_mounts": [{"name": "workspace", "mountPath": "/run"}]}
    training_step.train(described, tmp_path, task)
    ((job, runtime),) = followed
    assert job["metadata"]["ownerReferences"][0]["name"] == "step"
    assert job["spec"]["activeDeadlineSeconds"] == 60
    for each in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        assert claim in each["template"]["spec"]["template"]["spec"]["volumes"]
    kept = list(yaml.safe_load_all((tmp_path / "steps" / "train" / "job.yaml").read_text()))
    assert [body["kind"] for body in kept] == ["TrainingRuntime", "TrainJob"]
    (there,) = trainer.list(TRAINJOB, trainer.namespace)["items"]
    assert there["metadata"] | {"resourceVersion": ""} == job["metadata"] | {"resourceVersion": ""}
    assert there["status"]["trainerStatus"]["progressPercentage"] == 100


def test_how_far_a_job_is_stands_in_its_status(trainer, manifest, server):
    submission.submit(trainer, manifest)
    status = TrainerStatus(trainer, manifest, meter := Meter("master-0"))
    status.tick(None)
    meter.lines("master-0", "epoch 3/10 loss 0.5")
    status.tick(None)
    status._telling.wait()
    told = jobs.find(trainer, "digits")["status"]["trainerStatus"]
    assert told.pop("lastUpdatedTime") and told == {"progressPercentage": 30}
    before = len(server.requests)
    meter.progress = Progress(0.9, "90%")
    status.tick(None)  # too soon
    assert len(server.requests) == before
    status.end(None)
    told = jobs.find(trainer, "digits")["status"]["trainerStatus"]
    assert (told["progressPercentage"], told["estimatedRemainingSeconds"]) == (100, 0)


def test_of_a_job_of_another_kind_no_progress_is_told(standing_in, server):
    meter = Meter("master-0", lambda progress: None)
    status = TrainerStatus(standing_in, render(TrainingJob.create(**JOB)), meter)
    before = len(server.requests)
    meter.progress = Progress(0.5, "50%", 3.0)
    status.tick(None)
    status.end(None)
    assert len(server.requests) == before
