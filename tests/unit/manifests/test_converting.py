"""trireme/manifests/converting.py: a job of v1 becomes a TrainJob whose programs see the same.

What the operators set is that of the training operator 1.9.3 and of Trainer 2.3 as pods of these
jobs printed it on a cluster.
"""

import copy

import pytest
import yaml
from shapes import SHAPES
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.manifests.converting import convert


def replicas(container, count, policy=None, **more):
    made = {"name": container, "image": "example.org/train", "command": ["python", "a.py"]} | more
    pods = {"template": {"spec": {"containers": [made]}}}
    return {"replicas": count} | pods | ({"restartPolicy": policy} if policy else {})


def job(kind, field, **roles):
    version = "kubeflow.org/v2beta1" if kind == "MPIJob" else "kubeflow.org/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {field: roles}}


def pytorch(**spec):
    master, workers = replicas("pytorch", 1), replicas("pytorch", 2)
    made = job("PyTorchJob", "pytorchReplicaSpecs", Master=master, Worker=workers)
    made["spec"] |= spec
    return made


def jobs_of(converted):
    made = converted.manifest["runtime"]["spec"]["template"]["spec"]["replicatedJobs"]
    return {each["name"]: each["template"]["spec"] for each in made}


def container(converted, role):
    pod = jobs_of(converted)[role]["template"]["spec"]
    return next(each for each in pod["containers"] if each["name"] == "node")


def told(converted, role):
    env = container(converted, role)["env"]
    return {each["name"]: each["value"] for each in env if "value" in each}


def test_pytorch_sees_what_the_training_operator_sets():
    converted = convert(pytorch(nprocPerNode="2"))
    assert converted.remarks == []
    assert told(converted, "worker") == {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_NNODES": "3",
        "MASTER_ADDR": "a-master-0-0.a",
        "MASTER_PORT": "23456",
        "PET_MASTER_ADDR": "a-master-0-0.a",
        "PET_MASTER_PORT": "23456",
        "WORLD_SIZE": "6",
    }
    labels = {each["name"] for each in container(converted, "worker")["env"] if "valueFrom" in each}
    assert labels == {"RANK", "PET_NODE_RANK"}


def test_processes_that_are_not_counted_are_torchruns_to_count():
    assert told(convert(pytorch()), "master")["PET_NPROC_PER_NODE"] == "auto"
    assert told(convert(pytorch(nprocPerNode="gpu")), "master")["PET_NPROC_PER_NODE"] == "gpu"


def test_an_elastic_job_stays_elastic():
    policy = {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 7, "rdzvBackend": "c10d"}
    made = job("PyTorchJob", "pytorchReplicaSpecs", Worker=replicas("pytorch", 2))
    made["spec"]["elasticPolicy"] = policy | {"metrics": []}
    converted = convert(made)
    variables = told(converted, "worker")
    assert (variables["PET_NNODES"], variables["PET_MAX_RESTARTS"]) == ("1:2", "7")
    assert variables["PET_RDZV_ENDPOINT"] == "a-worker-0-0.a:23456"
    assert "PET_RDZV_ID" not in variables
    assert container(converted, "worker")["command"][:2] == ["sh", "-c"]
    assert container(converted, "worker")["command"][-2:] == ["python", "a.py"]
    assert converted.remarks == [
        "spec.elasticPolicy.metrics: has no counterpart and is left out",
    ]


def test_tensorflow_has_the_same_roles():
    roles = {"Chief": 1, "PS": 1, "Worker": 2}
    made = {title: replicas("tensorflow", count) for title, count in roles.items()}
    converted = convert(job("TFJob", "tfReplicaSpecs", **made))
    assert converted.remarks == []
    config = yaml.safe_load(told(converted, "ps")["TF_CONFIG"].replace("$(", "").replace(")", ""))
    assert {role: len(hosts) for role, hosts in config["cluster"].items()} == {
        role.lower(): count for role, count in roles.items()
    }
    assert config["task"] == {"type": "ps", "index": "TRIREME_TASK_INDEX"}
    spec = converted.manifest["runtime"]["spec"]["template"]["spec"]
    assert spec["successPolicy"]["targetReplicatedJobs"] == ["chief"]


def test_ports_are_those_that_the_operator_would_take():
    port = [{"name": "xgboostjob-port", "containerPort": 9991}]
    roles = {"Master": replicas("xgboost", 1), "Worker": replicas("xgboost", 2, ports=port)}
    variables = told(convert(job("XGBoostJob", "xgbReplicaSpecs", **roles)), "worker")
    assert (variables["MASTER_PORT"], variables["WORKER_PORT"]) == ("9999", "9991")


def test_mpi_is_started_by_ssh():
    launcher = replicas("mpi", 1, command=["mpirun", "-np", "4"])
    workers = replicas("mpi", 2)
    del workers["template"]["spec"]["containers"][0]["command"]
    made = job("MPIJob", "mpiReplicaSpecs", Launcher=launcher, Worker=workers)
    made["spec"] |= {"slotsPerWorker": 2, "mpiImplementation": "Intel"}
    converted = convert(made)
    assert converted.remarks == []
    assert container(converted, "launcher")["command"][-3:] == ["mpirun", "-np", "4"]
    assert container(converted, "node")["command"][-2:] == ["/usr/sbin/sshd", "-De"]
    policy = converted.manifest["runtime"]["spec"]["mlPolicy"]["mpi"]
    assert (policy["numProcPerNode"], policy["mpiImplementation"]) == (2, "Intel")
    assert jobs_of(converted)["launcher"]["backoffLimit"] == 6


def test_pods_stay_as_they_are():
    made = pytorch()
    pod = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    pod["metadata"] = {"labels": {"team": "vision"}}
    pod["spec"] |= {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "initContainers": [{"name": "fetch", "image": "example.org/fetch"}],
        "nodeSelector": {"gpu": "yes"},
    }
    pod["spec"]["containers"].insert(0, {"name": "sidecar", "image": "example.org/sidecar"})
    before = copy.deepcopy(made)
    converted = jobs_of(convert(made))["worker"]["template"]
    assert made == before
    assert converted["metadata"] == pod["metadata"]
    for field in ("volumes", "initContainers", "nodeSelector"):
        assert converted["spec"][field] == pod["spec"][field]
    assert [each["name"] for each in converted["spec"]["containers"]] == ["sidecar", "node"]


def test_the_policy_of_a_run_is_taken_along():
    policy = {
        "activeDeadlineSeconds": 60,
        "ttlSecondsAfterFinished": 5,
        "suspend": True,
        "backoffLimit": 3,
        "managedBy": "kubeflow.org/training-operator",
    }
    made = pytorch(runPolicy=policy)
    made["metadata"] |= {"namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    converted = convert(made)
    spec = converted.manifest["spec"]
    assert (spec["suspend"], spec["activeDeadlineSeconds"]) == (True, 60)
    assert converted.manifest["metadata"] == {"name": "a"} | made["metadata"]
    inner = converted.manifest["runtime"]["spec"]["template"]["spec"]
    assert inner["ttlSecondsAfterFinished"] == 5
    assert jobs_of(converted)["master"]["backoffLimit"] == 3
    assert converted.remarks == [
        "runPolicy.backoffLimit 3: was a limit for all replicas together, and is one for each here",
        "spec.runPolicy.managedBy: has no counterpart and is left out",
    ]


def test_what_has_no_counterpart_is_remarked_on():
    made = pytorch(runPolicy={"cleanPodPolicy": "None", "schedulingPolicy": {"minAvailable": 3}})
    made["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Always"
    made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"] = [
        "--master=a-master-0:23456"
    ]
    starts = [remark.partition(": ")[0] for remark in convert(made).remarks]
    assert starts == [
        "restartPolicy Always of the worker",
        "runPolicy.schedulingPolicy",
        "runPolicy.cleanPodPolicy None",
        "the worker names a-master-0 or the like itself, a Service that a TrainJob has not",
    ]


def test_a_gang_is_of_the_scheduler_that_is_named():
    made = pytorch(runPolicy={"schedulingPolicy": {"queue": "q", "minAvailable": 3}})
    converted = convert(made, "volcano")
    assert converted.manifest["runtime"]["spec"]["podGroupPolicy"] == {"volcano": {}}
    assert jobs_of(converted)["worker"]["template"]["spec"]["schedulerName"] == "volcano"
    assert [remark.partition(":")[0] for remark in converted.remarks] == [
        "runPolicy.schedulingPolicy.minAvailable"
    ]


@pytest.mark.parametrize("name", ["pytorch", "elastic", "tensorflow-ps", "jax", "xgboost"])
def test_a_job_of_ours_becomes_what_it_would_have_been(name):
    described = TrainingJob.create(**SHAPES[name])
    converted = convert(render(described)).manifest["runtime"]["spec"]["template"]["spec"]
    ours = render(described, "trainer")["runtime"]["spec"]["template"]["spec"]
    assert (
        converted["successPolicy"]["targetReplicatedJobs"]
        == (ours["successPolicy"]["targetReplicatedJobs"])
    )
    for theirs, own in zip(converted["replicatedJobs"], ours["replicatedJobs"], strict=True):
        assert (theirs["name"], theirs["replicas"]) == (own["name"], own["replicas"])
        pods = [each["template"]["spec"]["template"]["spec"] for each in (theirs, own)]
        assert pods[0]["restartPolicy"] == pods[1]["restartPolicy"]
        values = [{each["name"] for each in pod["containers"][0]["env"]} for pod in pods]
        assert values[1] - values[0] <= {"PET_RDZV_ID", "DMLC_TASK_ID"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"kind": "PaddleJob"}, "kind 'PaddleJob': must be one of PyTorchJob, "),
        (job("PyTorchJob", "pytorchReplicaSpecs"), "spec.pytorchReplicaSpecs: is missing"),
        (
            job("PyTorchJob", "pytorchReplicaSpecs", Chief=replicas("pytorch", 1)),
            "spec.pytorchReplicaSpecs.Chief: a PyTorchJob has Master, Worker",
        ),
        (
            job("PyTorchJob", "pytorchReplicaSpecs", Master={"replicas": 1}),
            "spec.pytorchReplicaSpecs.Master.template.spec.containers: is missing",
        ),
        (job("JAXJob", "jaxReplicaSpecs") | {"spec": 7}, "spec: must be a mapping, not 7"),
        (pytorch() | {"metadata": {}}, "metadata.name: is missing"),
        (pytorch() | {"metadata": {"name": 70 * "a"}}, f"name '{70 * 'a'}': must be at most"),
    ],
)
def test_what_cannot_be_converted_is_refused(made, said):
    with pytest.raises(InputError) as caught:
        convert(made)
    assert str(caught.value).startswith(said)


def test_the_command_shows_a_file_with_its_remarks_and_what_else_is_in_it(tmp_path):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([claim, pytorch(runPolicy={"cleanPodPolicy": "None"})]))
    done = CliRunner().invoke(app, ["job", "convert", str(file)])
    assert done.exit_code == 0, done.output
    kinds = [each["kind"] for each in yaml.safe_load_all(done.output)]
    assert kinds == ["PersistentVolumeClaim", "TrainingRuntime", "TrainJob"]
    assert "# runPolicy.cleanPodPolicy None: pods that still run" in done.output


def test_a_file_without_a_job_is_refused(tmp_path):
    file = tmp_path / "claim.yaml"
    file.write_text("kind: PersistentVolumeClaim\n")
    done = CliRunner().invoke(app, ["job", "convert", str(file)])
    assert isinstance(done.exception, InputError)
    assert "has no PyTorchJob, " in str(done.exception)
