"""trireme/targets/pending.py: what Events say of pods that do not start."""

import pytest

from trireme.kubernetes.errors import Forbidden
from trireme.targets import pending


def waits(number, **metadata):
    metadata |= {"uid": f"uid-{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return f"turn-{number:03}", {"metadata": metadata, "status": {"phase": "Pending"}}


def event(number, reason, at, kind="Warning"):
    return {
        "involvedObject": {"kind": "Pod", "uid": f"uid-{number}"},
        "type": kind,
        "reason": reason,
        "lastTimestamp": f"2026-01-01T00:00:{at:02}Z",
    }


class Cluster:
    """Knows Events, and what it was asked for."""

    namespace = "team"

    def __init__(self, *events):
        self.events, self.asked = events, []

    def each(self, resource, namespace, **query):
        self.asked.append(query["fieldSelector"])
        path, _, value = query["fieldSelector"].rpartition("=")
        field = path.removeprefix("involvedObject.")
        yield from (each for each in self.events if each["involvedObject"][field] == value)


@pytest.mark.parametrize(("count", "questions"), [(0, 0), (1, 1), (5, 5), (6, 1), (300, 1)])
def test_events_of_many_pods_are_asked_for_at_once(count, questions):
    cluster = Cluster(*(event(number, "FailedMount", 1) for number in range(400)))
    found = pending.of_pods(cluster, [waits(number) for number in range(count)])
    assert len(cluster.asked) == questions
    assert found == {f"turn-{number:03}": "FailedMount" for number in range(count)}


@pytest.mark.parametrize("others", [0, 10])
def test_the_latest_one_counts(others):
    cluster = Cluster(
        *(event(1, "Pulling", 3, "Normal"), event(1, "FailedMount", 2)),
        *(event(2, "FailedMount", 2), event(2, "Scheduled", 1, "Normal")),
        *(event(3, "FailedMount", 2), event(3, "FailedCreatePodSandBox", 2)),
    )
    pods = [waits(number) for number in (1, 2, 3, *range(20, 20 + others))]
    found = {"turn-002": "FailedMount", "turn-003": "FailedCreatePodSandBox"}
    assert pending.of_pods(cluster, pods) == found
    going = waits(2, deletionTimestamp="2026-01-01T00:00:00Z")
    assert pending.of_pods(cluster, [going]) == {}


def test_who_may_not_see_events_is_told_the_rest():
    class Closed(Cluster):
        def each(self, *_, **__):
            raise Forbidden("you may not list events")

    said = waits(1)[1]
    container = {"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}
    said["status"]["containerStatuses"] = [container]
    assert pending.of_pods(Closed(), [("a", said), waits(2)]) == {"a": "ErrImagePull"}
