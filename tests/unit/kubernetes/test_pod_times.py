"""When a pod got its node, and for how long its image was brought, by its status."""

import pytest

from trireme.kubernetes import pods


def at(second):
    return f"2026-11-29T12:08:{second:02}Z"


def pod(conditions=(), started=None, restarts=0, init=()):
    state = {"running": {"startedAt": at(started)}} if started else {"waiting": {}}
    return {
        "metadata": {"name": "p"},
        "status": {
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": at(second)}
                for kind, status, second in conditions
            ],
            "containerStatuses": [{"name": "main", "state": state, "restartCount": restarts}],
            "initContainerStatuses": [
                {"name": "init", "state": {"terminated": {"finishedAt": at(second)}}}
                for second in init
            ],
        },
    }


def test_a_pod_has_its_node_when_it_is_scheduled():
    assert pods.scheduled(pod([("PodScheduled", "True", 5)])) == pods.moment(at(5))
    assert pods.scheduled(pod([("PodScheduled", "False", 5)])) is None
    assert pods.scheduled({"metadata": {}}) is None


READY = ("PodReadyToStartContainers", "True", 10)


@pytest.mark.parametrize(
    ("made", "span"),
    [
        (pod([READY], started=30), (10, 30)),
        (pod([READY], started=30, init=[15, 22]), (22, 30)),
        (pod([READY], started=30, restarts=1), None),  # of its first start nothing is left
        (pod([READY]), None),
        (pod(started=30), None),  # before Kubernetes 1.29
        (pod([READY], started=10), None),
    ],
)
def test_an_image_is_brought_from_the_sandbox_or_the_last_init_container_on(made, span):
    expected = tuple(pods.moment(at(second)) for second in span) if span else None
    assert pods.pull(made, "main") == expected
