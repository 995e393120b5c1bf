"""Values of a job's fields: which are taken, and what is said about a wrong one."""

import json

import pytest
from shapes import SHAPES
from small_jobs import CLAIM, PYTORCH, job, refusal

LABEL_VALUE = "must be a label's value: at most 63 letters, digits, -, _ and ."
NAME = "must be at most 44 lower-case letters, digits and dashes"


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


def test_paths_are_tidied_up():
    described = job(data_dir="//data/./a//", volumes=[CLAIM | {"mount": "/a/"}])
    assert (described.data_dir, described.volumes[0].mount) == ("/data/a", "/a")
