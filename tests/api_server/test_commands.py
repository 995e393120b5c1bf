"""What a person does with jobs: list, look, read logs, cancel, delete."""

import threading

import pytest
from player import ROLES, Player, manifests

from trireme.errors import InputError
from trireme.frameworks import KINDS, kind_of
from trireme.job import names
from trireme.kubernetes import connection
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import KindMissing
from trireme.kubernetes.resources import PODS
from trireme.observers.preflight.replica.said import MARK
from trireme.progress import Progress
from trireme.runner.cluster import jobs, log_readers, progress, reasons, submission
from trireme.runner.cluster.status import status_of


@pytest.fixture
def submitted(cluster, player):
    """Brings a job to the cluster; returns it."""

    def submit(manifest, **metadata):
        return submission.submit(cluster, manifest | {"metadata": manifest["metadata"] | metadata})

    return submit


def test_jobs_of_all_kinds_are_listed(cluster, player, submitted):
    for name, manifest in manifests().items():
        submitted(manifest, name=name.lower())
    submitted(manifests()["PyTorchJob"], name="not-ours", labels={})
    job = player.wait_for(manifests()["TFJob"] | {"metadata": {"name": "tfjob"}})
    player.run(player.pod(job, "chief"))
    worker = player.pod(job, "worker")
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    player._container(worker, "Pending", {"waiting": waiting})
    player.condition(job, "Running")
    rows = {row.name: row for row in jobs.list_jobs(cluster)}
    assert rows.keys() == {name.lower() for name in manifests()}
    row = rows["tfjob"]
    assert (row.kind, row.state, row.running, row.replicas) == ("TFJob", "running", 1, 2)
    assert row.reason == "worker-0: ErrImagePull: no such image"
    assert row.age >= 0
    assert (rows["mpijob"].state, rows["mpijob"].running) == ("created", 0)


def test_a_job_is_found_whatever_its_kind(cluster, submitted, manifest):
    submitted(manifest)
    assert jobs.find(cluster, "digits")["kind"] == manifest["kind"]


def test_a_name_that_is_not_there_brings_close_ones(cluster, submitted, pytorch):
    submitted(pytorch)
    with pytest.raises(InputError) as caught:
        jobs.find(cluster, "digit")
    assert str(caught.value) == (
        f"job 'digit': there is no such job in namespace {cluster.namespace}; is it digits?"
    )


def test_a_name_that_two_jobs_have_is_refused(cluster):
    for kind in ("PyTorchJob", "TFJob"):
        manifest = manifests()[kind]
        cluster.create(kind_of(manifest), manifest, cluster.namespace)
    with pytest.raises(InputError, match="there is a PyTorchJob and a TFJob of that name"):
        jobs.find(cluster, "digits")


def test_all_there_is_to_see_of_a_job_is_seen(cluster, player, submitted, pytorch):
    job = submitted(pytorch)
    player.event(job, "JobCreated", "it is there", kind="Normal")
    master = player.pod(job, "master", restart="OnFailure")
    worker = player.pod(job, "worker")
    for pod in (master, worker):
        player.run(pod)
    player.restart(master, 1)
    player.exit(worker, 3)
    player.event(player.get(worker), "BackOff", "it will not stay up")
    player.condition(job, "Restarting", message="a replica failed")
    details = jobs.status(cluster, "digits")
    assert (details.row.state, details.row.reason) == ("restarting", "a replica failed")
    assert [condition["type"] for condition in details.conditions] == ["Restarting"]
    first, second = details.replicas
    assert (first.name, first.pod, first.state) == ("master-0", master, "running")
    assert first.restarts == 1
    assert (second.name, second.state) == ("worker-0", "failed")
    assert second.reason == "exited with status 3"
    assert [event["reason"] for event in details.events] == ["JobCreated", "BackOff"]


def test_cancelling_keeps_the_record(cluster, submitted, manifest):
    job = submitted(manifest)
    jobs.cancel(cluster, "digits")
    now = cluster.get(kind_of(job), "digits", cluster.namespace)
    assert now["metadata"]["uid"] == job["metadata"]["uid"]
    assert status_of(now).state == "cancelled"
    suspended = now["spec"] if manifest["kind"] == "TrainJob" else now["spec"]["runPolicy"]
    assert suspended["suspend"] is True


def test_what_has_ended_cannot_be_cancelled(cluster, player, submitted, pytorch):
    player.condition(submitted(pytorch), "Succeeded")
    with pytest.raises(InputError, match="job 'digits' has succeeded already"):
        jobs.cancel(cluster, "digits")


def test_an_elastic_job_gets_as_many_workers_as_it_takes(cluster, submitted, pytorch):
    pytorch["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    job = submitted(pytorch)
    jobs.scale(cluster, "digits", 3)
    now = cluster.get(kind_of(job), "digits", cluster.namespace)
    assert now["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    with pytest.raises(InputError, match="4 workers: the job takes 1 to 3, as elastic says"):
        jobs.scale(cluster, "digits", 4)


def test_any_other_job_keeps_its_replicas(cluster, submitted, manifest):
    submitted(manifest)
    with pytest.raises(InputError, match="that is not elastic, so its replicas are fixed"):
        jobs.scale(cluster, "digits", 2)


def test_a_command_runs_in_a_replica_that_runs(cluster, player, submitted, pytorch):
    job = submitted(pytorch)
    master = player.pod(job, "master")
    player.pod(job, "worker")
    player.run(master)
    assert jobs.running_replica(cluster, "digits", "master-0") == (master, "pytorch")
    with pytest.raises(InputError, match=r"'worker-0' of job 'digits' does not run.*: master-0"):
        jobs.running_replica(cluster, "digits", "worker-0")


def test_deleting_takes_the_pods_too(cluster, player, submitted, manifest):
    job = submitted(manifest)
    player.run(player.pod(job, ROLES[job["kind"]][0]))
    jobs.delete(cluster, "digits")
    assert not cluster.list(PODS, cluster.namespace)["items"]
    with pytest.raises(InputError, match="there is no such job"):
        jobs.find(cluster, "digits")


def heard(cluster, **how):
    lines = []
    jobs.logs(cluster, "digits", on_line=lambda *line: lines.append(line), **how)
    return lines


def test_logs_that_there_are_can_be_read(cluster, talkative, pytorch):
    job = submission.submit(cluster, pytorch)
    pods = [talkative.pod(job, role, restart="OnFailure") for role in ("master", "worker")]
    for pod in pods:
        talkative.run(pod)
    talkative.logs.write(pods[0], "before")
    talkative.restart(pods[0], 1)
    talkative.logs.write(pods[0], "after")
    talkative.logs.write(pods[1], MARK + '{"all_here":true}', "hello")
    everything = [("master-0", "before"), ("master-0", "after"), ("worker-0", "hello")]
    assert sorted(heard(cluster, follow=False, replica="")) == sorted(everything)
    assert heard(cluster, follow=False, replica="worker-0") == [("worker-0", "hello")]
    with pytest.raises(InputError) as caught:
        heard(cluster, follow=False, replica="worker-7")
    said = "replica 'worker-7': job 'digits' has none of that name; it has master-0, worker-0"
    assert str(caught.value) == said


def test_a_job_that_has_no_pods_has_no_logs(submitted, cluster, player, pytorch, capsys):
    job = submitted(pytorch)
    assert heard(cluster, follow=False, replica="") == []
    assert "job 'digits' has no pod, and so no log\n" in capsys.readouterr().err
    player.pod(job, "master")
    assert heard(cluster, follow=False, replica="master-0") == []
    assert not capsys.readouterr().err
    assert heard(cluster, follow=False, replica="worker-0") == []
    said = "replica 'worker-0' of job 'digits' has no pod, and so no log\n"
    assert said in capsys.readouterr().err


def test_logs_can_be_followed_to_the_end(cluster, talkative, pytorch):
    job = submission.submit(cluster, pytorch)
    pod = talkative.pod(job, "master")
    talkative.run(pod)
    talkative.condition(job, "Running")
    talkative.logs.write(pod, "hello")

    def go_on():
        talkative.logs.write(pod, "goodbye")
        talkative.exit(pod, 1)
        talkative.condition(job, "Failed")

    later = threading.Timer(0.5, go_on)
    later.start()
    lines = heard(cluster, follow=True, replica="master-0")
    later.join()
    assert lines == [("master-0", "hello"), ("master-0", "goodbye")]


@pytest.mark.parametrize("each", [0, log_readers.EACH])
@pytest.mark.parametrize("follow", [False, True])
def test_a_log_that_is_lost_is_told(
    standing_in, container_logs, pytorch, monkeypatch, follow, each
):
    monkeypatch.setattr(log_readers, "EACH", each)  # of more pods only the first are followed
    cluster, player = standing_in, Player(standing_in, container_logs)
    job = submission.submit(cluster, pytorch)
    pod = player.pod(job, "worker", 1)
    player.run(pod)
    player.condition(job, "Running")
    player.exit(pod, 1)
    container_logs.lose(pod, times=100)
    later = threading.Timer(1.0, player.condition, (job, "Failed"))
    later.start()
    ((replica, said),) = heard(cluster, follow=follow, replica="")
    later.join()
    assert replica == "worker-1"
    assert said.startswith("(the log cannot be read: unable to retrieve container logs")


def test_status_tells_how_far_the_leading_replica_is(cluster, talkative, pytorch):
    job = submission.submit(cluster, pytorch)
    master, worker = (talkative.pod(job, role) for role in ("master", "worker"))
    assert jobs.status(cluster, "digits").progress is None
    for pod in (master, worker):
        talkative.run(pod)
    assert jobs.status(cluster, "digits").progress is None
    talkative.logs.write(worker, "step 9/10")
    talkative.logs.write(master, "step 1/10")
    talkative.logs.write(
        master, " 20%|##| 2/10 [00:01<00:09, 1.0it/s]\r 30%|###| 3/10 [00:01<00:09"
    )
    assert jobs.status(cluster, "digits").progress.share == pytest.approx(0.3)
    talkative.exit(master, 0)
    assert jobs.status(cluster, "digits").progress is None


def test_a_run_tells_what_its_training_waits_for(cluster, talkative, pytorch):
    pytorch["metadata"]["name"] = names.of_run("nightly")
    job = submission.submit(cluster, pytorch)
    master, worker = (talkative.pod(job, role) for role in ("master", "worker"))
    talkative.run(master)
    talkative.condition(job, "Running", message="PyTorchJob digits is running.")
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    talkative._container(worker, "Pending", {"waiting": waiting})
    why = "worker-0: ErrImagePull: no such image"
    assert jobs.progress_of_run(cluster, "nightly") == Progress(None, why, reason=why)
    talkative.logs.write(master, "step 1/4")
    told = jobs.progress_of_run(cluster, "nightly")
    assert told == Progress(0.25, f"25%; {why}", reason=why)
    talkative.run(worker)
    assert jobs.progress_of_run(cluster, "nightly") == Progress(0.25, "25%")
    talkative.exit(master, 0)
    assert jobs.progress_of_run(cluster, "nightly") == Progress(None, "")


@pytest.mark.parametrize(
    ("replicas", "leader"),
    [
        ({"worker-0", "worker-1", "master-0"}, "master-0"),
        ({"ps-0", "evaluator-0", "worker-0", "worker-1"}, "worker-0"),
        ({"ps-0", "chief-0", "worker-0"}, "chief-0"),
        ({"worker-0", "launcher-0"}, "launcher-0"),
        ({"node-0", "node-1"}, "node-0"),
        ({"worker-1"}, ""),
        (set(), ""),
    ],
)
def test_which_replica_leads(replicas, leader):
    assert progress.leader(replicas) == leader


def test_a_train_job_of_which_some_nodes_run_is_running(cluster, player):
    job = submission.submit(cluster, manifests()["TrainJob"])
    pods = [player.pod(job, "node", index) for index in range(2)]
    assert [row.state for row in jobs.list_jobs(cluster)] == ["created"]
    player.run(pods[1])
    assert [(row.state, row.running) for row in jobs.list_jobs(cluster)] == [("running", 1)]


def test_replicas_are_known_before_they_have_pods(cluster, submitted, manifest):
    submitted(manifest)
    first, second = ROLES[manifest["kind"]]
    assert heard(cluster, follow=False, replica=f"{first}-0") == []
    with pytest.raises(InputError, match=f"it has {first}-0, {second}-"):
        heard(cluster, follow=False, replica="other-0")


def test_pods_are_listed_once_for_all_jobs(server):
    cluster = Cluster()
    for name in ("one", "two", "three"):
        manifest = manifests()["PyTorchJob"]
        manifest["metadata"]["name"] = name
        submission.submit(cluster, manifest)
    server.requests.clear()
    assert len(jobs.list_jobs(cluster)) == 3
    assert len([path for _, path in server.requests if "/pods" in path]) == 1


def test_many_jobs_come_in_pages(server, monkeypatch):
    monkeypatch.setattr(connection, "PAGE", "2")
    cluster = Cluster()
    for number in range(5):
        manifest = manifests()["PyTorchJob"]
        manifest["metadata"]["name"] = f"job-{number}"
        submission.submit(cluster, manifest)
    assert sorted(row.name for row in jobs.list_jobs(cluster)) == [f"job-{n}" for n in range(5)]
    assert len([path for _, path in server.requests if "/pytorchjobs?label" in path]) == 3


def test_a_list_goes_on_where_the_server_has_forgotten_its_rest(server, monkeypatch, pytorch):
    monkeypatch.setattr(connection, "PAGE", "2")
    cluster = Cluster()
    for number in range(5):
        pytorch["metadata"]["name"] = f"job-{number}"
        submission.submit(cluster, pytorch)
    found = cluster.each(kind_of(pytorch), cluster.namespace)
    names = [next(found)["metadata"]["name"]]
    server.compact()
    names += [job["metadata"]["name"] for job in found]
    assert names == [f"job-{number}" for number in range(5)]


def test_a_list_of_all_namespaces_has_those_of_one_name(server, pytorch):
    cluster = Cluster()
    for namespace in ("team", "others"):
        pytorch["metadata"]["namespace"] = namespace
        cluster.create(kind_of(pytorch), pytorch, namespace)
    assert len(cluster.items(kind_of(pytorch), "")) == 2


def test_only_events_of_the_job_and_its_first_pods_are_asked_for(server, container_logs, pytorch):
    cluster = Cluster()
    player = Player(cluster, container_logs)
    job = submission.submit(cluster, pytorch)
    pods = [player.get(player.pod(job, role)) for role in ("master", "worker")]
    player.event(pods[1], "FailedMount", "no such claim")
    server.requests.clear()
    waiting = dict(zip(("a", "b"), pods, strict=True))
    why = reasons.why_not_running(cluster, job, waiting, lacking=False).words
    assert why == "b: FailedMount: no such claim"
    assert len(server.requests) == 3
    assert all("fieldSelector=involvedObject.uid" in path for _, path in server.requests)
    server.requests.clear()
    many = dict(enumerate(100 * [pods[0]]))
    reasons.why_not_running(cluster, job, many, lacking=False)
    assert len(server.requests) == 1 + reasons.ASKED


def test_a_cluster_without_operators_says_so(standing_in, server):
    for kind in KINDS.values():
        del server.plurals[kind.plural]
    with pytest.raises(KindMissing, match="the cluster has no PyTorchJob"):
        jobs.list_jobs(standing_in)


def test_one_operator_is_enough(standing_in, server, pytorch):
    for plural in ("tfjobs", "mpijobs", "trainjobs"):
        del server.plurals[plural]
    submission.submit(standing_in, pytorch)
    assert [row.name for row in jobs.list_jobs(standing_in)] == ["digits"]
