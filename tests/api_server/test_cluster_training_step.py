"""The training step of a pipeline, in a pod of a cluster."""

import json
import re
import threading
from types import SimpleNamespace

import pytest
from jobs_of_runs import job_in

from trireme.cost import steps, table
from trireme.cost.prices import Prices
from trireme.errors import InputError, JobFailed, TriremeError
from trireme.kubernetes import connection, owner
from trireme.kubernetes.resources import PODS
from trireme.manifests import render
from trireme.observers import timeline
from trireme.observers.preflight import report
from trireme.observers.preflight.replica import said
from trireme.report import of_workspace, page
from trireme.runner import training_step
from trireme.runner.cluster import follower, runner, submission, usage_watch
from trireme.tracking import journal

CLAIM = {"name": "workspace", "persistentVolumeClaim": {"claimName": "run-7"}}


@pytest.fixture
def step_pod(cluster):
    """Makes the pod that the step runs in, and says what its name is; with an owner or without."""
    asked = {"cpu": "500m", "memory": "1Gi"}
    resources = {"requests": asked, "limits": asked}
    container = {"name": "main", "image": "example.org/trireme", "resources": resources}

    def make(name, **metadata):
        spec = {"containers": [container], "automountServiceAccountToken": False}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        body["metadata"] |= metadata
        return cluster.create(PODS, body, cluster.namespace)["metadata"]

    return make


@pytest.fixture
def workflow(step_pod):
    """What stands for the Workflow of a run, which the step's pod belongs to."""
    run = step_pod("workflow")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "workflow", "uid": run["uid"]}
    step_pod("workflow-train-1", ownerReferences=[reference | {"controller": True}])
    return reference


@pytest.fixture
def training(cluster, monkeypatch, tmp_path, untracked, workflow):
    """Starts the step in another thread; what came of it can be waited for."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("POD_NAME", "workflow-train-1")
    monkeypatch.setattr(connection, "Cluster", lambda **_: cluster)
    monkeypatch.setattr(runner, "_SIGNALS", ())  # only the main thread can be told of them
    monkeypatch.setattr(follower, "DRAIN", 1.0)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    threads = []

    def start(job, budget=0.0):
        run = SimpleNamespace(trained=None, error=None)

        def work():
            mount = {"name": "workspace", "mountPath": str(tmp_path)}
            task = {"volumes": [CLAIM], "volume_mounts": [mount]}
            try:
                run.trained = training_step.train(job, tmp_path, task, budget=budget)
            except TriremeError as error:
                run.error = error

        thread = threading.Thread(target=work, daemon=True)
        threads.append(thread)
        thread.start()

        def end():
            thread.join(60)
            assert not thread.is_alive()
            return run

        run.end = end
        return run

    yield start
    for thread in threads:
        thread.join(1)


@pytest.fixture
def described(tmp_path):
    return job_in(
        tmp_path,
        run="0f3c",
        image="example.org/trainer:1",
        # Where there is an operator it leaves the job to the test.
        job={"suspend": True, "operator": "training-operator"},
    )


def up(player, job):
    pods = [player.pod(job, role) for role in ("master", "worker")]
    for pod in pods:
        player.run(pod)
    player.condition(job, "Running")
    return pods


def test_the_result_of_the_job_is_the_steps(training, described, talkative, workflow, tmp_path):
    run = training(described)
    job = talkative.wait_for(render(described))
    assert job["metadata"]["ownerReferences"] == [workflow]
    pod = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    assert CLAIM in pod["volumes"]
    master, worker = up(talkative, job)
    # The job's image may run as another user.
    assert (tmp_path / "model.partial").stat().st_mode & 0o777 == 0o777
    (tmp_path / "model.partial" / "weights").write_text("good")
    talkative.logs.write(master, "epoch 1/1 loss 0.5")
    talkative.logs.write(worker, "I help")
    for pod in (master, worker):
        talkative.exit(pod, 0)
    talkative.condition(job, "Succeeded")
    run.end()
    assert run.error is None
    assert (tmp_path / "model" / "weights").read_text() == "good"
    steps = tmp_path / "steps" / "train"
    assert (steps / "master-0.log").read_text() == "epoch 1/1 loss 0.5\n"
    assert (steps / "worker-0.log").read_text() == "I help\n"
    replicas = timeline.read(steps / timeline.NAME)
    assert set(replicas) == {"master-0", "worker-0"}
    assert all(life.ran > 0 and not life.failures for life in replicas.values())


def test_what_replicas_use_is_kept_and_advised(
    training, described, talkative, server, request, eventually, monkeypatch, tmp_path
):
    if "real" in request.node.callspec.id:
        pytest.skip("its metrics server measures what containers use that are not only played")
    monkeypatch.setattr(usage_watch, "EVERY", 0.0)
    server.metrics = {"cpu": "250m", "memory": "1Gi"}
    described = described.model_copy(update={"cpu": "4", "memory": "8Gi"})
    with journal.opened(tmp_path, "train"):
        run = training(described)
        job = talkative.wait_for(render(described))
        pods = up(talkative, job)
        file = tmp_path / "steps" / "train" / timeline.NAME

        def asked():
            return sum("metrics.k8s.io" in path for _, path in server.requests)

        assert eventually(lambda: asked() > 9)  # ten seconds go by each time
        assert eventually(
            lambda: [each.peak_memory for each in timeline.read(file).values()] == 2 * [2**30]
        )
        for pod in pods:
            talkative.exit(pod, 0)
        talkative.condition(job, "Succeeded")
        assert run.end().error is None
    (step,) = of_workspace.read(tmp_path)
    assert {life.cpu for life in step.replicas.values()} == {0.25}
    told = step.advice.splitlines()
    assert told == [
        "master-0 used a processor 25% of its time, so it waited for something: "
        "'trireme job advise' tells for what",
        "each replica uses 0.25 of 4 CPUs: job.cpu: 0.5",
        "each replica had at most 1Gi of its 8Gi of memory: job.memory: 2Gi",
    ]
    shown = page.render(of_workspace.picture("a", tmp_path, "FINISHED"))
    assert "6 % of what it has asked for" in shown and told[1] in shown


def command_of_worker(job):
    pod = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    return pod["containers"][0]["command"]


RECORD = {
    "replica": "master-0",
    "clock": 0.0,
    "cores": 2.0,
    "speed": 20.0,
    "memory": 1 << 30,
    "shm": {},
    "disk": {},
    "data": {},
    "all_reduce": {"4096": 0.001},
    "links": [{"from": "master-0", "to": "worker-0", "answer": 0.1, "resent": 0, "rate": 1e9}],
}


def test_what_the_preflight_finds_is_the_steps_and_is_not_printed(
    training, described, talkative, tmp_path
):
    with journal.opened(tmp_path, "train"):
        run = training(described)
        job = talkative.wait_for(render(described))
        own, made = (command_of_worker(each) for each in (render(described), job))
        assert made[5:] == own and len(made) > 5
        pods = up(talkative, job)
        for content in ({"record": RECORD}, {"verdict": {"problems": [], "seconds": 6.0}}):
            talkative.logs.write(pods[0], said.MARK + json.dumps(content))
        for pod in pods:
            talkative.exit(pod, 0)
        talkative.condition(job, "Succeeded")
        assert run.end().error is None
    steps = tmp_path / "steps" / "train"
    assert (steps / "master-0.log").read_text() == "preflight passed in 6.0 s\n"
    assert report.read(steps / report.NAME)["replicas"] == [RECORD]
    metrics = [each["metrics"] for each in journal.read(tmp_path, "train") if "metrics" in each]
    assert metrics[0]["preflight/slowest_answer_ms"] == 100
    assert metrics[0]["preflight/slowest_link_gbit_per_s"] == 8


def test_a_job_that_must_not_train_ends_at_once_though_its_replicas_would_be_restarted(
    training, described, talkative
):
    run = training(described)
    job = talkative.wait_for(render(described))
    _, worker = up(talkative, job)
    words = "replica worker-0 cannot look up the name train-master-0"
    problem = said.problem("name", "worker-0", words, is_fatal=True)
    content = {"verdict": {"problems": [problem]}}
    talkative.logs.write(worker, said.MARK + json.dumps(content))
    error = run.end().error  # nothing has ended; it is the step that ends the job
    assert isinstance(error, report.PreflightFailed)
    assert str(error) == f"preflight: {words}"


def test_a_step_that_is_started_again_finds_its_job(
    training, described, talkative, monkeypatch, tmp_path
):
    def is_killed(manifest, cluster, *_):
        submission.submit(cluster, manifest)
        raise TriremeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "launch", is_killed)
        assert str(training(described).end().error) == "killed"
    job = talkative.wait_for(render(described))
    master, worker = up(talkative, job)
    (tmp_path / "model.partial" / "half").write_text("of the model")
    log = tmp_path / "steps" / "train" / "master-0.log"
    log.write_text("epoch 1/2\n")
    talkative.logs.write(master, "epoch 1/2", "epoch 2/2")

    run = training(described)
    for pod in (master, worker):
        talkative.exit(pod, 0)
    talkative.condition(job, "Succeeded")
    run.end()
    assert run.error is None
    assert (tmp_path / "model" / "half").exists()
    assert log.read_text() == "epoch 1/2\nepoch 2/2\n"


def test_a_job_that_fails_fails_the_step(training, described, talkative, tmp_path):
    run = training(described)
    job = talkative.wait_for(render(described))
    _, worker = up(talkative, job)
    talkative.logs.write(worker, "no such luck")
    talkative.exit(worker, 3)
    talkative.condition(job, "Failed")
    error = run.end().error
    assert isinstance(error, JobFailed)
    assert str(error) == "replica worker-0 exited with status 3"
    assert error.detail == "[worker-0] no such luck"
    assert not (tmp_path / "model").exists()


def test_a_job_belongs_to_its_pod_where_that_belongs_to_nobody(cluster, step_pod, monkeypatch):
    uid = step_pod("alone")["uid"]
    monkeypatch.setenv("POD_NAME", "alone")
    assert owner.owners(cluster) == [
        {"apiVersion": "v1", "kind": "Pod", "name": "alone", "uid": uid}
    ]


@pytest.fixture
def priced(monkeypatch, tmp_path):
    """A price table in the step's pod; the job costs 0.5 EUR an hour."""
    monkeypatch.setattr(table, "MOUNT", tmp_path / "prices")
    table.MOUNT.mkdir()
    text = "{currency: EUR, cpu_hour: 1, gib_hour: 0, gpu_hour: 0}"
    (table.MOUNT / "prices.yaml").write_text(text)


def test_a_budget_ends_the_job_there(training, described, talkative, priced):
    run = training(described, budget=0.05)
    job = talkative.wait_for(render(described))
    assert job["spec"]["runPolicy"]["activeDeadlineSeconds"] == 360
    up(talkative, job)
    message = "Job train-0f3c has failed because it was active longer than specified deadline"
    talkative.condition(job, "Failed", message=message)
    said = "the budget of 0.050 EUR, enough for 360 s of this job, is used up: it has cost "
    assert re.fullmatch(rf"{re.escape(said)}[\d.]+ EUR", str(run.end().error))


def test_a_budget_without_prices_ends_the_step_before_there_is_a_job(training, described, cluster):
    error = training(described, budget=0.05).end().error
    assert isinstance(error, InputError)
    assert str(error).startswith("budget 0.05: needs a price table, ")
    assert submission.find(cluster, render(described)) is None


def test_a_step_costs_what_its_container_requests(cluster, step_pod, monkeypatch):
    step_pod("checkout-1")
    monkeypatch.setenv("POD_NAME", "checkout-1")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(connection, "Cluster", lambda **_: cluster)
    known = Prices(currency="EUR", cpu_hour=1800.0, gib_hour=2700.0, gpu_hour=0.0)
    before = steps._seconds()
    assert before <= steps._cost(known) <= steps._seconds()  # 0.25 + 0.75 EUR a second
    monkeypatch.setenv("POD_NAME", "nobody")  # which it may not read, and costs what it used
    assert steps._cost(known) > 0


def test_a_new_attempt_gets_an_empty_place_when_the_one_before_has_gone(
    training, described, talkative, monkeypatch, tmp_path
):
    first = training(described)
    job = talkative.wait_for(render(described))
    pods = up(talkative, job)
    (tmp_path / "model.partial" / "half").write_text("of the model")
    talkative.condition(job, "Failed", message="no such luck")
    assert isinstance(first.end().error, JobFailed)
    for pod in pods:  # which no kubelet would end
        talkative.remove(pod)
    log = tmp_path / "steps" / "train" / "master-0.log"
    log.write_text("epoch 1/2\n")
    emptied = []
    make_room = training_step._make_room

    def in_order(job):
        gone = submission.find(talkative.cluster, render(described)) is None
        make_room(job)
        emptied.append(gone and not any((tmp_path / "model.partial").iterdir()))

    monkeypatch.setattr(training_step, "_make_room", in_order)
    monkeypatch.setattr(runner, "launch", lambda *_, **__: {})
    training(described).end()
    assert emptied == [True]
    assert log.with_name("master-0.1.log").read_text() == "epoch 1/2\n"


def test_a_job_waits_as_long_as_it_says(training, described, monkeypatch):
    asked = []
    monkeypatch.setattr(runner, "launch", lambda *given: asked.append(given[2]) or {})
    changes = {"queued_limit": 60, "starting_limit": 30}
    training(described.model_copy(update=changes)).end()
    assert asked == [follower.Limits(queued=60, starting=30)]
