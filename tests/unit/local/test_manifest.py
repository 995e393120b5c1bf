"""What the embedded runner reads from a manifest, and what it refuses."""

import pytest

from trireme.components.errors import InputError
from trireme.components.training.local import runner
from trireme.components.training.local.manifest import read


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


def test_roles_may_be_written_in_any_case(job, replicas):
    made = read(job("TFJob", CHIEF=replicas(["x"]), ps=replicas(["x"])))
    assert [pod.role for pod in made.pods] == ["Chief", "PS"]


@pytest.mark.parametrize(
    ("kind", "role", "policy"),
    [
        ("PyTorchJob", "Master", "Never"),
        ("TFJob", "Worker", "Never"),
        ("MPIJob", "Launcher", "OnFailure"),
    ],
)
def test_what_is_left_out_is_as_the_operator_has_it(job, replicas, kind, role, policy):
    made = job(kind, **{role: replicas(["x"])})
    specs = next(value for key, value in made["spec"].items() if key.endswith("ReplicaSpecs"))
    del specs[role]["replicas"], specs[role]["restartPolicy"]
    del made["spec"]["runPolicy"]
    found = read(made)
    assert [(pod.role, pod.restart_policy) for pod in found.pods] == [(role, policy)]
    assert found.namespace == "default"


def replaced(path, value):
    """Returns a change of a manifest: the value at a path."""

    def change(manifest):
        *parents, last = path.split("/")
        for key in parents:
            manifest = manifest[int(key) if key.isdigit() else key]
        manifest[last] = value

    return change


SPEC = "spec/pytorchReplicaSpecs/Master"
POD = f"{SPEC}/template/spec"
CONTAINER = f"{POD}/containers/0"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (replaced("kind", "TrainJob"), "kind 'TrainJob' cannot run here; PyTorchJob, JAXJob, "),
        (
            replaced("apiVersion", "v1"),
            "apiVersion 'v1' of kind PyTorchJob: must be kubeflow.org/v1",
        ),
        (replaced("metadata/name", "Job_1"), "metadata.name 'Job_1': must be"),
        (replaced("metadata/name", "j" * 60), "metadata.name 'jjj.*too long for a pod called"),
        (replaced("spec/runPolicy/suspend", True), "runPolicy.suspend true"),
        (
            replaced("spec/pytorchReplicaSpecs", {}),
            "no role of these can make the job succeed",
        ),
        (replaced("spec/pytorchReplicaSpecs/PS", {}), "'PS': must be one of Master, Worker"),
        (replaced(f"{SPEC}/replicas", 2), "replicas 2 of Master: there can be only 1"),
        (replaced(f"{SPEC}/replicas", 0), "replicas 0 of Master: must be a number of at least 1"),
        (replaced(f"{SPEC}/restartPolicy", "Maybe"), "restartPolicy 'Maybe' of Master"),
        (replaced(f"{POD}/initContainers", [{}]), "initContainers of Master cannot run here"),
        (replaced(f"{POD}/containers", [{}, {}]), "containers of Master: 2 cannot run here"),
        (
            replaced(f"{CONTAINER}/name", "main"),
            "container 'main' of Master: must be called 'pytorch'",
        ),
        (replaced(f"{CONTAINER}/command", []), "command of Master is missing"),
        (replaced(f"{CONTAINER}/envFrom", [{}]), "envFrom of Master is not supported on"),
        (replaced(f"{CONTAINER}/workingDir", "/none"), "workingDir '/none' of Master does not"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    job, replicas, logs, quiet, change, sentence
):
    manifest = job("PyTorchJob", Master=replicas(["true"]))
    change(manifest)
    with pytest.raises(InputError, match=sentence):
        runner.run(manifest, logs, quiet)
    assert not logs.exists()


def test_a_tfjob_of_servers_only_would_never_end(job, replicas):
    with pytest.raises(InputError, match="no role of these can make the job succeed"):
        read(job("TFJob", PS=replicas(["x"])))


def test_an_mpijob_restarts_never_or_on_failure(job, replicas):
    made = job("MPIJob", Launcher=replicas(["x"], restart="ExitCode"))
    with pytest.raises(InputError, match="'ExitCode' of Launcher: must be one of Never, OnFailure"):
        read(made)


def test_an_mpijob_needs_a_launcher(job, replicas):
    with pytest.raises(InputError, match="needs a Launcher"):
        read(job("MPIJob", Worker=replicas(None)))


def mounted(job, replicas, path, **source):
    mounts = [{"name": "v", "mountPath": path}]
    pod = {"volumes": [{"name": "v", **source}]}
    return job("PyTorchJob", Master=replicas(["true"], pod=pod, volumeMounts=mounts))


def test_an_empty_volume_needs_nothing(job, replicas, logs, quiet):
    runner.run(mounted(job, replicas, "/none", emptyDir={}), logs, quiet)


def test_any_other_volume_has_to_be_where_it_is_mounted(job, replicas, logs, quiet, tmp_path):
    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    runner.run(mounted(job, replicas, str(tmp_path), **claim), logs, quiet)
    with pytest.raises(InputError, match="volume 'v' of Master is mounted at /none, which does"):
        runner.run(mounted(job, replicas, "/none", **claim), logs, quiet)
