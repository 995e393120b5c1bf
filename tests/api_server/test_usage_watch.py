"""What replicas use, asked for while their job is followed."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from trireme.observers import timeline
from trireme.runner.cluster import submission, usage_watch
from trireme.runner.cluster.usage import Used
from trireme.runner.cluster.usage_watch import UsageSum, UsageWatch

METRICS = r"/apis/metrics\.k8s\.io/v1beta1/namespaces/team/pods\?labelSelector="
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(usage_watch, "EVERY", 0.01)
    monkeypatch.setattr(timeline, "EVERY", 0.0)


@pytest.fixture
def cluster(standing_in):
    """No other has a metrics server that can be told what to say."""
    return standing_in


def used(cpu, memory, after):
    return Used(cpu, memory, BEGAN + timedelta(seconds=after))


def test_what_was_measured_counts_once_and_for_the_time_since_the_last():
    total = UsageSum()
    for cpu, memory, after in [(1.0, 5, 10), (1.0, 5, 10), (4.0, 9, 40), (4.0, 8, 30)]:
        total.add(used(cpu, memory, after), BEGAN)
    assert total.peak == 9
    assert total.cpu_seconds(80) == pytest.approx((1.0 * 10 + 4.0 * 30) / 40 * 80)
    assert total.cpu_seconds(81) is None  # less than half of it was measured
    assert total.cpu_seconds(0) is None


def test_before_its_restart_a_container_is_another_one():
    total = UsageSum()
    total.add(used(1.0, 5, 10), BEGAN)
    again = BEGAN + timedelta(seconds=50)
    total.add(used(9.0, 9, 45), again)  # it had been measured before it ended
    total.add(used(3.0, 7, 60), again)
    assert (total.peak, total.cpu_seconds(20)) == (7, pytest.approx(1.0 * 10 + 3.0 * 10))


def test_a_measurement_does_not_stand_for_hours_without_one():
    total = UsageSum()
    total.add(used(1.0, 5, 3600), BEGAN)
    assert total.cpu_seconds(3600) is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (404, "404 page not found"),
        (403, "{}"),
        (503, "{}"),
        (200, '{"items": [{"containers": 1}]}'),
    ],
    ids=["not installed", "not allowed", "not answering", "nonsense"],
)
def test_where_nothing_is_answered_it_asks_ever_less_often(server, cluster, code, text):
    server.fail("GET", METRICS, times=999, code=code, text=text)
    watch = UsageWatch(cluster, "team", "job=digits")
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        assert watch.look() == {}
        time.sleep(0.002)
    asked = sum("metrics.k8s.io" in path for _, path in server.requests)
    assert 2 <= asked <= 8  # after 0.01, 0.03, 0.07, 0.15, ... s


def test_a_metrics_server_that_is_back_is_asked_again(server, cluster, player, pytorch, eventually):
    server.metrics = {"cpu": "250m", "memory": "2Gi"}
    server.fail("GET", METRICS, times=2, code=503)
    pod = player.pod(submission.submit(cluster, pytorch), "master")
    player.run(pod)
    watch = UsageWatch(cluster, "team", "training.kubeflow.org/job-name=digits")
    found = []
    assert eventually(lambda: found.append(watch.look()) or found[-1])
    ((key, use),) = found[-1].items()
    assert (key[0], use.cpu, use.memory) == (pod, 0.25, 2 * 2**30)


def test_one_that_is_slow_holds_nothing_up(server, launched, player, pytorch, tmp_path):
    server.fail("GET", METRICS, times=9, code=200, late=20.0)
    began = time.monotonic()
    run = launched(pytorch, timeline.Timeline(tmp_path / "replicas.json"))
    job = player.wait_for(pytorch)
    pods = [player.pod(job, role) for role in ("master", "worker")]
    for pod in pods:
        player.run(pod)
    run.says("2 of 2 replicas run")
    for pod in pods:
        player.exit(pod, 0)
    player.condition(job, "Succeeded")
    assert run.end().error is None
    assert time.monotonic() - began < 15
    assert any("metrics.k8s.io" in path for _, path in server.requests)
    assert timeline.read(tmp_path / "replicas.json")["master-0"].peak_memory is None
