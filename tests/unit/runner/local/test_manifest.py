"""What the embedded runner reads from a manifest, and what it refuses."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from shapes import descriptions

from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.runner.local import runner
from trireme.runner.local.manifest import read
from trireme.runner.local.network import Loopback


def test_the_pods_are_named_as_the_operators_name_them(job, replicas):
    made = read(job("PyTorchJob", Worker=replicas(["x"], 2), Master=replicas(["x"])))
    names = [(pod.name, pod.host) for pod in made.pods]
    assert names == [
        ("master-0", "job-master-0"),
        ("worker-0", "job-worker-0"),
        ("worker-1", "job-worker-1"),
    ]
    made = read(job("MPIJob", Launcher=replicas(["x"]), Worker=replicas(None)))
    names = [(pod.name, pod.host) for pod in made.pods]
    assert names == [("launcher-0", "job-launcher"), ("worker-0", "job-worker-0")]


@given(st.data())
def test_any_job_that_can_be_described_has_all_that_is_read_here(data):
    here = {"code": None, "dataset": None, "volumes": [], "suspend": False, "code_dir": "/"}
    try:
        described = TrainingJob.create(**data.draw(descriptions("training-operator")))
        made = read(render(described.model_copy(update=here | {"runtime": None})))
    except InputError:
        assume(False)
    assert made.framework.name == described.framework
    assert len(made.pods) == made.framework.processes(made) or made.framework.has_processes
    # Only a batch Job's backoffLimit is counted here.
    is_batch = made.framework.backoff_limit is not None
    assert is_batch or made.retries is not None or not made.policy.get("backoffLimit")
    with Loopback() as network:
        for pod in made.pods:
            assert pod.restart_policy in made.framework.restart_policies
            assert made.framework.environment(made, pod, network) is not None


def test_a_job_that_is_to_wait_cannot_run_here(job, replicas, logs):
    made = job("PyTorchJob", {"suspend": True}, Master=replicas(["true"]))
    with pytest.raises(InputError, match=r"runPolicy\.suspend true"):
        runner.run(made, logs)
    assert not logs.exists()


def test_the_working_directory_has_to_be_there(job, replicas, logs):
    made = job("PyTorchJob", Master=replicas(["true"], workingDir="/none"))
    with pytest.raises(InputError, match="workingDir '/none' of Master does not exist"):
        runner.run(made, logs)
    assert not logs.exists()


def mounted(job, replicas, path, **source):
    mounts = [{"name": "v", "mountPath": path}]
    pod = {"volumes": [{"name": "v", **source}]}
    return job("PyTorchJob", Master=replicas(["true"], pod=pod, volumeMounts=mounts))


def test_an_empty_volume_needs_nothing(job, replicas, logs):
    runner.run(mounted(job, replicas, "/none", emptyDir={}), logs)


def test_any_other_volume_has_to_be_where_it_is_mounted(job, replicas, logs, tmp_path):
    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    runner.run(mounted(job, replicas, str(tmp_path), **claim), logs)
    with pytest.raises(InputError, match="volume 'v' of Master is mounted at /none, which does"):
        runner.run(mounted(job, replicas, "/none", **claim), logs)
