"""What happens to runs when the cluster, and not the program, is at fault."""

import json

import place as places
import pytest
from engines import ENDED
from test_pipelines import finished, quick  # noqa: F401 - a fixture


def evict(namespace, pod):
    """Has a pod evicted, as kubectl drain does."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    places.kubectl("create", "--raw", path, "--filename", "-", given=json.dumps(body))


def test_a_launcher_that_is_drained_finds_its_job_again(engine, quick, within):  # noqa: F811
    run = engine.begin(**quick, args=["--seconds", "90"], model_name=f"drained-{engine.name}")
    within(600, lambda: "second 3/" in engine.said(run, "train"))
    (job,) = engine.jobs(run)
    evict(engine.namespace, engine.pod_of(run, "train"))
    within(900, lambda: engine.state(run), ENDED.__contains__)
    finished(engine, run)
    assert engine.jobs(run) in ([], [job])  # the one that was there


def test_a_replica_that_is_evicted_is_started_again(engine, quick, within):  # noqa: F811
    again = {"restart_policy": "ExitCode"}
    run = engine.begin(
        **quick, args=["--seconds", "30"], job=again, model_name=f"evicted-{engine.name}"
    )
    within(600, lambda: "second 3/" in engine.said(run, "train"))
    ((_, name),) = engine.jobs(run)
    evict(engine.namespace, f"{name}-master-0")
    within(900, lambda: engine.state(run), ENDED.__contains__)
    finished(engine, run)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"image": "example.invalid/nothing:1"}, "ErrImagePull|ImagePullBackOff|InvalidImage"),
        ({"job": {"cpu": "500", "starting_limit": 60}}, "cpu"),
    ],
    ids=["missing-image", "unschedulable"],
)
def test_a_job_that_cannot_start_says_why(engine, quick, more, words):  # noqa: F811
    # As user 1000, or Pod Security would not let it be tried.
    job = {"starting_limit": 60, "run_as_user": 1000} | more.get("job", {})
    _, output = engine.run(**(quick | more | {"job": job}), status=1)
    assert any(word in output for word in words.split("|")), output


def test_a_replica_without_memory_is_named(engine, quick):  # noqa: F811
    _, output = engine.run(**quick, args=["--gigabytes", "2"], job={"memory": "1Gi"}, status=1)
    assert "master-0" in output and "OOM" in output


def test_two_first_runs_at_once(engine, quick, within):  # noqa: F811
    name = f"at-once-{engine.name}"
    runs = [engine.begin(**quick, experiment=name, model_name=name) for _ in range(2)]
    for run in runs:
        within(1200, lambda run=run: engine.state(run), ENDED.__contains__)
        finished(engine, run)
