"""Replicas' logs: complete, in order and named, whatever breaks."""

import time
from functools import partial

import pytest
from player import ROLES

from trireme.kubernetes import pod_log as logs
from trireme.kubernetes.log_position import is_of_the_kubelet
from trireme.kubernetes.streams import Stop
from trireme.runner.cluster import follower, log_readers
from trireme.runner.failed_replica import TAIL


@pytest.fixture(autouse=True)
def time_to_settle(monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 20.0)


@pytest.fixture
def up(launched, talkative):
    """Launches a job and brings its pods up; returns the run, the job and the pods."""

    def bring(manifest, restart="Never"):
        run = launched(manifest)
        job = talkative.wait_for(manifest)
        first, second = ROLES[job["kind"]]
        pods = [
            talkative.pod(job, first, 0, restart=restart),
            talkative.pod(job, second, 0 if first != second else 1, restart=restart),
        ]
        for pod in pods:
            talkative.run(pod)
        talkative.condition(job, "Running")
        return run, job, pods

    return bring


def succeed(player, job, pods):
    for pod in pods:
        player.exit(pod, 0)
    player.condition(job, "Complete" if job["kind"] == "TrainJob" else "Succeeded")


def of(run, replica):
    return [line for name, line in run.lines if name == replica]


def heard(run, count):
    return len(of(run, "master-0")) == count


def test_all_replicas_are_heard_by_name(up, talkative, manifest, eventually):
    run, job, pods = up(manifest)
    talkative.logs.write(pods[0], "hello", "from the first")
    talkative.logs.write(pods[1], "hello", "from the second")
    first, second = ROLES[job["kind"]]
    second = f"{second}-{0 if first != second else 1}"
    assert eventually(lambda: (second, "from the second") in run.lines)  # live
    talkative.logs.write(pods[1], "the last")
    succeed(talkative, job, pods)
    assert run.end().error is None
    assert of(run, f"{first}-0") == ["hello", "from the first"]
    assert of(run, second) == ["hello", "from the second", "the last"]


def test_a_broken_connection_loses_and_doubles_nothing(up, talkative, pytorch, eventually):
    run, job, (master, worker) = up(pytorch)
    printed = []
    for number in range(6):
        # A third of a second apart: seconds begin in the middle of things; some lines are alike.
        lines = [f"line {number}.{at}" for at in range(5)] + ["the same"] * 2
        talkative.logs.write(master, *lines, apart=0.3)
        printed += lines
        if number % 2:
            assert eventually(partial(heard, run, len(printed)))
        talkative.logs.drop()
    talkative.logs.write(master, "the last")
    succeed(talkative, job, [master, worker])
    assert run.end().error is None
    assert of(run, "master-0") == [*printed, "the last"]


def test_logs_go_on_through_restarts(up, talkative, pytorch, eventually):
    run, job, (master, worker) = up(pytorch, restart="OnFailure")
    talkative.logs.write(master, "first start")
    assert eventually(lambda: of(run, "master-0") == ["first start"])
    talkative.logs.write(master, "its end")
    talkative.restart(master, 1)
    talkative.logs.write(master, "second start")
    assert eventually(lambda: "second start" in of(run, "master-0"))
    talkative.restart(master, 1)
    talkative.logs.write(master, "third start")
    succeed(talkative, job, [master, worker])
    assert run.end().error is None
    assert of(run, "master-0") == ["first start", "its end", "second start", "third start"]


@pytest.mark.parametrize("seen", [0, 1])
def test_a_restart_that_is_told_late_loses_nothing(up, talkative, pytorch, eventually, seen):
    run, job, (master, worker) = up(pytorch, restart="OnFailure")
    old = ["first start", "its end"]
    if seen:
        talkative.logs.write(master, old[0])
        assert eventually(lambda: of(run, "master-0") == old[:1])
        # Nobody hears the end of it: all that is heard after it is of the second start.
        talkative.logs.write_unheard(master, old[1])
    else:
        talkative.logs.write_unheard(master, *old)

    def meanwhile():
        talkative.logs.write(master, "second start")
        assert eventually(lambda: "second start" in of(run, "master-0"))

    talkative.restart(master, 1, meanwhile)
    talkative.logs.write(master, "the last")
    succeed(talkative, job, [master, worker])
    assert run.end().error is None
    assert sorted(of(run, "master-0")) == sorted([*old, "second start", "the last"])


def test_logs_go_on_in_a_pod_made_anew(up, talkative, pytorch, eventually):
    run, job, (master, worker) = up(pytorch)
    talkative.logs.write(worker, "before")
    assert eventually(lambda: of(run, "worker-0") == ["before"])
    talkative.remove(worker)
    talkative.logs.restart(worker)
    assert talkative.pod(job, "worker") == worker  # its name is the same
    talkative.logs.write(worker, "after")
    talkative.run(worker)
    succeed(talkative, job, [master, worker])
    assert run.end().error is None
    assert of(run, "worker-0") == ["before", "after"]


def test_a_second_pod_is_not_blamed_for_what_the_first_one_said(up, talkative, pytorch, eventually):
    run, job, (master, worker) = up(pytorch)
    talkative.logs.write(worker, "RuntimeError: Connection closed by peer [10.0.0.1]:23456")
    at = talkative.now()
    talkative.exit(worker, 137, at=at)
    assert eventually(lambda: of(run, "worker-0"))
    talkative.remove(worker)
    talkative.logs.restart(worker)
    assert talkative.pod(job, "worker") == worker
    talkative.run(worker)
    talkative.logs.write(worker, "ValueError: the cause")
    talkative.exit(worker, 3, at=at)  # in the same second
    talkative.condition(job, "Failed")
    talkative.exit(master, 143)
    error = run.end().error
    assert str(error) == "replica worker-0 exited with status 3"
    assert error.detail == "[worker-0] ValueError: the cause"


def test_what_takes_long_to_read_is_read_whole_after_the_end(up, talkative, pytorch, monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 0.5)
    run, job, pods = up(pytorch)

    class Slow(list):
        def append(self, line):
            time.sleep(0.05)
            super().append(line)

    run.lines = Slow()
    talkative.logs.write(pods[0], *(f"step {number}" for number in range(40)))
    talkative.exit(pods[0], 1)
    talkative.exit(pods[1], 143)
    talkative.condition(job, "Failed")
    assert run.end().error.detail.endswith("[master-0] step 39")
    assert of(run, "master-0") == [f"step {number}" for number in range(40)]


def test_what_is_not_read_is_said(up, talkative, pytorch, monkeypatch, eventually):
    monkeypatch.setattr(follower, "DRAIN", 0.5)
    run, job, pods = up(pytorch)
    for pod in pods:
        talkative.logs.write(pod, "read")
    assert eventually(lambda: len(run.lines) == 2)
    ended = {"exitCode": 0, "startedAt": talkative.now(), "finishedAt": talkative.now()}
    talkative._container(pods[0], "Succeeded", {"terminated": ended})  # its log has no end
    talkative.condition(job, "Succeeded")
    assert run.end().error is None
    said = "(the rest of the log is not read: "
    assert of(run, "master-0") == ["read", f"{said}nothing more came)"]
    assert of(run, "worker-0") == ["read", f"{said}its pod outlives the job)"]


def test_what_the_kubelet_says_of_a_log_is_not_the_replicas(up, talkative, pytorch, eventually):
    run, job, (master, worker) = up(pytorch)
    talkative.logs.write(master, "before")
    talkative.logs.write(worker, "ValueError: the cause")
    assert eventually(lambda: len(run.lines) == 2)
    talkative.logs.lose(master, times=2)
    talkative.logs.lose(worker, times=100)
    talkative.logs.drop()
    talkative.logs.write(master, "unable to retrieve container logs for me", "after")
    assert eventually(lambda: "after" in of(run, "master-0"))
    talkative.exit(worker, 3)
    talkative.condition(job, "Failed")
    talkative.exit(master, 143)
    assert run.end().error.detail == "[worker-0] ValueError: the cause"
    expected = ["before", "unable to retrieve container logs for me", "after"]
    assert of(run, "master-0") == expected
    assert of(run, "worker-0") == ["ValueError: the cause"]


@pytest.mark.parametrize(
    "said",
    [
        f"unable to retrieve container logs for containerd://{'0' * 64}",
        'failed to try resolving symlinks in path "/var/log/pods/a/b/0.log": lstat: no such file',
        'failed to open log file "/var/log/pods/a/b/0.log": no such file or directory',
        'failed to watch directory "/var/log/pods/a/b": too many open files',
    ],
)
def test_words_of_the_kubelet_are_known_by_having_no_time(said):
    assert is_of_the_kubelet(said.encode())
    assert not is_of_the_kubelet(f"2026-01-01T00:00:00.000000000Z {said}".encode())


def test_whoever_comes_later_hears_it_all(up, launched, talkative, pytorch, eventually):
    run, job, (master, worker) = up(pytorch, restart="OnFailure")
    talkative.logs.write(master, "first start")
    talkative.restart(master, 1)
    talkative.logs.write(master, "second start")
    assert eventually(lambda: len(of(run, "master-0")) == 2)
    again = launched(pytorch)
    assert eventually(lambda: of(again, "master-0") == ["first start", "second start"])
    succeed(talkative, job, [master, worker])
    assert run.end().error is None and again.end().error is None


def test_a_failure_comes_with_the_last_lines(up, talkative, pytorch):
    run, job, (master, worker) = up(pytorch)
    talkative.logs.write(worker, *(f"step {number}" for number in range(100)))
    talkative.logs.write(master, "something else")
    talkative.exit(worker, 1)
    talkative.condition(job, "Failed")
    talkative.exit(master, 143)
    error = run.end().error
    assert str(error) == "replica worker-0 exited with status 1"
    shown = [f"[worker-0] step {number}" for number in range(100 - TAIL, 100)]
    assert error.detail.splitlines() == shown


def test_a_replica_that_was_dragged_down_is_not_blamed(up, talkative, pytorch):
    run, job, (master, worker) = up(pytorch)
    talkative.logs.write(worker, "RuntimeError: Connection closed by peer [10.0.0.1]:23456")
    talkative.exit(worker, 1)
    talkative.logs.write(master, "ValueError: the cause")
    talkative.exit(master, 2)
    talkative.condition(job, "Failed")
    error = run.end().error
    assert str(error) == "replica master-0 exited with status 2"
    assert error.detail == "[master-0] ValueError: the cause"


def test_what_a_replica_said_that_was_removed_before_it_could_fail_is_shown(
    up, talkative, pytorch, eventually
):
    run, job, (master, worker) = up(pytorch)
    talkative.logs.write(worker, "no such luck")
    eventually(lambda: of(run, "worker-0"))
    talkative.logs.write(master, "RuntimeError: Connection closed by peer [10.0.0.1]:23456")
    talkative.exit(master, 1)
    talkative.condition(job, "Failed")
    talkative.remove(worker)
    error = run.end().error
    assert str(error) == "replica master-0 exited with status 1 after it had lost a peer"
    assert error.detail.splitlines() == [
        "[worker-0] no such luck",
        "[master-0] RuntimeError: Connection closed by peer [10.0.0.1]:23456",
    ]


def test_a_progress_bar_is_seen_at_its_end_and_a_long_line_is_cut(
    up, talkative, pytorch, monkeypatch
):
    monkeypatch.setattr(logs, "LINE_LIMIT", 1000)
    run, job, (master, worker) = up(pytorch)
    talkative.logs.write(master, "10%\r50%\r100%", "x" * 2500, "short")
    succeed(talkative, job, [master, worker])
    run.end()
    bar, *pieces, short = of(run, "master-0")
    assert (bar, short) == ("100%", "short")
    assert "".join(pieces) == "x" * 2500 and max(map(len, pieces)) <= 1000


def test_a_long_line_is_not_doubled_either(up, talkative, pytorch, monkeypatch, eventually):
    monkeypatch.setattr(logs, "LINE_LIMIT", 1000)
    run, job, (master, worker) = up(pytorch)
    talkative.logs.write(master, "x" * 2500)
    assert eventually(lambda: sum(map(len, of(run, "master-0"))) == 2500)
    talkative.logs.drop()
    talkative.logs.write(master, "the last")
    succeed(talkative, job, [master, worker])
    run.end()
    assert sum(line == "the last" for line in of(run, "master-0")) == 1
    assert "".join(of(run, "master-0")) == "x" * 2500 + "the last"


def test_a_listener_that_fails_does_not_stop_the_job(up, talkative, pytorch, monkeypatch):
    run, job, (master, worker) = up(pytorch)

    class Full(list):
        def append(self, line):
            raise OSError("no space left on device")

    run.lines = Full()
    talkative.logs.write(master, "hello")
    talkative.exit(master, 1)
    talkative.condition(job, "Failed")
    talkative.exit(worker, 143)
    assert run.end().error.detail == "[master-0] hello"


@pytest.fixture
def many(launched, talkative, pytorch, monkeypatch):
    """Launches a job of a master and four workers, which count as very many."""
    monkeypatch.setattr(log_readers, "EACH", 2)
    pytorch["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 4
    run = launched(pytorch)
    job = talkative.wait_for(pytorch)
    pods = [talkative.pod(job, "master", restart="OnFailure")]
    pods += [talkative.pod(job, "worker", index, restart="OnFailure") for index in range(4)]
    for pod in pods:
        talkative.run(pod)
    return run, job, pods


def test_of_very_many_pods_only_the_first_of_each_role_are_followed(many, talkative, eventually):
    run, job, pods = many
    talkative.logs.write(pods[2], "first", "its end")
    for pod in pods[:2]:
        talkative.logs.write(pod, "live")
    assert eventually(lambda: of(run, "master-0") == of(run, "worker-0") == ["live"])
    assert not of(run, "worker-1")
    talkative.restart(pods[2], 1)
    talkative.logs.write(pods[2], "again")
    assert eventually(lambda: of(run, "worker-1")[:2] == ["first", "its end"])
    asked = [pod for pod, _ in talkative.logs.requests]
    assert pods[3] not in asked and pods[4] not in asked
    for pod in pods:
        talkative.logs.write(pod, "the last")
    succeed(talkative, job, pods)
    assert run.end().error is None
    assert of(run, "worker-0") == ["live", "the last"]
    assert of(run, "worker-1") == ["first", "its end", "again", "the last"]
    assert of(run, "worker-2") == of(run, "worker-3") == ["the last"]
    assert any("`trireme job logs digits --replica R`" in state for state in run.states)


def test_which_of_very_many_pods_is_at_fault_is_known_by_its_last_lines(many, talkative):
    run, job, pods = many
    for pod in pods[:3]:
        talkative.logs.write(pod, "RuntimeError: Connection closed by peer [10.0.0.1]:23456")
        talkative.exit(pod, 1)
    talkative.logs.write(pods[4], "ValueError: the cause")
    talkative.exit(pods[4], 3)
    talkative.condition(job, "Failed")
    talkative.exit(pods[3], 143)
    error = run.end().error
    assert str(error) == "replica worker-3 exited with status 3"
    assert error.detail == "[worker-3] ValueError: the cause"


def test_what_one_of_very_many_said_before_its_removal_is_shown(many, talkative, eventually):
    run, job, pods = many
    talkative.logs.write(pods[4], "no such luck")
    talkative.logs.write(pods[2], "RuntimeError: Connection closed by peer [10.0.0.1]:23456")
    talkative.exit(pods[2], 1)
    talkative.end(pods[4])
    assert eventually(lambda: of(run, "worker-3"))
    talkative.condition(job, "Failed")
    for pod in [*pods[:2], *pods[3:]]:
        talkative.remove(pod)
    error = run.end().error
    assert str(error) == "replica worker-1 exited with status 1 after it had lost a peer"
    assert "[worker-3] no such luck" in error.detail.splitlines()


def test_a_fault_of_who_reads_is_told():
    said = []
    ended = {"name": "main", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}
    status = {"phase": "Succeeded", "containerStatuses": [ended]}
    pod = {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "status": status}
    log = logs.PodLog(None, pod, "main", said.append, lambda: None, Stop())  # without a cluster
    log.run()
    assert said == ["(the log cannot be read: 'NoneType' object has no attribute 'stream')"]
