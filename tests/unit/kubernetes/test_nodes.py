"""trireme/kubernetes/nodes.py: whether the nodes are large enough for a job's pods."""

import pytest

from trireme.job.job import TrainingJob
from trireme.kubernetes import nodes
from trireme.kubernetes.resources import PODS
from trireme.manifests import render
from trireme.manifests.roles import roles
from trireme.runner.cluster.checks import needed


class Cluster:
    """One that has nodes and pods."""

    def __init__(self, *there, pods=()):
        self.there, self.pods = there, pods

    def items(self, resource, namespace, **query):
        assert namespace == ""
        if resource == PODS:
            assert query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"
        return list(self.pods if resource == PODS else self.there)


def node(name="one", labels=None, taints=(), unschedulable=False, **amounts):
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "10"} | amounts
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": amounts},
    }


def pod(place="one", **requests):
    containers = [{"name": "c", "resources": {"requests": requests}}]
    return {"spec": {"nodeName": place, "containers": containers}}


def said(cluster, at_once=1, operator="training-operator", **fields):
    job = TrainingJob.create(**{"entrypoint": "train.py", "workers": 1} | fields)
    return nodes.problem(nodes.there(cluster), needed(render(job, operator), at_once))


def test_a_default_job_starts_on_a_small_node():
    # As a kind node of 2 CPUs has it, besides what Kubernetes itself and the operators request.
    assert said(Cluster(node(cpu="1", memory="3Gi"))) == ""


@pytest.mark.parametrize(
    ("framework", "role"), [("pytorch", "Master"), ("tensorflow", "Worker"), ("mpi", "Launcher")]
)
def test_what_a_job_does_not_say_is_requested_sparingly_and_what_it_says_is_its_limit(
    framework, role
):
    def of(**fields):
        job = TrainingJob.create(entrypoint="train.py", framework=framework, **fields)
        (found,) = [each for each in roles(render(job)) if each.name == role]
        return found.pod["containers"][0]["resources"]

    assert of() == {
        "requests": {"cpu": "250m", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "4Gi"},
    }
    both = {"cpu": "100m", "memory": "16Gi"}
    assert of(**both) == {"requests": both, "limits": both}
    assert of(memory="2Gi") == {
        "requests": {"cpu": "250m", "memory": "2Gi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }


@pytest.mark.parametrize(
    ("there", "fields", "lacks"),
    [
        (node(cpu="200m"), {}, "large enough for a pod of role Master: it requests 0.25 of cpu"),
        (node(memory="512Mi"), {}, "it requests 1Gi of memory, and node one has 0.5Gi; ask for"),
        (node(), {"gpu": 1}, "it requests 1 of nvidia.com/gpu, and node one has 0"),
        (node(pods="0"), {}, "it requests 1 of pods, and node one has 0; ask for less"),
        (node(), {"cpu": 3}, "of role Master: it requests 3 of cpu, and node one has 2"),
    ],
)
def test_the_resource_that_lacks_is_named(there, fields, lacks):
    assert lacks in said(Cluster(there), **fields)


def test_a_pod_has_to_fit_on_one_node():
    small = [node(name, cpu="300m") for name in "abc"]
    assert said(Cluster(*small), workers=3) == ""
    assert said(Cluster(*small), workers=4) == (
        "the nodes have room for 3 of 4 pods of role Worker; ask for less"
    )
    assert "it requests 0.4 of cpu" in said(Cluster(*small), cpu="400m", workers=0)


def test_what_others_use_now_is_free_later():
    full = Cluster(node(cpu="1"), pods=[pod(cpu="1")])
    assert said(full) == ""
    assert [each.free["cpu"] for each in nodes.free(full)] == [0]


def test_jobs_that_run_at_the_same_time_need_room_together():
    assert said(Cluster(node(cpu="1")), at_once=4) == ""
    assert "4 of 5 pods of role Master" in said(Cluster(node(cpu="1")), at_once=5)


def test_an_elastic_job_needs_room_for_the_fewest():
    elastic = {"elastic": {"min": 2, "max": 9}, "workers": None}
    assert said(Cluster(node(cpu="500m")), **elastic) == ""
    assert "1 of 2 pods" in said(Cluster(node(cpu="400m")), **elastic)
    assert said(Cluster(node(cpu="500m")), operator="trainer", **elastic) == ""


def test_pods_that_wait_for_a_node_take_nothing_of_one():
    waiting = Cluster(node(), pods=[pod("", cpu="2"), pod("gone", cpu="2")])
    assert [each.free["cpu"] for each in nodes.free(waiting)] == [2]


SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("there", "scheduling", "problem"),
    [
        (node(unschedulable=True), {}, "tolerate node.kubernetes.io/unschedulable; change"),
        (node(taints=[SPOT]), {}, "no node takes a pod of role Master: it would have to tolerate"),
        (node(taints=[SPOT | {"effect": "PreferNoSchedule"}]), {}, ""),
        (node(taints=[SPOT]), {"tolerations": [{"key": "spot", "operator": "Exists"}]}, ""),
        (node(taints=[SPOT]), {"tolerations": [{"operator": "Exists"}]}, ""),
        (node(taints=[SPOT]), {"tolerations": [{"key": "spot", "value": "yes"}]}, ""),
        (node(taints=[SPOT]), {"tolerations": [{"key": "spot", "value": "no"}]}, "tolerate spot"),
        (node(), {"node_selector": {"disk": "ssd"}}, "none has the labels disk=ssd; change"),
        (node(labels={"disk": "ssd"}), {"node_selector": {"disk": "ssd"}}, ""),
    ],
)
def test_selectors_and_taints_keep_pods_from_nodes(there, scheduling, problem):
    found = said(Cluster(there), scheduling=scheduling)
    assert problem in found if problem else not found


def test_a_node_that_has_not_told_what_it_has_does_not_count():
    silent = {"metadata": {"name": "new"}, "spec": {}}
    assert nodes.there(Cluster(silent)) == []
