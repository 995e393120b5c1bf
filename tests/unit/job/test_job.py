"""trireme/job/: what may be said, and what is said about a wrong one."""

import datetime
import json
import math
import re
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from shapes import SHAPES, TEXT, TRAINJOBS, descriptions

from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.job.reading import merged

PYTORCH: dict[str, Any] = {"image": "example.org/team/trainer:1.2", "entrypoint": "train.py"}
TENSORFLOW = PYTORCH | {"framework": "tensorflow"}
MPI = PYTORCH | {"framework": "mpi"}
LABEL_VALUE = "must be a label's value: at most 63 letters, digits, -, _ and ."
NAME = "must be at most 44 lower-case letters, digits and dashes"


def job(**changes):
    return TrainingJob.create(**PYTORCH | changes)


def refusal(fields):
    with pytest.raises(InputError) as caught:
        TrainingJob.create(**fields)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_status == 2
    return message


def affinity(term):
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"scheduling": {"affinity": {"podAffinity": preferred}}}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "Train", NAME),
        ("name", "-train", NAME),
        ("name", "train-", NAME),
        ("name", "1train", NAME),
        ("name", "", NAME),
        ("name", "a.b", NAME),
        ("name", "train\n", NAME),
        ("name", 45 * "a", NAME),
        (
            "framework",
            "mxnet",
            "must be 'pytorch', ",
        ),
        ("image", 7, "must be a valid string"),
        ("image", "my image", "must be a container image, as in example.org/team/train:1.2"),
        ("image", "Team/train", "must be a container image"),
        ("image", "train:", "must be a container image"),
        ("image", " train", "must be a container image"),
        ("entrypoint", "train.sh", "must be the path of a .py file inside the repository"),
        ("entrypoint", "", "must be the path of a .py file inside the repository"),
        ("entrypoint", "/etc/train.py", "must be the path of a .py file inside the repository"),
        ("entrypoint", "../train.py", "must be the path of a .py file inside the repository"),
        ("entrypoint", "a/../../train.py", "must be the path of a .py file inside"),
        ("entrypoint", "-train.py", "must be the path of a .py file inside"),
        ("entrypoint", "tr\0ain.py", "must be the path of a .py file inside"),
        ("module", "team/train", "must be the name of a Python module, as in package.train"),
        ("module", "-m", "must be the name of a Python module"),
        ("workers", -1, "must be greater than or equal to 0"),
        ("workers", 1000, "must be less than or equal to 999"),
        ("workers", 1.0, "must be a valid integer"),
        ("workers", "2", "must be a valid integer"),
        ("workers", True, "must be a valid integer"),
        ("processes_per_worker", 0, "must be greater than or equal to 1"),
        ("processes_per_worker", 1025, "must be less than or equal to 1024"),
        ("retries", -1, "must be greater than or equal to 0"),
        ("restart_policy", "always", "must be 'Never', 'OnFailure', 'Always' or 'ExitCode'"),
        ("clean_up", "Some", "must be 'Running', 'All' or 'None'"),
        ("time_limit", 0, "must be greater than or equal to 1"),
        ("time_limit", 2**31, "must be less than or equal to 2147483647"),
        ("time_to_live", -1, "must be greater than or equal to 0"),
        ("time_to_live", 2**31, "must be less than or equal to 2147483647"),
        ("run_as_user", 0, "must be greater than or equal to 1"),
        ("args", "--epochs 3", "must be a list"),
        ("cpu", "two", "must be a Kubernetes quantity of at least 1m, as in 500m or 4"),
        ("cpu", 0, "must be a Kubernetes quantity of at least 1m"),
        ("cpu", "-1", "must be a Kubernetes quantity of at least 1m"),
        ("cpu", "100u", "must be a Kubernetes quantity of at least 1m"),
        ("cpu", "4 ", "must be a Kubernetes quantity of at least 1m"),
        ("cpu", True, "must be a valid string"),
        ("memory", "16GB", "must be a Kubernetes quantity of at least 1Mi, as in 512Mi or 16Gi"),
        ("memory", 16, "must be a Kubernetes quantity of at least 1Mi"),
        ("memory", "512m", "must be a Kubernetes quantity of at least 1Mi"),
        ("memory", "8Ei", "must be a Kubernetes quantity of at least 1Mi"),
        ("memory", "1e999", "must be a Kubernetes quantity of at least 1Mi"),
        ("shared_memory", "64", "must be a Kubernetes quantity of at least 1Mi"),
        ("gpu", -1, "must be greater than or equal to 0"),
        ("gpu", "1", "must be a valid integer"),
        ("code_dir", "code", "must be an absolute path, without '..'"),
        ("data_dir", "/data/../etc", "must be an absolute path, without '..'"),
        ("service_account", "Trainer", "must be the name of a Kubernetes object"),
        ("service_account", "a..b", "must be the name of a Kubernetes object"),
        ("service_account", 254 * "a", "must be the name of a Kubernetes object"),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(field, value, said):
    message = refusal(PYTORCH | {field: value})
    assert message.startswith(f"{field} {value!r}"[:80])
    assert said in message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"args": ["--epochs", True]}, "args.1 True: must be a valid string"),
        ({"args": ["a\0b"]}, "args.0 'a\\x00b': must not hold a NUL character"),
        ({"env": {"A": "a\0b"}}, "env.A: must not hold a NUL character"),
        ({"env": {"A B": "x"}}, "env.A B 'A B': must be the name of an environment variable"),
        ({"env": {"1A": "x"}}, "env.1A '1A': must be the name of an environment variable"),
        ({"env": {"A": None}}, "env.A: must be a valid string"),
        ({"env": {"Ä": "x"}}, "env.Ä 'Ä': must be the name of an environment variable"),
        ({"labels": {"a b": "x"}}, "labels.a b 'a b': must be a key as Kubernetes takes it"),
        ({"labels": {"team": "two words"}}, f"labels.team 'two words': {LABEL_VALUE}"),
        ({"labels": {"team": 64 * "a"}}, f"labels.team '{64 * 'a'}': {LABEL_VALUE}"),
        ({"annotations": {"/a": ""}}, "annotations./a '/a': must be a key as Kubernetes takes it"),
        ({"devices": {"gpu": 1}}, "devices.gpu 'gpu': must be a device plugin's name, as in amd"),
        (
            {"devices": {"kubernetes.io/gpu": 1}},
            "devices.kubernetes.io/gpu 'kubernetes.io/gpu': must be a device plugin's name, which",
        ),
        ({"devices": {"a.b/c": -1}}, "devices.a.b/c -1: must be greater than or equal to 0"),
        ({"replicas": {"worker": {"count": 0}}}, "replicas.worker.count 0: must be greater than"),
        ({"replicas": {"worker": 2}}, "replicas.worker 2: must be an object"),
        ({"elastic": {"max": 2}}, "elastic.min: is missing"),
        ({"elastic": {"min": 3, "max": 2}}, "elastic: min 3 must not be above max 2"),
        ({"volumes": [{"claim": "a"}]}, "volumes.0.mount: is missing"),
        (
            {"volumes": [{"mount": "/a"}]},
            "volumes.0: needs exactly one of claim, nfs, secret, config_map, host_path, not none",
        ),
        (
            {"volumes": [{"mount": "/a", "claim": "a", "secret": "b"}]},
            "volumes.0: needs exactly one of claim, nfs, secret, config_map, host_path, not claim",
        ),
        (
            {"volumes": [{"mount": "/a", "nfs": "server/export"}]},
            "volumes.0: nfs 'server/export' must be server:/export/path",
        ),
        (
            {"volumes": [{"mount": "/a", "claim": "a", "sub_path": "../b"}]},
            "volumes.0: sub_path '../b' must stay inside the volume",
        ),
        (
            {"volumes": [{"mount": "/a", "claim": "a", "sub_path": "/b"}]},
            "volumes.0: sub_path '/b' must stay inside the volume",
        ),
        (
            {"scheduling": {"queue": 64 * "q"}},
            f"scheduling.queue '{64 * 'q'}': must be the name of a queue: at most 63",
        ),
        ({"scheduling": {"spot": "azure"}}, "scheduling.spot 'azure': must be 'aks', 'eks', 'gke'"),
        (
            {"scheduling": {"node_selector": {"zone": "a b"}}},
            f"scheduling.node_selector.zone 'a b': {LABEL_VALUE}",
        ),
        (
            {"scheduling": {"affinity": {"node": {}}}},
            "scheduling.affinity: node: there is no such field; there are nodeAffinity, ",
        ),
        (
            {"scheduling": {"affinity": {"nodeAffinity": 3}}},
            "scheduling.affinity: nodeAffinity 3: must be an object",
        ),
        (
            affinity({"weight": 1.5, "podAffinityTerm": {"topologyKey": "zone"}}),
            "scheduling.affinity: podAffinity.preferredDuringSchedulingIgnoredDuring"
            "Execution.0.weight 1.5: must be a whole number",
        ),
        (
            affinity({"weight": 1, "podAffinityTerm": {"topology": "zone"}}),
            "scheduling.affinity: podAffinity.preferredDuringSchedulingIgnoredDuring"
            "Execution.0.podAffinityTerm.topology: there is no such field; there are labelSel",
        ),
        (
            affinity({"weight": 1, "podAffinityTerm": {}}),
            "scheduling.affinity: podAffinity.preferredDuringSchedulingIgnoredDuring"
            "Execution.0.podAffinityTerm.topologyKey: is missing",
        ),
        ({"secret_env": {"A": "name/..key"}}, "secret_env.A: must be a Secret's name and one of"),
        ({"annotations": {"a": 300_000 * "x"}}, "annotations: 300001 bytes are more than the"),
        (
            {"scheduling": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}},
            "scheduling.tolerations.0: value goes with operator Equal only",
        ),
        (
            {"scheduling": {"tolerations": [{}]}},
            "scheduling.tolerations.0: operator Equal needs a key",
        ),
        (
            {"scheduling": {"tolerations": [{"key": "a", "tolerationSeconds": 1}]}},
            "scheduling.tolerations.0: tolerationSeconds goes with effect NoExecute only",
        ),
        ({"network": {"interface": "^docker"}}, "network.interface '^docker': must be the name of"),
        (
            {"network": {"nccl": {"OMP_NUM_THREADS": "1"}}},
            "network.nccl.OMP_NUM_THREADS 'OMP_NUM_THREADS': must be a variable of NCCL",
        ),
        ({"code": {"url": "no such place"}}, "code: url 'no such place' is neither a directory"),
        (
            {"code": {"url": "https://example.org/a", "revision": "-x"}},
            "code: revision '-x' is not a branch, a tag or a commit",
        ),
    ],
)
def test_a_wrong_value_deep_inside_is_named_by_its_place(changes, said):
    assert refusal(PYTORCH | changes).startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wrokers": 2}, "wrokers: there is no such field; did you mean workers?"),
        ({"scheduling": {"quue": "a"}}, "scheduling.quue: there is no such field; did you mean qu"),
        (
            {"volumes": [{"where": "/a"}]},
            "volumes.0.where: there is no such field; there are mount, ",
        ),
        (
            {"replicas": {"worker": {"cpus": 1}}},
            "replicas.worker.cpus: there is no such field; did you mean cpu?",
        ),
        ({"elastic": {"min": 1, "max": 2, "x": 1}}, "elastic.x: there is no such field; there are"),
    ],
)
def test_an_unknown_field_is_refused_and_the_one_meant_is_named(changes, said):
    assert refusal(PYTORCH | changes).startswith(said)


def places(fields, *path):
    """Returns where in a description there is a mapping of fields, not of names that are free."""
    free = {"env", "secret_env", "labels", "annotations", "devices", "node_selector", "nccl"}
    found = [path] if not path or path[-1] not in free | {"replicas"} else []
    for name, part in fields.items():
        if isinstance(part, dict) and name not in free | {"affinity"}:
            found += places(part, *path, name)
        if isinstance(part, list) and part and isinstance(part[0], dict):
            found += places(part[0], *path, name, 0)
    return found


@pytest.mark.parametrize("path", places(SHAPES["pytorch-everything"]))
def test_an_unknown_field_is_refused_at_any_depth(path):
    fields = json.loads(json.dumps(SHAPES["pytorch-everything"]))
    part = fields
    for step in path:
        part = part[step]
    part["surprise"] = 1
    field = ".".join(map(str, [*path, "surprise"]))
    assert refusal(fields).startswith(f"{field}: there is no such field; ")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "needs an entrypoint, a module or a command"),
        (PYTORCH | {"module": "a", "command": ["b"]}, "give only one of entrypoint and module and"),
        (
            PYTORCH | {"replicas": {"ps": {}}},
            "replicas.ps: a pytorch job has the roles master, worker",
        ),
        (
            PYTORCH | {"replicas": {"master": {"count": 2}}},
            "replicas.master.count 2: there is one master",
        ),
        (
            PYTORCH | {"workers": 2, "replicas": {"worker": {"count": 1}}},
            "workers 2 and replicas.worker.count 1: give one of them",
        ),
        (
            TENSORFLOW | {"workers": 0, "replicas": {"ps": {}}},
            "replicas.ps: parameter servers need at least one worker",
        ),
        (
            TENSORFLOW | {"workers": 0, "replicas": {"evaluator": {}}},
            "workers 0: the job has no replica that trains",
        ),
        (
            TENSORFLOW | {"replicas": {"chief": {"count": 2}}},
            "replicas.chief.count 2: there is one chief",
        ),
        (TENSORFLOW | {"workers": 0}, "workers 0: the job has no replica that trains"),
        (MPI | {"workers": 0}, "workers 0: an mpi job needs at least one worker"),
        (
            MPI | {"replicas": {"worker": {"args": ["x"]}}},
            "replicas.worker.args: a worker of an mpi job waits for mpirun; give the launcher",
        ),
        (
            TENSORFLOW | {"processes_per_worker": 2},
            "processes_per_worker 2: a replica of a tensorflow job is one process",
        ),
        (
            {"entrypoint": "train.py", "framework": "jax", "gpu": 1},
            "gpu 1: there is no jax image for GPUs; give one",
        ),
        (
            TENSORFLOW | {"elastic": {"min": 1, "max": 2}},
            "elastic: only pytorch jobs can be elastic, this one is tensorflow",
        ),
        (
            PYTORCH | {"elastic": {"min": 1, "max": 2}, "replicas": {"master": {}}},
            "elastic: a master would fix the world size; give workers only",
        ),
        (
            PYTORCH | {"elastic": {"min": 2, "max": 3}, "workers": 1},
            "workers 1: must be from 2 to 3, as elastic says",
        ),
        (
            PYTORCH | {"elastic": {"min": 2, "max": 3}, "workers": 4},
            "workers 4: must be from 2 to 3, as elastic says",
        ),
        (
            PYTORCH | {"retries": 1, "restart_policy": "Never"},
            "retries 1: nothing is restarted with restart_policy Never; give OnFailure or ExitCode",
        ),
        (
            PYTORCH | {"restart_policy": "Never", "scheduling": {"spot": "gke"}},
            "restart_policy Never: a job on spot nodes would end with the first node",
        ),
        (
            PYTORCH | {"restart_policy": "Always"},
            "restart_policy Always: the job would never end, because its master is started again",
        ),
        (
            MPI | {"restart_policy": "ExitCode"},
            "restart_policy ExitCode: mpi jobs take Never or OnFailure",
        ),
        (
            PYTORCH | {"success_policy": "AllWorkers"},
            "success_policy AllWorkers: only tensorflow jobs have one",
        ),
        (
            TENSORFLOW | {"success_policy": "AllWorkers", "replicas": {"chief": {}}},
            "success_policy AllWorkers: a job with a chief succeeds with that alone",
        ),
        (MPI | {"run_as_user": 1000}, "run_as_user 1000: ssh between the hosts of an mpi job"),
        (
            PYTORCH | {"gpu": 1, "devices": {"nvidia.com/gpu": 2}},
            "devices.nvidia.com/gpu of the master: give gpu or this, not both",
        ),
        (
            PYTORCH | {"env": {"A": "1"}, "secret_env": {"A": "b/c"}},
            "A is in env and in secret_env: give it in one of them",
        ),
        (PYTORCH | {"env": {"DATA_DIR": "/d"}}, "env.DATA_DIR: give data_dir instead"),
        (PYTORCH | {"env": {"RANK": "0"}}, "env.RANK: is set for each replica of a pytorch job"),
        (
            PYTORCH | {"env": {"PET_NNODES": "1:2"}},
            "env.PET_NNODES: is set for each replica of a pytorch job",
        ),
        (
            TENSORFLOW | {"secret_env": {"TF_CONFIG": "a/b"}},
            "secret_env.TF_CONFIG: is set for each replica of a tensorflow job",
        ),
        (
            MPI | {"env": {"OMPI_MCA_plm_rsh_args": "-v"}},
            "env.OMPI_MCA_plm_rsh_args: is set for each replica of a mpi job",
        ),
        (
            PYTORCH | {"labels": {"app.kubernetes.io/managed-by": "me"}},
            "labels.app.kubernetes.io/managed-by: is reserved for Trireme",
        ),
    ],
)
def test_fields_that_do_not_go_together_are_refused(fields, said):
    assert refusal(fields).startswith(said)


CLAIM = {"claim": "workspace"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            PYTORCH | {"volumes": [CLAIM | {"mount": "/a"}, CLAIM | {"mount": "/a/"}]},
            "volumes.1.mount /a: is mounted twice, by volumes.0.mount as well",
        ),
        (
            PYTORCH | {"volumes": [CLAIM | {"mount": "//dev/./shm"}]},
            "volumes.0.mount /dev/shm: is mounted twice, by shared_memory as well",
        ),
        (
            PYTORCH | {"volumes": [CLAIM | {"mount": "/"}]},
            "volumes.0.mount '/': must not be / or hold a colon",
        ),
        (
            PYTORCH | {"volumes": [CLAIM | {"mount": "/a:b"}]},
            "volumes.0.mount '/a:b': must not be / or hold a colon",
        ),
        (
            PYTORCH
            | {
                "code": {"url": "https://example.org/a"},
                "volumes": [CLAIM | {"mount": "/root/code"}],
            },
            "volumes.0.mount /root/code: is mounted twice, by code_dir as well",
        ),
        (
            PYTORCH
            | {"code": {"url": "https://example.org/a"}, "data_dir": "/root/code/data"}
            | {"dataset": "pvc://data"},
            "data_dir /root/code/data: is inside /root/code of code_dir, which the repository is",
        ),
        (
            PYTORCH | {"dataset": "pvc://data", "model_dir": "/workspace/data/model"},
            "model_dir /workspace/data/model: is inside /workspace/data of data_dir, which is read",
        ),
        (
            PYTORCH | {"volumes": [{"mount": "/workspace", "secret": "keys"}]},
            "checkpoint_dir /workspace/checkpoints: is inside /workspace of volumes.0.mount, which",
        ),
        (
            PYTORCH
            | {"volumes": [CLAIM | {"mount": "/a/b"}, CLAIM | {"mount": "/a", "read_only": True}]},
            "volumes.0.mount /a/b: is inside /a of volumes.1.mount, which is read-only",
        ),
        (
            MPI | {"volumes": [{"mount": "/root/.ssh", "secret": "keys"}]},
            "volumes.0.mount /root/.ssh: is mounted twice, by the operator's mount as well",
        ),
        (
            MPI | {"volumes": [{"mount": "/etc", "config_map": "a"}]},
            "the operator's mount /etc/mpi: is inside /etc of volumes.0.mount, which is read-only",
        ),
    ],
)
def test_mounts_that_are_in_each_other_s_way_are_refused(fields, said):
    assert refusal(fields).startswith(said)


def test_mounts_that_are_not_in_each_other_s_way():
    volumes = [CLAIM | {"mount": "/workspace"}, CLAIM | {"mount": "/workspace/data"}]
    volumes.append({"mount": "/workspacex", "secret": "keys"})
    assert len(job(volumes=volumes).volumes) == 3
    assert TrainingJob.create(**PYTORCH, volumes=[{"mount": "/root/.ssh", "secret": "keys"}])


@pytest.mark.parametrize(
    "changes",
    [
        {"secret_env": {"TOKEN": "hunter2"}},
        {"secret_env": {"TOKEN": "hunter2/"}},
        {"env": {"TOKEN": "hunter2\0"}},
        {"tracking": {"uri": "https://me:hunter2@example.org"}},
        {"tracking": {"uri": "https://me:hunter2@example.org", "x": "hunter2"}},
        {"code": {"url": "https://me:hunter2@example.org/code.git"}},
        {"code": {"url": "https://hunter2@example.org/code.git"}},
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(changes):
    assert "hunter2" not in refusal(PYTORCH | changes)


def test_a_long_value_is_not_shown_whole():
    assert len(refusal(PYTORCH | {"name": 7, "image": 10000 * "A"})) < 300


@pytest.mark.parametrize("name", ["a", "train", "a-b-2", 44 * "a"])
def test_a_name_from_which_pod_names_can_be_made_is_accepted(name):
    assert job(name=name).name == name


@pytest.mark.parametrize(
    "image",
    ["a", "a:1", "a/b/c", "localhost:5000/a:v1.2", "r.example.org/a__b/c-d@sha256:" + 32 * "0f"],
)
def test_references_to_images_are_accepted(image):
    assert job(image=image).roles["master"].image == image


@pytest.mark.parametrize("amount", ["4", "0.5", ".5", "1.", "500m", "2k", "1e3", "1E", 4, 0.5])
def test_quantities_are_accepted(amount):
    assert job(cpu=amount).cpu == str(amount)


@pytest.mark.parametrize("amount", ["1Mi", "16Gi", "1e9", "1048576", "7Ei", "2G"])
def test_amounts_of_memory_are_accepted(amount):
    assert job(memory=amount).memory == amount


@pytest.mark.parametrize(
    ("fields", "roles", "world_size"),
    [
        (PYTORCH, {"master": 1}, 1),
        (PYTORCH | {"workers": 2, "processes_per_worker": 2}, {"master": 1, "worker": 2}, 6),
        (PYTORCH | {"workers": 999}, {"master": 1, "worker": 999}, 1000),
        (PYTORCH | {"elastic": {"min": 1, "max": 3}}, {"worker": 3}, 3),
        (PYTORCH | {"elastic": {"min": 1, "max": 3}, "workers": 2}, {"worker": 2}, 2),
        (PYTORCH | {"framework": "custom", "workers": 1}, {"master": 1, "worker": 1}, 2),
        (TENSORFLOW, {"worker": 1}, 1),
        (TENSORFLOW | {"replicas": {"chief": {}}}, {"chief": 1}, 1),
        (
            TENSORFLOW | {"workers": 2, "replicas": {"ps": {}, "chief": {}, "evaluator": {}}},
            {"chief": 1, "ps": 1, "worker": 2, "evaluator": 1},
            3,
        ),
        (MPI, {"launcher": 1, "worker": 1}, 1),
        (MPI | {"workers": 2, "processes_per_worker": 4}, {"launcher": 1, "worker": 2}, 8),
    ],
)
def test_workers_are_workers_and_every_process_that_trains_counts(fields, roles, world_size):
    described = TrainingJob.create(**fields)
    assert {role: replica.count for role, replica in described.roles.items()} == roles
    assert list(described.roles) == list(roles)
    assert described.world_size == world_size


def test_a_role_has_what_it_says_and_otherwise_what_the_job_says():
    roles = TrainingJob.create(**SHAPES["tensorflow-ps"]).roles
    assert (roles["chief"].cpu, roles["chief"].memory, roles["chief"].gpu) == ("4", "8Gi", 1)
    assert (roles["ps"].cpu, roles["ps"].memory, roles["ps"].gpu) == (None, "32Gi", None)
    assert (roles["evaluator"].command, roles["evaluator"].gpu) == (["python3", "evaluate.py"], 0)


@pytest.mark.parametrize(
    ("changes", "policy", "limit"),
    [
        ({}, "Never", 0),
        ({"retries": 3}, "OnFailure", 3),
        ({"restart_policy": "OnFailure"}, "OnFailure", None),
        ({"restart_policy": "ExitCode", "retries": 0}, "ExitCode", 0),
        ({"elastic": {"min": 1, "max": 2, "max_restarts": 5}}, "OnFailure", 10),
        ({"scheduling": {"spot": "gke"}}, "ExitCode", None),
        ({"framework": "mpi", "scheduling": {"spot": "gke"}}, "OnFailure", None),
    ],
)
def test_which_replicas_are_started_again_and_how_often(changes, policy, limit):
    described = job(**changes)
    assert {replica.restart_policy for replica in described.roles.values()} == {policy}
    assert described.restart_limit == limit


def test_paths_are_tidied_up():
    described = job(data_dir="//data/./a//", volumes=[CLAIM | {"mount": "/a/"}])
    assert (described.data_dir, described.volumes[0].mount) == ("/data/a", "/a")


@pytest.mark.parametrize("name", SHAPES | TRAINJOBS)
def test_a_job_is_made_again_from_its_fields(name):
    described = TrainingJob.create(**(SHAPES | TRAINJOBS)[name])
    assert TrainingJob.create(**described.model_dump(exclude_unset=True)) == described
    assert TrainingJob.create(**described.model_dump()) == described
    assert TrainingJob.from_yaml(yaml.safe_dump(described.model_dump()), {}) == described


def test_yaml_needs_three_lines_for_a_job():
    described = TrainingJob.from_yaml("image: team/train:1\nentrypoint: train.py\nworkers: 2", {})
    assert described == TrainingJob.create(image="team/train:1", entrypoint="train.py", workers=2)


def test_text_in_yaml_stays_as_it_is_written():
    text = """
        entrypoint: train.py
        cpu: 1.50
        retries: 3
        suspend: true
        args: [1.10, 012, 12:30, 1_000, 0x1f, 2026-01-01, no, On, .nan, 1e-3, -7, "true", '']
        secret_env: ~
    """
    with pytest.raises(InputError, match=r"^secret_env: must be an object$"):
        TrainingJob.from_yaml(text, {})
    described = TrainingJob.from_yaml(text.replace("secret_env: ~", ""), {})
    words = "1.10 012 12:30 1_000 0x1f 2026-01-01 no On .nan 1e-3 -7 true"
    assert described.args == [*words.split(), ""]
    assert (described.cpu, described.retries, described.suspend) == ("1.50", 3, True)


def test_anchors_and_merged_mappings_in_yaml():
    described = TrainingJob.from_yaml(
        """
        framework: tensorflow
        entrypoint: train.py
        replicas:
          ps: &small {cpu: 1, memory: 2Gi}
          worker: {<<: *small, cpu: 4, count: 2}
        """,
        {},
    )
    worker = described.roles["worker"]
    assert (worker.cpu, worker.memory, worker.count) == ("4", "2Gi", 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a, b]", "the job must map the names of fields to values"),
        ("train.py", "the job must map the names of fields to values"),
        ("1: 2", "the job must map the names of fields to values"),
        ("a: [", "the job is not YAML: "),
        ("a: \x07", "the job is not YAML: "),
        ("? [a, b]\n: 1", "the job is not YAML: "),
        ("workers: " + 5000 * "9", "the job is not YAML that can be read: "),
        ("workers: !!int ''", "the job is not YAML: "),
        ("suspend: !!bool maybe", "the job is not YAML: "),
        ("image: !!python/name:os.system", "the job is not YAML: "),
        ("image: !!binary aGFsbG8=", "the job is not YAML: "),
        ("image: !!timestamp never", "the job is not YAML: "),
        ("args: " + 1000 * "[", "the job is not YAML that can be read: it is nested too deep"),
        ("image: a\nworkers: 1\nworkers: 2", "the job is not YAML: 'workers' is given twice"),
        (
            "args: &a [*a]",
            "the job is not YAML that can be read: it is nested too deep, or an alias",
        ),
        ("", "needs an entrypoint, a module or a command"),
    ],
)
def test_yaml_that_is_no_job_is_refused(text, said):
    with pytest.raises(InputError) as caught:
        TrainingJob.from_yaml(text, {})
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | TEXT | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def is_refused_or_taken(make):
    try:
        make()
    except InputError as error:
        assert "\n" not in str(error)


@given(st.text())
@example("a: &a [*a, *a]\n<<: *a")
@example("<<: 1")
@example("a: !!map [1]")
@example("!!str [a]: 1")
@example("%YAML 9.9\n--- {}")
@example("a: 1\n---\nb: 2")
def test_any_text_is_a_job_or_refused(text):
    is_refused_or_taken(lambda: TrainingJob.from_yaml(text, {}))


@given(st.dictionaries(st.sampled_from(list(TrainingJob.model_fields)), VALUES, max_size=3))
@example({"cpu": math.nan})
@example({"args": [datetime.date(2026, 1, 1)]})
@example({"name": "\ud800"})
@example({"dataset": {"\n": 1}})
@example({"workers": 10**5000})
def test_any_values_are_a_job_or_refused(fields):
    is_refused_or_taken(lambda: TrainingJob.create(**PYTORCH | fields))


@given(descriptions("training-operator"))
def test_any_job_is_made_again_from_its_fields(fields):
    try:
        described = TrainingJob.create(**fields)
    except InputError:
        return
    assert TrainingJob.create(**described.model_dump()) == described


def test_further_fields_win_and_add_to_mappings():
    fields = {"workers": 1, "env": {"A": "1", "B": "2"}, "args": ["a"]}
    more = {"workers": 2, "env": {"B": "3"}, "args": ["b"], "gpu": 1}
    both = {"workers": 2, "env": {"A": "1", "B": "3"}, "args": ["b"], "gpu": 1}
    assert merged(fields, more) == both
    assert fields["env"] == {"A": "1", "B": "2"}


@pytest.fixture(scope="module")
def schema():
    return TrainingJob.model_json_schema()


def test_the_schema_describes_every_field_in_one_line(schema):
    for name, part in ({"TrainingJob": schema} | schema["$defs"]).items():
        assert part["additionalProperties"] is False
        assert re.fullmatch(r"[A-Z].*\.", part["description"])
        for field, described in part["properties"].items():
            sentence = described.get("description", "")
            assert re.fullmatch(r"[A-Z`/].*\.", sentence), f"{name}.{field}: {sentence!r}"


@pytest.mark.parametrize("name", SHAPES | TRAINJOBS)
def test_the_schema_takes_what_the_description_takes(name, schema):
    jsonschema.validate((SHAPES | TRAINJOBS)[name], schema)


@pytest.mark.parametrize("fields", [{"cpu": 4}, {"args": [1, "a"]}, {"image": ""}])
def test_the_schema_takes_a_number_where_text_is_meant(fields, schema):
    jsonschema.validate(PYTORCH | fields, schema)
    assert job(**fields)


@pytest.mark.parametrize("fields", [{"wrokers": 1}, {"workers": "2"}, {"elastic": {"min": 1}}])
def test_the_schema_refuses_what_the_description_refuses(fields, schema):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(PYTORCH | fields, schema)


def test_what_is_left_on_no_volume_is_pointed_out():
    assert len(job().notes) == 2
    assert job(volumes=[CLAIM | {"mount": "/workspace"}]).notes == []
    (note,) = job(volumes=[CLAIM | {"mount": "/workspace/model"}]).notes
    assert note.startswith("CHECKPOINT_DIR /workspace/checkpoints is on no volume")
