"""What the replicas of a job use, as a metrics server or the kubelets say."""

import json

import pytest
from player import Player
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.errors import InputError
from trireme.kubernetes.errors import Forbidden, Refused, Unavailable
from trireme.runner.cluster import jobs, submission

METRICS_SERVER = r"/apis/metrics\.k8s\.io/v1beta1/namespaces/team/pods\?labelSelector="
KUBELET = "/api/v1/nodes/node-1/proxy/stats/summary"
RESOURCES = {
    "requests": {"cpu": "500m", "memory": "1Gi"},
    "limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"},
}
USED = {"cpu": "1500000000n", "memory": "2097152Ki"}


@pytest.fixture
def pods(standing_in, container_logs, pytorch):
    """A job of which the master runs and the worker waits; returns the master's pod."""
    pytorch["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0][
        "resources"
    ] = RESOURCES
    job = submission.submit(standing_in, pytorch)
    player = Player(standing_in, container_logs, "node-1")
    master = player.pod(job, "master")
    player.pod(job, "worker")
    player.cluster.patch(
        jobs.PODS,
        master,
        "team",
        {"spec": {"containers": [{"name": "pytorch", "resources": RESOURCES}]}},
    )
    player.run(master)
    player.condition(job, "Running")
    return player, master


def answer(server, part, content, code=200):
    server.fail("GET", part, times=9, code=code, text=json.dumps(content))


def of_metrics_server(pod, **more):
    return {
        "kind": "PodMetricsList",
        "items": [
            {
                "metadata": {"name": pod, "namespace": "team"},
                "containers": [{"name": "pytorch", "usage": USED}, *more.get("others", [])],
            }
        ],
    }


def of_kubelet(pod, **container):
    """As a kubelet (1.36) answers that is asked for only_cpu_and_memory."""
    return {
        "node": {"nodeName": "node-1"},
        "pods": [
            {
                "podRef": {"name": pod, "namespace": namespace, "uid": "1"},
                "containers": [{"name": "pytorch"} | measured],
            }
            for namespace, measured in (
                ("other", {"cpu": {"usageNanoCores": 1}, "memory": {"workingSetBytes": 1}}),
                ("team", container),
            )
        ],
    }


def test_a_metrics_server_says_what_replicas_use(server, pods):
    _, master = pods
    sidecar = {"name": "sidecar", "usage": {"cpu": "1", "memory": "1Gi"}}
    answer(server, METRICS_SERVER, of_metrics_server(master, others=[sidecar]))
    shown = CliRunner().invoke(app, ["job", "top", "digits"])
    assert shown.exit_code == 0, shown.output
    head, first, second = shown.output.splitlines()
    said = [" ".join(line.split()) for line in (head, first, second)]
    assert said == [
        "REPLICA STATE CPU REQUEST LIMIT MEMORY REQUEST LIMIT GPUS NODE",
        "master-0 running 1.50 0.5 2 2.00Gi 1Gi 4Gi 1 node-1",
        "worker-0 pending - - - - - - 0 node-1",
    ]


@pytest.mark.parametrize(
    "code", [404, 403, 503], ids=["not installed", "not allowed", "not answering"]
)
def test_without_one_the_kubelets_do(server, standing_in, pods, code):
    _, master = pods
    answer(server, METRICS_SERVER, {"message": "no"}, code)
    used = {"cpu": {"usageNanoCores": 250000000}, "memory": {"workingSetBytes": 1024}}
    answer(server, KUBELET, of_kubelet(master, **used))
    first, second = jobs.usage(standing_in, "digits")
    assert (first.name, first.cpu, first.memory, first.gpus) == ("master-0", 0.25, 1024, 1)
    assert (second.cpu, second.memory) == (None, None)
    assert server.requests[-1][1].endswith("?only_cpu_and_memory=true")


def test_what_is_not_measured_yet_is_left_open(server, standing_in, pods):
    _, master = pods
    answer(server, METRICS_SERVER, {"message": "no"}, 404)
    answer(server, KUBELET, of_kubelet(master))
    assert [row.cpu for row in jobs.usage(standing_in, "digits")] == [None, None]


def test_rights_that_are_missing_are_named(server, standing_in, pods):
    answer(server, KUBELET, {"message": "no"}, 403)
    answer(server, METRICS_SERVER, {"message": "no"}, 403)
    server.denied = {"list pods"}
    with pytest.raises(Forbidden, match=r"may not list pods\.metrics\.k8s\.io in namespace team"):
        jobs.usage(standing_in, "digits")


def test_a_metrics_server_that_is_missing_is_named(server, standing_in, pods):
    answer(server, KUBELET, {"message": "no"}, 403)
    answer(server, METRICS_SERVER, {"message": "no"}, 404)
    with pytest.raises(Refused) as caught:
        jobs.usage(standing_in, "digits")
    assert str(caught.value) == (
        "the cluster has no pods.metrics.k8s.io: install metrics-server; without it this needs the "
        "right to get nodes/proxy"
    )


def test_a_kubelet_that_does_not_answer_is_told_of(server, standing_in, pods):
    answer(server, METRICS_SERVER, {"message": "no"}, 404)
    answer(server, KUBELET, {"message": "failed to get rootFs stats"}, 500)
    with pytest.raises(Unavailable, match="fails: 500 failed to get rootFs stats"):
        jobs.usage(standing_in, "digits")


def test_a_job_that_does_not_run_is_refused(standing_in, pods):
    player, master = pods
    with pytest.raises(InputError, match="'other': there is no such job"):
        jobs.usage(standing_in, "other")
    player.exit(master, 0)
    player.condition(jobs.find(standing_in, "digits"), "Succeeded", message="it is done")
    with pytest.raises(InputError, match="job 'digits' does not run: succeeded"):
        jobs.usage(standing_in, "digits")
