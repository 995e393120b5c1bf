"""What an API server can do wrong, and what a launch makes of it."""

from threading import Thread

import pytest
from player import Player

from trireme.errors import InputError
from trireme.frameworks import KINDS
from trireme.kubernetes import connection
from trireme.kubernetes import watch as watching
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, KindMissing, Refused, Unauthorized, Unavailable
from trireme.kubernetes.resources import PODS
from trireme.kubernetes.streams import Stop
from trireme.process import patience
from trireme.runner.cluster import follower

JOBS = KINDS["PyTorchJob"]


@pytest.fixture
def cluster(standing_in):
    """These faults are the stand-in's alone."""
    return standing_in


@pytest.fixture(autouse=True)
def quick_to_settle(monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 5.0)


@pytest.fixture
def running(launched, player, pytorch):
    """Launches a job; returns the run, the job and its pods when they run."""
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pods = [player.pod(job, role) for role in ("master", "worker")]
    for pod in pods:
        player.run(pod)
    player.condition(job, "Running")
    run.says("running: 2 of 2 replicas run")
    return run, job, pods


def finish(player, job, pods):
    for pod in pods:
        player.exit(pod, 0)
    player.condition(job, "Succeeded")


def created(server):
    return [path for method, path in server.requests if method == "POST" and "dryRun" not in path]


def asked(server, kind):
    return [path for method, path in server.requests if method == "GET" and kind in path]


def test_each_thing_is_followed_over_one_connection(running, server, player):
    run, job, pods = running
    finish(player, job, pods)
    assert run.end().error is None
    assert server.watches == 2


def test_an_answer_that_is_lost_makes_no_second_job(launched, server, player, pytorch, cluster):
    server.fail("POST", r"pytorchjobs$", after=True)
    run = launched(pytorch)
    run.says("starting")
    attempts = [path for path in created(server) if path.endswith("pytorchjobs")]
    assert len(attempts) == 2
    assert len(cluster.list(JOBS, "team")["items"]) == 1
    player.condition(player.wait_for(pytorch), "Succeeded")
    assert run.end().error is None


def test_whoever_else_was_faster_is_not_taken_for_ours(launched, server, pytorch, cluster, player):
    run = launched(pytorch)
    run.says("starting")
    # It is not there when one looks, and is when one creates.
    server.fail("GET", r"pytorchjobs/digits$", code=404)
    server.faults[-1].message = 'pytorchjobs "digits" not found'
    server.faults[-1].details = {"name": "digits"}
    other = pytorch | {"spec": pytorch["spec"] | {"nprocPerNode": "2"}}
    error = launched(other).end().error
    assert "exists already (created) and is a different job" in str(error)
    player.condition(player.wait_for(pytorch), "Succeeded")
    assert run.end().error is None


def test_a_watch_that_breaks_goes_on_where_it_was(running, server, player):
    run, job, pods = running
    for _ in range(3):
        server.drop_watches()
        player.restart(pods[0], 1)
    finish(player, job, pods)
    assert run.end().error is None
    # The pods were listed when it began, and once more if the job's end was heard before theirs.
    listed = [path for path in asked(server, "/pods") if "watch" not in path and "log" not in path]
    assert len([path for path in listed if "labelSelector" in path]) in (1, 2)


def test_a_version_that_is_too_old_means_looking_at_all_again(running, server, player, cluster):
    run, job, pods = running
    server.faults.clear()
    server.fail("GET", "watch=true", times=4, code=503)
    server.drop_watches()
    player.remove(pods[1])  # nobody is told
    server.compact()
    run.says("running: 1 of 2 replicas run")
    player.exit(pods[0], 0)
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_an_api_server_that_is_away_for_a_while_is_waited_for(running, server, player):
    run, job, pods = running
    server.down()
    server.up()
    server.fail("GET", "", times=20, code=503)
    server.fail("GET", "", times=5)  # and some that are not answered at all
    finish(Player(Cluster(patience=20), player.logs), job, pods)
    assert run.end().error is None
    assert set(run.seconds) == {"master-0", "worker-0"}


def test_an_api_server_that_refuses_connections_is_waited_for(server, cluster):
    server.down()
    answers = []
    thread = Thread(target=lambda: answers.append(cluster.list(PODS, "team")))
    thread.start()
    server.up()
    thread.join(30)
    assert answers[0]["items"] == []


def test_an_api_server_that_stays_away_is_named(server):
    cluster = Cluster(patience=0.1)
    server.down()
    with pytest.raises(Unavailable, match=rf"^the cluster at {server.url} is away: "):
        cluster.list(PODS, "team")
    server.up()


def test_an_answer_that_does_not_come_is_asked_for_again(server, cluster, monkeypatch):
    monkeypatch.setattr(connection, "READ_TIMEOUT", 0.2)
    server.fail("GET", "pods", late=2.0)
    assert cluster.list(PODS, "team")["items"] == []
    assert len(asked(server, "pods")) == 2


def test_a_busy_api_server_is_given_the_time_it_asks_for(server, cluster):
    server.fail("GET", "pods", times=2, code=429, headers={"Retry-After": "1"})
    assert cluster.list(PODS, "team")["items"] == []


def test_credentials_that_have_expired_are_read_again(running, server, player, write_kubeconfig):
    run, job, pods = running
    server.token = "second"
    write_kubeconfig(server.url, "second")
    server.drop_watches()
    finish(Player(Cluster(), player.logs), job, pods)
    assert run.end().error is None


def test_credentials_that_stay_expired_are_named(server, cluster):
    server.token = "second"
    with pytest.raises(Unauthorized, match="may have expired"):
        cluster.list(PODS, "team")
    assert len(server.requests) == 2


def test_a_kind_that_is_not_installed_is_named(launched, server, pytorch):
    del server.plurals["pytorchjobs"]
    error = launched(pytorch).end().error
    assert type(error) is KindMissing
    assert str(error) == (
        "the cluster has no PyTorchJob (kubeflow.org/v1): "
        "install Kubeflow Trainer v2.2 or newer, or the Kubeflow training operator v1.9"
    )


def test_rights_that_are_lacking_are_all_named(launched, server, pytorch):
    server.denied = {"create pytorchjobs", "get pods/log"}
    error = launched(pytorch).end().error
    assert type(error) is Forbidden
    assert str(error) == (
        "this user may not create pytorchjobs.kubeflow.org, get pods/log in namespace team; "
        "a Role that allows it and a RoleBinding to this user are needed"
    )
    assert not [path for path in created(server) if "pytorchjobs" in path]


@pytest.mark.slow
def test_a_job_that_cannot_be_seen_for_long_goes_on(running, server, cluster, monkeypatch):
    run, job, _ = running
    monkeypatch.setattr(cluster, "patience", 0.1)
    server.down()
    assert type(run.end().error) is Unavailable
    server.up()
    assert [one["metadata"]["uid"] for one in cluster.list(JOBS, "team")["items"]] == [
        job["metadata"]["uid"]
    ]
    assert "PyTorchJob digits is no longer followed, and goes on" in run.states


def test_rights_that_are_taken_away_end_the_launch_and_the_job(running, server, player, cluster):
    run, _, _ = running
    server.fail("GET", "watch=true", times=-1, code=403)
    server.faults[-1].message = 'pods is forbidden: User "me" cannot watch resource "pods"'
    server.drop_watches()
    error = run.end().error
    assert type(error) is Forbidden
    assert str(error) == 'not allowed on the cluster: User "me" cannot watch resource "pods"'
    assert cluster.list(JOBS, "team")["items"] == []


def test_logs_that_cannot_be_read_are_no_failure(launched, server, player, pytorch, eventually):
    server.fail("GET", "/log", times=-1, code=403)
    server.faults[-1].message = "no"
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pod = player.pod(job, "master")
    player.run(pod)
    said = "(the log cannot be read: not allowed on the cluster: no)"
    assert eventually(lambda: ("master-0", said) in run.lines)
    player.exit(pod, 0)
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_a_log_that_is_not_there_for_a_while_comes_later(
    launched, server, player, pytorch, eventually
):
    server.fail("GET", "/log", times=2, code=400)
    server.fail("GET", "/log", times=2, code=500)
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pod = player.pod(job, "master")
    player.run(pod)
    assert eventually(lambda: not any(fault.times for fault in server.faults))
    player.logs.write(pod, "hello")
    player.exit(pod, 0)
    player.condition(job, "Succeeded")
    assert run.end().lines == [("master-0", "hello")]


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No configuration found"), ("a: [", "while parsing"), ("a: 1", "Expected key")],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path, monkeypatch, content, why):
    file = tmp_path / "broken"
    if content:
        file.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(InputError, match=r"^no Kubernetes cluster to work with: ") as caught:
        Cluster()
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_a_context_that_is_not_there_is_named(server):
    with pytest.raises(InputError) as caught:
        Cluster(context="other")
    assert str(caught.value) == "context 'other': it is not in the kubeconfig, which has here"


@pytest.mark.parametrize("namespace", ["../../x", "a b", "A", "-a", "a" * 64, "a\n"])
def test_what_cannot_be_a_namespace_is_refused(server, namespace):
    with pytest.raises(InputError, match=r"^namespace '.*': must be at most 63"):
        Cluster(namespace)


def test_an_address_that_is_none_is_refused_at_once(write_kubeconfig):
    write_kubeconfig("htp://127.0.0.1:1")
    with pytest.raises(InputError, match=r"^server 'htp://127.0.0.1:1' of the kubeconfig: "):
        Cluster().list(PODS, "team")


def test_an_answer_that_is_not_kubernetes_is_named(server, cluster):
    server.fail("GET", "pods", code=200, text="<html>Log in!</html>")
    with pytest.raises(Refused, match="does not answer as a Kubernetes API server does"):
        cluster.list(PODS, "team")


@pytest.mark.parametrize(
    ("code", "message", "details", "said"),
    [
        (
            403,
            'admission webhook "w" denied the request: too many replicas',
            {},
            'the cluster finds it invalid: admission webhook "w" denied the request: too many',
        ),
        (
            404,
            'namespaces "team" not found',
            {"name": "team", "kind": "namespaces"},
            "namespace 'team': it does not exist on the cluster",
        ),
    ],
)
def test_what_only_looks_like_rights_or_an_operator_that_lack_is_the_inputs_fault(
    launched, server, pytorch, code, message, details, said
):
    server.fail("POST", "dryRun", code=code, message=message, details=details)
    error = launched(pytorch).end().error
    assert isinstance(error, InputError) and error.exit_status == 2
    assert str(error).startswith(said)


def test_whoever_waits_is_told_what_for(server, monkeypatch):
    monkeypatch.setattr(connection, "UNSAID", 0.0)
    waits = []
    cluster = Cluster(patience=20, patience_at_first=0.5, on_wait=waits.append)
    failing = "failed calling webhook: connection refused"
    server.fail("GET", "pods", times=-1, code=500, message=failing)
    said = f"the cluster at {server.url} fails: 500 {failing}"
    with pytest.raises(Unavailable, match=f"^{said}$"):
        cluster.list(PODS, "team")
    assert waits == [f"waiting: {said}"]
    server.faults.clear()
    cluster.list(PODS, "team")
    # It is known to be there: now it is worth waiting for.
    server.fail("GET", "pods", times=6, code=503)
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.2)
    assert cluster.list(PODS, "team")["items"] == []


def test_a_watch_that_ends_at_once_is_opened_more_and_more_seldom(server, cluster, monkeypatch):
    monkeypatch.setattr(patience, "FIRST_PAUSE", 100.0)
    monkeypatch.setattr(patience, "LONGEST_PAUSE", 800.0)
    server.fail("GET", "watch=true", times=-1, code=200, text="")
    waits = []

    class Hasty(Stop):
        def wait(self, seconds):
            waits.append(seconds)
            if len(waits) == 5:
                self.set()
            return self.is_set()

    assert list(watching.changes(cluster, PODS, "team", Hasty())) == []
    assert [round(wait, -2) for wait in waits] == [100, 200, 400, 800, 800]


def test_a_log_whose_pod_is_gone_meanwhile_is_its_own(launched, server, player, pytorch):
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    server.fail("GET", "fieldSelector=metadata.name%3Ddigits-master-0", code=200)
    server.faults[-1].text = '{"items": []}'
    pod = player.pod(job, "master")
    player.logs.write(pod, "the last words")
    player.run(pod)
    player.exit(pod, 0)
    player.condition(job, "Succeeded")
    assert run.end().lines == [("master-0", "the last words")]


def test_events_that_may_not_be_seen_are_no_obstacle(launched, server, player, pytorch):
    server.denied = {"list events"}
    server.fail("GET", "/events", times=-1, code=403)
    run = launched(pytorch)
    run.says("starting: 0 of 2 replicas run; its operator has not started to handle it")
    player.condition(player.wait_for(pytorch), "Succeeded")
    assert run.end().error is None


def test_the_token_is_in_no_message(server, cluster, write_kubeconfig):
    write_kubeconfig(server.url, "a-secret-token")
    cluster = Cluster(patience=0.1)
    for code in (401, 403, 404, 409, 410, 422, 500):
        server.fail("GET", "pods", code=code)
        with pytest.raises((Refused, Unavailable)) as caught:
            cluster.list(PODS, "team")
        assert "a-secret-token" not in f"{caught.value!r} {caught.value.detail}"
        server.faults.clear()
