"""A job that asks for a queue, on clusters whose Kueue manages its kind, and others."""

import pytest

from trireme.errors import InputError
from trireme.frameworks.kinds import QUEUE, TRAINING_RUNTIMES
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.runner.cluster import admission, jobs, submission

JOB = {"name": "digits", "entrypoint": "train.py", "workers": 1, "scheduling": {"queue": "gpus"}}
OPERATORS = {"training-operator": "PyTorchJob", "trainer": "TrainJob"}


@pytest.fixture
def cluster(standing_in):
    return standing_in


@pytest.fixture(params=OPERATORS)
def queued(request):
    return render(TrainingJob.create(**JOB), request.param)


def test_a_job_that_no_kueue_holds_back_is_refused_and_leaves_nothing(cluster, queued):
    with pytest.raises(InputError, match=f"'gpus': Kueue does not hold back a {queued['kind']}"):
        submission.submit(cluster, queued)
    assert jobs.list_jobs(cluster) == []
    assert cluster.list(TRAINING_RUNTIMES, cluster.namespace)["items"] == []


def test_a_job_of_a_kind_that_kueue_manages_waits(cluster, server, queued):
    server.queued |= {"pytorchjobs", "trainjobs"}
    assert submission.submit(cluster, queued)["metadata"]["labels"][QUEUE] == "gpus"
    assert [row.state for row in jobs.list_jobs(cluster)] == ["suspended"]


def test_the_way_out_is_named(cluster, server):
    server.queued.add("trainjobs")
    pytorch = render(TrainingJob.create(**JOB), "training-operator")
    with pytest.raises(InputError, match=r"'kubeflow\.org/pytorchjob'.*--operator trainer"):
        admission.check(cluster, pytorch, cluster.namespace)
