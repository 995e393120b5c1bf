"""When jobs succeed, fail and restart: the rules of the operators' controllers."""

import pytest

from trireme.runner.local import policy
from trireme.runner.local.manifest import read
from trireme.runner.local.replica import Ended, Replica


@pytest.fixture
def ended(job, replicas, tmp_path):
    """Returns a job and its replicas, of which some have ended: name and exit status."""

    def make(kind, roles, statuses, run_policy=None, spec=None):
        roles = {
            role: replicas(["x"], *([count] if isinstance(count, int) else count))
            for role, count in roles.items()
        }
        made = read(job(kind, run_policy, spec, **roles))
        found = {
            pod.name: Replica(pod, None, tmp_path / "log", None, None)  # never started
            for pod in made.pods
        }
        for name, status in statuses.items():
            found[name].has_ended(Ended(found[name], status, 1.0, 0, 0.0))
        return made, list(found.values())

    return make


TF = {"Worker": 2, "PS": 1}
WITH_CHIEF = TF | {"Chief": 1}
ELASTIC = {"elasticPolicy": {}}
ALL = {"successPolicy": "AllWorkers"}


@pytest.mark.parametrize(
    ("kind", "roles", "spec", "done", "succeeded"),
    [
        ("PyTorchJob", {"Master": 1, "Worker": 1}, None, ["master-0"], True),
        ("PyTorchJob", {"Master": 1, "Worker": 1}, None, ["worker-0"], False),
        ("PyTorchJob", {"Worker": 2}, ELASTIC, ["worker-1"], True),
        ("TFJob", WITH_CHIEF, None, ["chief-0"], True),
        ("TFJob", WITH_CHIEF, None, ["worker-0", "worker-1"], False),
        ("TFJob", WITH_CHIEF, ALL, ["chief-0"], True),
        ("TFJob", TF, None, ["worker-0"], True),
        ("TFJob", TF, None, ["worker-1"], False),
        ("TFJob", TF, ALL, ["worker-0"], False),
        ("TFJob", TF, ALL, ["worker-0", "worker-1"], True),
        ("MPIJob", {"Launcher": 1, "Worker": 2}, None, ["launcher-0"], True),
        ("MPIJob", {"Launcher": 1, "Worker": 1}, None, ["worker-0"], False),
    ],
)
def test_whose_success_is_the_jobs(ended, kind, roles, spec, done, succeeded):
    made, all_of_them = ended(kind, roles, dict.fromkeys(done, 0), spec=spec)
    assert policy.succeeded(made, all_of_them) is succeeded


@pytest.mark.parametrize(
    ("restart", "again"),
    [
        ("Never", []),
        ("OnFailure", [1, 127, 128, 137, 255]),
        ("Always", [0, 1, 127, 128, 137, 255]),
        ("ExitCode", [128, 137, 255]),
    ],
)
def test_which_exit_statuses_are_followed_by_a_restart(ended, restart, again):
    found = []
    for status in (0, 1, 127, 128, 137, 255):
        made, (replica,) = ended("PyTorchJob", {"Master": (1, restart)}, {"master-0": status})
        if policy.restarts(made, replica):
            found.append(status)
    assert found == again


def allowed(made, all_of_them, limit=20):
    """Counts how often the first replica is restarted before the limit ends the job."""
    replica = all_of_them[0]
    for count in range(limit):
        if policy.why_no_restart(made, all_of_them, replica, []) is not None:
            return count
        replica.retries += 1
    return limit


@pytest.mark.parametrize(
    ("kind", "role", "restart", "limit", "count"),
    [
        ("PyTorchJob", "Master", "OnFailure", 0, 0),
        ("PyTorchJob", "Master", "Always", 0, 0),
        ("PyTorchJob", "Master", "OnFailure", None, 20),
        ("PyTorchJob", "Master", "ExitCode", 0, 0),
        # A batch Job: restarts reach the limit, or pods exceed it.
        ("MPIJob", "Launcher", "OnFailure", 0, 0),
        ("MPIJob", "Launcher", "OnFailure", 3, 2),
        ("MPIJob", "Launcher", "OnFailure", None, 5),
        ("MPIJob", "Launcher", "Never", 0, 0),
        ("MPIJob", "Launcher", "Never", 3, 3),
        ("MPIJob", "Launcher", "Never", None, 6),
    ],
)
def test_how_many_restarts_a_backoff_limit_allows(ended, kind, role, restart, limit, count):
    run_policy = {} if limit is None else {"backoffLimit": limit}
    name = f"{role.lower()}-0"
    made, all_of_them = ended(kind, {role: (1, restart)}, {name: 137}, run_policy)
    assert allowed(made, all_of_them) == count


@pytest.mark.parametrize(
    ("kind", "roles", "failed", "fatal"),
    [
        ("PyTorchJob", {"Master": 1, "Worker": 1}, "worker-0", True),
        ("TFJob", TF, "ps-0", True),
        ("MPIJob", {"Launcher": 1, "Worker": 1}, "worker-0", False),
        ("MPIJob", {"Launcher": 1, "Worker": 1}, "launcher-0", True),
    ],
)
def test_whose_failure_is_the_jobs(ended, kind, roles, failed, fatal):
    made, all_of_them = ended(kind, roles, {failed: 1})
    (replica,) = [replica for replica in all_of_them if replica.name == failed]
    assert made.framework.is_fatal(made, replica.pod) is fatal


@pytest.mark.parametrize(
    ("kind", "roles", "serving"),
    [
        ("PyTorchJob", {"Master": 1, "Worker": 1}, []),
        ("TFJob", TF, ["ps-0"]),
        ("TFJob", WITH_CHIEF, ["ps-0", "worker-0", "worker-1"]),
        ("TFJob", {"Chief": 1, "Worker": 1}, []),
        ("MPIJob", {"Launcher": 1, "Worker": 1}, ["worker-0"]),
    ],
)
def test_who_never_ends_by_itself(ended, kind, roles, serving):
    made, all_of_them = ended(kind, roles, {})
    assert [one.name for one in all_of_them if made.framework.serves(made, one.pod)] == serving
