"""trireme/manifests: what an operator is given for a training job."""

import copy
import json
import os
import re
import subprocess
import sys
from string import Template

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from operators import refusals
from shapes import IMAGE, SHAPES, TEXT, TRAINJOBS, descriptions
from typed import through

from trireme import images
from trireme.data.description import Dataset
from trireme.errors import InputError
from trireme.frameworks.pytorch import _TOLD_TO_END
from trireme.job.job import TrainingJob
from trireme.kubernetes.amounts import quantity
from trireme.manifests import render, to_yaml
from trireme.manifests.roles import roles
from trireme.text.variables import expand

OPERATOR = dict.fromkeys(SHAPES, "training-operator") | dict.fromkeys(TRAINJOBS, "trainer")
DOLLARS = st.text(st.sampled_from("$(){}AZ_.-1 "))
PATCHED = {"image": IMAGE, "entrypoint": "train.py", "runtime": "torch-distributed"}
PYTORCH = {"image": IMAGE, "entrypoint": "train.py"}
COPIES = {f"{images.PYTORCH}-cuda": "example.org/cuda"}
MPI = PYTORCH | {"framework": "mpi"}


def rendered(operator="training-operator", **fields):
    return render(TrainingJob.create(**fields), operator)


def shape(name):
    return rendered(OPERATOR[name], **(SHAPES | TRAINJOBS)[name])


def pods(manifest):
    """Returns the pods' specs by role."""
    spec = manifest["spec"]
    roles = next(value for name, value in spec.items() if name.endswith("ReplicaSpecs"))
    return {role: replicas["template"]["spec"] for role, replicas in roles.items()}


def main(manifest, role):
    return pods(manifest)[role]["containers"][0]


def variables(container):
    return {entry["name"]: entry.get("value") for entry in container["env"]}


@pytest.mark.parametrize("name", OPERATOR)
def test_the_manifest_is_the_golden_one(name, golden):
    golden(f"job-{name}.yaml", to_yaml(shape(name)))


def test_a_manifest_reads_back_as_it_was():
    manifest = shape("pytorch-everything")
    text = to_yaml(manifest)
    assert yaml.safe_load(text) == manifest
    job = shape("trainjob-everything")
    runtime = job.pop("runtime")
    assert list(yaml.safe_load_all(to_yaml(job | {"runtime": runtime}))) == [runtime, job]
    assert not re.search(r": [&*]", text)  # YAML's anchors


@pytest.mark.parametrize("name", OPERATOR)
def test_the_operator_takes_every_shape(name):
    assert refusals(shape(name)) == []


def as_typed(manifest):
    """Returns a manifest after its way through the typed models."""
    spec = manifest["spec"]
    if manifest["apiVersion"] == "kubeflow.org/v1":
        return through(f"KubeflowOrgV1{manifest['kind']}", manifest)
    typed = manifest | {"metadata": through("V1ObjectMeta", manifest["metadata"])}
    if manifest["kind"] == "MPIJob":  # the models know its version 1 only, which has these too
        replicas = through("dict(str, KubeflowOrgV1ReplicaSpec)", spec["mpiReplicaSpecs"])
        policy = through("KubeflowOrgV1RunPolicy", spec["runPolicy"])
        return typed | {"spec": spec | {"mpiReplicaSpecs": replicas, "runPolicy": policy}}
    if "runtime" in manifest:
        runtime = copy.deepcopy(manifest["runtime"])
        runtime["metadata"] = through("V1ObjectMeta", runtime["metadata"])
        for each in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
            each["template"] = through("V1JobTemplateSpec", each["template"])
        return typed | {"runtime": runtime}
    trainer = dict(spec["trainer"])
    trainer["env"] = through("list[V1EnvVar]", trainer["env"])
    trainer["resourcesPerNode"] = through("V1ResourceRequirements", trainer["resourcesPerNode"])
    for job in spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"][
        "replicatedJobs"
    ]:
        through("V1PodTemplateSpec", job["template"]["spec"]["template"])
    return typed | {"spec": spec | {"trainer": trainer}}


def with_texts(manifest):
    """Returns a manifest whose amounts are all texts, as the models have them."""
    if isinstance(manifest, list):
        return [with_texts(part) for part in manifest]
    if not isinstance(manifest, dict):
        return manifest
    return {
        name: {key: str(amount) for key, amount in part.items()}
        if name in ("limits", "requests")
        else with_texts(part)
        for name, part in manifest.items()
    }


@pytest.mark.parametrize("name", OPERATOR)
def test_no_field_is_lost_on_the_way_through_the_typed_models(name):
    manifest = with_texts(shape(name))
    assert as_typed(manifest) == manifest


@pytest.mark.parametrize("operator", ["training-operator", "trainer"])
@settings(max_examples=200)
@given(data=st.data())
def test_whatever_is_not_refused_is_right(operator, data):
    try:
        manifest = rendered(operator, **data.draw(descriptions(operator)))
    except InputError as error:
        assert "\n" not in str(error)
        assume(False)
    assert refusals(manifest) == []
    assert as_typed(with_texts(manifest)) == with_texts(manifest)


UNSEEN = dict.fromkeys(("X", "A", "RANK"), "value")
"""Variables that a manifest does not set itself."""


def program(manifest, role, rank_template):
    """Returns what a replica's program gets, after Kubernetes' and torchrun's expansion."""
    container = main(manifest, role)
    visible = variables(container) | UNSEEN
    words = [expand(word, visible) for word in container["command"] + container["args"]]
    return (
        [Template(w).safe_substitute(local_rank="wrong") for w in words] if rank_template else words
    )


@pytest.mark.parametrize(
    ("fields", "role", "before"),
    [
        (PYTORCH, "Master", ["python3"]),
        (PYTORCH | {"processes_per_worker": 2}, "Master", ["torchrun"]),
        (PYTORCH | {"elastic": {"min": 1, "max": 2}}, "Worker", ["torchrun"]),
        (PYTORCH | {"framework": "tensorflow"}, "Worker", ["python3"]),
        (MPI, "Launcher", None),
    ],
)
@given(text=TEXT | DOLLARS)
@example(text="$(DATA_DIR)/train.npz")
@example(text="$$(DATA_DIR)")
@example(text="$($$)")
@example(text="${local_rank}")
@example(text="$local_rank")
@example(text="$$$(X")
@example(text="5$")
def test_variables_in_what_is_given_are_expanded_as_kubernetes_does_it(fields, role, before, text):
    entrypoint = "of $(A) $$A ${local_rank}.py"
    job = fields | {"entrypoint": entrypoint, "args": [text], "env": {"GIVEN": text}}
    manifest = rendered(**job)
    words = program(manifest, role, before == ["torchrun"])
    assert words[-2:] == [entrypoint, expand(text, variables(main(manifest, role)) | UNSEEN)]
    assert before is None or [word for word in words[:-2] if word != "sh"][-len(before) :] == before
    assert variables(main(manifest, role))["GIVEN"] == text


@given(text=TEXT | DOLLARS)
def test_those_in_the_arguments_of_a_trainjob_are_too(text):
    path = "/code $(A) $$"
    several = PATCHED | {"workers": 1}
    trainer = rendered("trainer", **several, args=[text], code_dir=path)["spec"]["trainer"]
    words = [expand(word, UNSEEN) for word in trainer["command"]]
    assert words[:4] == ["sh", "-c", 'cd "$0" && exec "$@"', path]
    assert words[4:] == ["sh", "-c", _TOLD_TO_END, "torchrun", "train.py"]
    (word,) = [expand(word, UNSEEN) for word in trainer["args"]]
    assert Template(word).safe_substitute(local_rank="wrong") == expand(text, UNSEEN)


@pytest.mark.parametrize(("ends", "told", "status"), [(3, False, 3), (1, True, 143), (0, True, 0)])
def test_torchrun_that_is_told_to_end_ends_as_programs_do(ends, told, status):
    program = f"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.1), sys.exit({ends})))
print("ready", flush=True)
time.sleep(60 if {told} else 0)
sys.exit({ends})
"""
    command = ["sh", "-c", _TOLD_TO_END, sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        if told:
            process.terminate()
        assert process.wait(30) == status


def test_a_command_of_the_user_s_own_may_refer_to_variables():
    container = main(shape("custom"), "Worker")
    assert container["command"] == ["/bin/train", "--peers=$(WORLD_SIZE)", "$(RANK)"]


@pytest.mark.parametrize("name", SHAPES)
def test_the_defaults_are_safe(name):
    fields, manifest = SHAPES[name], shape(name)
    assert manifest["spec"]["runPolicy"]["cleanPodPolicy"] == fields.get("clean_up", "Running")
    roles = next(v for k, v in manifest["spec"].items() if k.endswith("ReplicaSpecs")).values()
    for role in roles:
        annotations = role["template"]["metadata"]["annotations"]
        assert annotations["sidecar.istio.io/inject"] == "false"
    for spec in pods(manifest).values():
        assert spec["automountServiceAccountToken"] is ("service_account" in fields)
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"] + spec.get("initContainers", []):
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            resources = container["resources"]
            for name in ("cpu", "memory"):
                asked, most = (quantity(resources[which][name]) for which in ("requests", "limits"))
                assert 0 < asked <= most
            assert resources["requests"].keys() == resources["limits"].keys()


def test_the_variables_of_a_replica():
    found = variables(main(rendered(**PYTORCH), "Master"))
    assert found == {
        "CODE_DIR": "/root/code",
        "DATA_DIR": "/workspace/data",
        "CHECKPOINT_DIR": "/workspace/checkpoints",
        "MODEL_DIR": "/workspace/model",
        "PL_TRAINER_DEFAULT_ROOT_DIR": "/workspace/checkpoints",
        "TENSORBOARD_LOGGING_DIR": "/workspace/checkpoints/tensorboard",
        "PYTHONPATH": "/root/code",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "OMP_NUM_THREADS": None,
        "OMP_WAIT_POLICY": "PASSIVE",
    }


SHOWN = [sys.executable, "-c", "import os; print(*sorted(os.environ))"]
SHOW_ENV = "import os, json; print(json.dumps(dict(os.environ)))"


@pytest.mark.parametrize(
    ("framework", "operator", "more"),
    [
        ("pytorch", "training-operator", {}),
        ("pytorch", "trainer", {}),
        ("pytorch", "trainer", {"runtime": "torch-distributed"}),
        ("pytorch", "training-operator", {"packages": "/packages"}),
        ("custom", "training-operator", {}),
        ("xgboost", "training-operator", {}),
        ("xgboost", "trainer", {}),
    ],
)
def test_one_process_sees_nothing_that_says_it_is_one_of_several(framework, operator, more):
    job = {"image": IMAGE, "framework": framework, "command": SHOWN, "args": ["$(RANK)"]}
    manifest = rendered(operator, **job, **more)
    if "runtime" in more:
        container, declared = manifest["spec"]["trainer"], {}
        container["command"][container["command"].index("/root/code")] = "/"
    else:
        if operator == "trainer":
            pod = of_runtime(manifest)["master"]["template"]["spec"]["template"]["spec"]
            declared = on_jobset(manifest, "master", 0)
        else:
            pod, declared = pods(manifest)["Master"], {}
        container = pod["containers"][0]
    # Whatever either operator adds to any pod.
    added = ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT", "PET_MASTER_ADDR")
    added += ("PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
    seen = {name: os.environ[name] for name in ("PATH",)} | declared
    seen |= dict.fromkeys(added if framework != "xgboost" else added[:4], "1")
    words = [expand(word, seen) for word in [*container["command"], *container["args"]]]
    assert words[-1] == "1"  # what its arguments refer to is there
    done = subprocess.run(words, env=seen, capture_output=True, text=True, check=True)
    pattern = r"(DMLC|PET|MASTER)_\w+|((LOCAL|GROUP|NODE)_)?(RANK|WORLD_SIZE)"
    assert [name for name in done.stdout.split() if re.fullmatch(pattern, name)] == []


@pytest.mark.parametrize(
    ("framework", "operator"),
    [("pytorch", "training-operator"), ("pytorch", "trainer"), ("xgboost", "training-operator")],
)
def test_a_variable_may_refer_to_what_the_operator_adds(framework, operator):
    env = {
        "OUT": "/out/$(RANK)-$(WORLD_SIZE)",
        "FILE": "$(OUT)/$$(X)-$(DATA_DIR)",
        "LITERAL": "$$(RANK)",
    }
    job = {"image": IMAGE, "framework": framework, "workers": 1, "env": env}
    manifest = rendered(operator, **job, command=[*SHOWN[:2], SHOW_ENV])
    if operator == "trainer":
        jobs = of_runtime(manifest)["worker"]
        container = jobs["template"]["spec"]["template"]["spec"]["containers"][0]
        seen = on_jobset(manifest, "worker", 0)
    else:
        container = main(manifest, "Worker")
        seen = {}
        for entry in container["env"]:
            seen[entry["name"]] = expand(entry.get("value") or "1", seen)
    seen |= {"PATH": os.environ["PATH"], "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}
    seen |= {"MASTER_PORT": "1"}
    words = [expand(word, seen) for word in container["command"]]
    found = json.loads(subprocess.check_output(words, env=seen, text=True))
    assert found["OUT"] == "/out/1-2"
    assert found["FILE"] == "/out/1-2/$(X)-/workspace/data"
    assert found["LITERAL"] == "$(RANK)"


def test_several_processes_of_xgboost_have_the_variables_of_trainer_too():
    job = {"image": IMAGE, "framework": "xgboost", "command": SHOWN, "workers": 1}
    container = main(rendered(**job), "Worker")
    seen = {"PATH": os.environ["PATH"], "RANK": "1", "WORLD_SIZE": "2"}
    seen |= {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "9999"}
    show = [*container["command"][:-1], SHOW_ENV]
    found = json.loads(subprocess.check_output(show, env=seen, text=True))
    assert {name: value for name, value in found.items() if name.startswith("DMLC_")} == {
        "DMLC_TRACKER_URI": "job-master-0",
        "DMLC_TRACKER_PORT": "9999",
        "DMLC_TASK_ID": "1",
        "DMLC_NUM_WORKER": "2",
    }


def test_what_is_given_wins_over_what_is_made_and_is_there_once():
    tracking = {"uri": "https://a.example.org"}
    secret = {"MLFLOW_TRACKING_URI": "mlflow/uri"}
    manifest = rendered(
        **PYTORCH, env={"PYTHONPATH": "/mine"}, secret_env=secret, tracking=tracking
    )
    env = main(manifest, "Master")["env"]
    assert [e.get("value") for e in env if e["name"] == "PYTHONPATH"] == ["/mine"]
    assert [e.get("value") for e in env if e["name"] == "MLFLOW_TRACKING_URI"] == [None]
    env = main(rendered(**MPI, env={"OMPI_ALLOW_RUN_AS_ROOT": "0"}), "Launcher")["env"]
    assert [e["value"] for e in env if e["name"] == "OMPI_ALLOW_RUN_AS_ROOT"] == ["0"]


def test_every_rank_of_mpirun_gets_the_variables():
    command = main(rendered(**MPI, env={"PATH": "/bin", "A": "1"}), "Launcher")["command"]
    handed_on = [command[at + 1] for at, word in enumerate(command) if word == "-x"]
    assert handed_on[:2] == ["PATH", "CODE_DIR"]
    assert "A" in handed_on
    assert len(set(handed_on)) == len(handed_on)


@pytest.mark.parametrize(
    ("framework", "retries", "policy", "limit"),
    [
        (PYTORCH, None, None, 0),
        (PYTORCH, 3, None, 4),
        (PYTORCH, 3, "ExitCode", 3),
        (PYTORCH, 0, "OnFailure", 0),
        (MPI, 3, None, 4),
        (MPI, 0, "OnFailure", 0),
    ],
)
def test_the_operator_is_told_a_limit_that_allows_so_many_retries(
    framework, retries, policy, limit
):
    manifest = rendered(**framework, retries=retries, restart_policy=policy)
    assert manifest["spec"]["runPolicy"]["backoffLimit"] == limit


def test_a_role_that_is_started_again_is_not_limited_by_the_others_policy():
    manifest = rendered(**PYTORCH, replicas={"worker": {"restart_policy": "OnFailure"}})
    assert "backoffLimit" not in manifest["spec"]["runPolicy"]


def test_a_variable_that_an_elastic_job_sets_itself_is_there_once():
    name = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    elastic = {"elastic": {"min": 1, "max": 2}, "env": {name: "0"}}
    variables = main(rendered(**PYTORCH, **elastic), "Worker")["env"]
    assert [entry for entry in variables if entry["name"] == name] == [{"name": name, "value": "0"}]


def test_the_topology_of_kueue_is_asked_for():
    topology = {"queue": "q", "topology": {"required": "cloud.example.org/rack"}}
    made = rendered("trainer", **PYTORCH, scheduling=topology)["runtime"]["spec"]["template"][
        "spec"
    ]
    (pods,) = [each["template"]["spec"]["template"] for each in made["replicatedJobs"]]
    annotation = "kueue.x-k8s.io/podset-required-topology"
    assert pods["metadata"]["annotations"][annotation] == "cloud.example.org/rack"


@pytest.mark.parametrize(
    ("scheduling", "said"),
    [
        ({"topology": {"required": "a"}}, "scheduling.topology: Kueue places the replicas by it"),
        ({"queue": "q", "gang": True, "topology": {"required": "a"}}, "scheduling.topology: Kue"),
        ({"queue": "q", "topology": {}}, "scheduling.topology: give required or preferred"),
        (
            {"queue": "q", "topology": {"required": "a", "preferred": "b"}},
            "scheduling.topology: give required or preferred",
        ),
    ],
)
def test_a_topology_that_nobody_would_heed_is_refused(scheduling, said):
    with pytest.raises(InputError) as caught:
        rendered(**PYTORCH, scheduling=scheduling)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("fields", "together"),
    [
        (PYTORCH | {"workers": 3}, 4),
        (PYTORCH | {"elastic": {"min": 2, "max": 5}}, 2),
        (MPI | {"workers": 3}, 3),  # their launcher is made when they are there
        (SHAPES["tensorflow-ps"], 8),
    ],
)
def test_a_gang_starts_together(fields, together):
    policy = rendered(**fields, scheduling={"gang": True, "queue": "q"})["spec"]["runPolicy"]
    assert policy["schedulingPolicy"] == {"minAvailable": together, "queue": "q"}


def test_an_rdma_interface_comes_with_what_it_needs_and_only_where_it_is():
    manifest = shape("mpi-gpus")
    worker, launcher = main(manifest, "Worker"), main(manifest, "Launcher")
    assert worker["resources"]["limits"]["rdma/hca"] == 1
    assert worker["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"]}
    assert "rdma/hca" not in launcher["resources"]["limits"]
    assert "nvidia.com/gpu" not in launcher["resources"]["limits"]
    assert "capabilities" not in launcher["securityContext"]


def test_an_rdma_interface_leaves_jax_its_gpus():
    fields = {
        "framework": "jax",
        "entrypoint": "train.py",
        "image": "jax",
        "network": {"rdma": "rdma/hca"},
    }
    for gpus, ids in ((2, "0,1"), (0, "0")):
        env = main(rendered(**fields, gpu=gpus), "Worker")["env"]
        assert {"name": "JAX_LOCAL_DEVICE_IDS", "value": ids} in env


def test_a_secret_that_is_named_twice_is_there_once():
    secrets = pods(rendered(**PYTORCH, image_pull_secrets=["a", "b", "a"]))["Master"]
    assert secrets["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]


def test_more_rdma_interfaces_than_one():
    manifest = rendered(**PYTORCH, network={"rdma": "rdma/hca"}, devices={"rdma/hca": 4})
    assert main(manifest, "Master")["resources"]["limits"]["rdma/hca"] == 4


def test_what_is_fetched_is_mounted_where_the_program_looks():
    spec = pods(shape("pytorch-everything"))["Worker"]
    mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    for container, place in (("fetch-code", "/root/code"), ("fetch-dataset", "/data")):
        fetch = next(one for one in spec["initContainers"] if one["name"] == container)
        (mount,) = fetch["volumeMounts"]
        assert mount["name"] == mounts[place]["name"]
        assert fetch["args"][-1] == f"{mount['mountPath']}/{mounts[place]['subPath']}"


def test_the_secret_of_a_repository_is_where_it_is_fetched_and_nowhere_else():
    code = {"url": "https://example.org/a.git", "secret": "team", "directory": "nlp/train"}
    spec = pods(rendered(**PYTORCH, code=code))["Master"]
    assert {"name": "code-secret", "secret": {"secretName": "team"}} in spec["volumes"]
    (fetch,) = spec["initContainers"]
    assert "--secret=team" in fetch["args"]
    (mounted,) = [one for one in fetch["volumeMounts"] if one["name"] == "code-secret"]
    assert mounted["mountPath"] == "/var/run/secrets/trireme/code"
    mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["code"]["subPath"] == "fetched/nlp/train"
    assert "code-secret" not in mounts


@pytest.mark.parametrize(
    ("uri", "volume", "mount"),
    [
        (
            "pvc://data",
            {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            {"readOnly": True},
        ),
        (
            "pvc://data/a/b/",
            {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            {"readOnly": True, "subPath": "a/b"},
        ),
        (
            "nfs://nas.example.org/export/a",
            {"nfs": {"server": "nas.example.org", "path": "/export/a", "readOnly": True}},
            {"readOnly": True},
        ),
        (
            "nfs://nas.example.org",
            {"nfs": {"server": "nas.example.org", "path": "/", "readOnly": True}},
            {"readOnly": True},
        ),
    ],
)
def test_datasets_that_a_cluster_mounts(uri, volume, mount):
    spec = pods(rendered(**PYTORCH, dataset=uri))["Master"]
    assert {"name": "dataset"} | volume in spec["volumes"]
    assert {"name": "dataset", "mountPath": "/workspace/data"} | mount in spec["containers"][0][
        "volumeMounts"
    ]
    assert "initContainers" not in spec


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("/data", "dataset.uri '/data': a cluster does not have what is on this machine"),
        ("x", "dataset.uri 'x': a cluster does not have what is on this machine"),
        ("file:///data", "dataset.uri 'file:///data': a cluster does not have what"),
        ("builtin://faces", "dataset: "),
        ("pvc://Data", "dataset: "),
        ("pvc://data-/a", "dataset: "),
        ("pvc://a..b", "dataset: "),
        ("pvc://a/../b", "dataset: "),
        ("nfs://-host/a", "dataset: "),
        ("nfs://a b/c", "dataset: "),
        (
            {"uri": "s3://bucket", "access": "mount"},
            "dataset.access 'mount' of 's3://bucket': a job mounts claims; make",
        ),
    ],
)
def test_a_dataset_that_no_cluster_can_have_is_refused(dataset, said):
    with pytest.raises(InputError) as caught:
        rendered(**PYTORCH, dataset=dataset)
    assert str(caught.value).startswith(said)


def test_a_dataset_that_is_staged_comes_with_its_secret_and_nobody_else_sees_that():
    dataset = {"uri": "s3://bucket/digits", "secret": "team", "include": ["train/**"]}
    spec = pods(rendered(**PYTORCH, dataset=dataset))["Master"]
    assert {"name": "dataset-secret", "secret": {"secretName": "team"}} in spec["volumes"]
    (fetch,) = spec["initContainers"]
    assert json.loads(fetch["args"][0]) == dataset
    mounts = {mount["name"]: mount for mount in fetch["volumeMounts"]}
    assert mounts["dataset-secret"]["mountPath"] == "/var/run/secrets/trireme/dataset"
    (data,) = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "dataset"]
    assert (data["mountPath"], data["subPath"]) == ("/workspace/data", "fetched")


def test_a_dataset_in_a_shared_cache_is_linked_there_by_one_and_read_by_all():
    dataset = {"uri": "s3://bucket/digits", "cache": "datasets"}
    spec = pods(rendered(**PYTORCH, dataset=dataset))["Master"]
    held = {"name": "dataset", "persistentVolumeClaim": {"claimName": "datasets"}}
    assert held in spec["volumes"]
    (fetch,) = spec["initContainers"]
    (data,) = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "dataset"]
    key = Dataset(uri="s3://bucket/digits").key
    assert data == {
        "name": "dataset",
        "mountPath": "/workspace/data",
        "subPath": f"links/{key}",
        "readOnly": True,
    }
    assert fetch["volumeMounts"] == [{"name": "dataset", "mountPath": "/fetch"}]
    assert fetch["args"][1:] == [f"/fetch/links/{key}", "/fetch"]


def test_a_repository_that_only_this_machine_has_is_refused(tmp_path):
    for url in (str(tmp_path), f"file://{tmp_path}"):
        with pytest.raises(InputError, match="on a cluster it must be an https, ssh or git URL"):
            rendered(**PYTORCH, code={"url": url})


def test_an_unknown_operator_is_refused():
    with pytest.raises(
        InputError, match="operator 'v3': must be one of training-operator, trainer"
    ):
        rendered("v3", **PYTORCH)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"framework": "tensorflow"}, "runtime 'torch-distributed': is for pytorch and mpi jobs"),
        ({"framework": "custom"}, "runtime 'torch-distributed': is for pytorch and mpi jobs"),
        ({"elastic": {"min": 1, "max": 2}}, "elastic: runtime 'torch-distributed' would have to"),
        ({"replicas": {"master": {"cpu": "1"}}}, "replicas: runtime 'torch-distributed' would"),
        ({"retries": 1}, "retries: runtime 'torch-distributed' would have to set this"),
        ({"retries": 0}, "retries: runtime 'torch-distributed' would have to set this"),
        ({"time_to_live": 0}, "time_to_live: runtime 'torch-distributed' would have to set"),
        ({"clean_up": "All"}, "clean_up: runtime 'torch-distributed' would have to set this"),
        ({"code": {"url": "https://example.org/a.git"}}, "code: runtime 'torch-distributed' "),
        ({"dataset": "builtin://digits"}, "dataset: runtime 'torch-distributed' would have to"),
        ({"scheduling": {"spot": "gke"}}, "scheduling.spot: runtime 'torch-distributed' would"),
        ({"scheduling": {"gang": True}}, "scheduling.gang: runtime 'torch-distributed' would"),
        ({"args": 129 * ["a"]}, "args: 129 are more than the 128 that a TrainJob takes"),
        (
            {"env": {f"A{n}": "" for n in range(128)}},
            "env: 137 are more than the 128 that a TrainJob takes",
        ),
        ({"image": 501 * "a"}, "image: 501 characters are more than the 500"),
    ],
)
def test_what_a_patch_of_a_runtime_cannot_say_is_refused(changes, said):
    with pytest.raises(InputError) as caught:
        rendered("trainer", **PATCHED | changes)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scheduling": {"gang": True}}, "scheduling.gang true: a TrainJob names its gang"),
        (
            {"scheduling": {"gang": "volcano"}, "framework": "mpi"},
            "scheduling.gang: all replicas of a TrainJob are its gang, and those of an mpi job do",
        ),
        (
            {"scheduling": {"gang": "volcano"}, "elastic": {"min": 1, "max": 2}},
            "scheduling.gang: all replicas of a TrainJob are its gang, and those of an elastic job",
        ),
        (
            {"scheduling": {"gang": "coscheduling", "queue": "a"}},
            "scheduling.queue 'a': coscheduling has no queues",
        ),
        ({"clean_up": "None"}, "clean_up None: the pods of a TrainJob that still run are removed"),
        (
            {"replicas": {"worker": {"count": 1, "restart_policy": "Always"}}},
            "restart_policy Always of the worker: a TrainJob's replicas take Never, OnFailure or",
        ),
        (
            {"name": 44 * "a", "framework": "tensorflow", "replicas": {"evaluator": {}}},
            f"name '{44 * 'a'}': must be 1 characters shorter",
        ),
    ],
)
def test_what_trainer_has_nothing_for_is_refused(changes, said):
    with pytest.raises(InputError) as caught:
        rendered("trainer", **PYTORCH | changes)
    assert str(caught.value).startswith(said)


def of_runtime(manifest):
    """Returns the Jobs of a TrainJob's runtime by role."""
    jobset = manifest["runtime"]["spec"]["template"]["spec"]
    return {
        each["template"]["spec"]["template"]["metadata"]["labels"]["trireme.dev/role"]: each
        for each in jobset["replicatedJobs"]
    }


def on_jobset(manifest, role, index):
    """Returns the environment of a pod, with the labels that JobSet v0.12 gives it."""
    jobs = of_runtime(manifest)
    before = [each["replicas"] for each in jobs.values()][: list(jobs).index(role)]
    labels = {"job-index": index, "job-global-index": sum(before) + index}
    found = {}
    for entry in jobs[role]["template"]["spec"]["template"]["spec"]["containers"][0]["env"]:
        if "valueFrom" in entry:
            if "fieldRef" not in entry["valueFrom"]:
                continue  # the limit of a container's CPUs
            path = entry["valueFrom"]["fieldRef"]["fieldPath"]
            found[entry["name"]] = str(
                labels[path.split("'")[1].removeprefix("jobset.sigs.k8s.io/")]
            )
        else:
            found[entry["name"]] = expand(entry["value"], found)
    return found


@pytest.mark.parametrize(("role", "index", "rank"), [("master", 0, 0), ("worker", 1, 2)])
def test_a_trainjob_sets_for_pytorch_what_the_training_operator_does(role, index, rank):
    found = on_jobset(shape("trainjob-pytorch"), role, index)
    assert (
        found.items()
        >= {
            "MASTER_ADDR": "train-master-0-0.train",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "3",
            "RANK": str(rank),
            "PET_NODE_RANK": str(rank),
            "PET_NNODES": "3",
            "PET_NPROC_PER_NODE": "1",
            "LOCAL_RANK": "0",
        }.items()
    )
    processes = on_jobset(shape("trainjob-pytorch-processes"), role, index)
    assert (processes["WORLD_SIZE"], "LOCAL_RANK" in processes) == ("6", False)


@pytest.mark.parametrize(("role", "index"), [("chief", 0), ("ps", 1), ("worker", 3)])
def test_a_trainjob_sets_tf_config(role, index):
    config = json.loads(on_jobset(shape("trainjob-tensorflow-ps"), role, index)["TF_CONFIG"])
    assert config["task"] == {"type": role, "index": index}
    assert config["environment"] == "cloud"
    assert list(config["cluster"]) == ["chief", "evaluator", "ps", "worker"]
    # JobSet: <set>-<replicated job>-<job>-<pod>.<set>
    assert config["cluster"]["ps"] == [f"train-ps-{n}-0.train:2222" for n in range(2)]


def test_a_tensorflow_replica_alone_has_no_tf_config():
    manifest = rendered("trainer", **PYTORCH, framework="tensorflow")
    assert "TF_CONFIG" not in on_jobset(manifest, "worker", 0)


def test_a_rank_reaches_a_command_of_the_user_s_own_in_a_trainjob():
    """Kubernetes expands a variable in a command from the container's env alone."""
    spec = of_runtime(shape("trainjob-custom"))["worker"]["template"]["spec"]["template"]["spec"]
    assert spec["containers"][0]["command"] == ["/bin/train", "--peers=$(WORLD_SIZE)", "$(RANK)"]
    found = on_jobset(shape("trainjob-custom"), "worker", 2)
    assert (found["RANK"], found["WORLD_SIZE"]) == ("3", "4")


@pytest.mark.parametrize(
    ("fields", "restart", "backoff"),
    [
        ({}, "Never", 0),
        ({"retries": 2}, "OnFailure", 3),  # Kubernetes fails such a Job at the third restart
        ({"restart_policy": "OnFailure"}, "OnFailure", 2**31 - 1),
        ({"restart_policy": "ExitCode", "retries": 2}, "Never", 2),
        ({"scheduling": {"spot": "gke"}}, "Never", 2**31 - 1),
    ],
)
def test_how_often_a_trainjob_starts_a_replica_again(fields, restart, backoff):
    job = of_runtime(rendered("trainer", **PYTORCH | fields))["master"]["template"]["spec"]
    assert (job["template"]["spec"]["restartPolicy"], job["backoffLimit"]) == (restart, backoff)
    by_status = "ExitCode" in str(fields) or "spot" in str(fields)
    assert ("podFailurePolicy" in job) is by_status


def test_the_keys_of_an_mpi_trainjob_are_where_ssh_looks_and_takes_them():
    ours, foreign = shape("trainjob-mpi"), shape("trainjob-mpi-foreign")
    paths = [m["runtime"]["spec"]["mlPolicy"]["mpi"]["sshAuthMountPath"] for m in (ours, foreign)]
    assert paths == [images.MPI_KEYS, "/etc/mpi-keys"]
    for role, before in (("worker", "/usr/sbin/sshd"), ("launcher", "mpirun")):
        commands = [
            of_runtime(m)[role]["template"]["spec"]["template"]["spec"]["containers"][0]["command"]
            for m in (ours, foreign)
        ]
        assert commands[0][0] == before
        assert commands[1][:2] == ["sh", "-c"] and commands[1][3] == before


@pytest.mark.parametrize(
    ("fields", "image", "user", "group"),
    [
        ({}, images.PYTORCH, 1000, 1000),
        ({"gpu": 1}, f"{images.PYTORCH}-cuda", 1000, 1000),
        ({"framework": "mpi"}, images.MPI, 1000, 1000),
        ({"network": {"rdma": "rdma/hca"}}, images.PYTORCH, None, None),
        ({"image": f"ghcr.io/trireme/pytorch@sha256:{64 * '0'}"}, None, 1000, 1000),
        ({"image": "example.org/pytorch"}, None, None, None),
        ({"image": "example.org/pytorch", "run_as_user": 7}, None, 7, 7),
        ({"gpu": 1, "images": COPIES}, "example.org/cuda", 1000, 1000),
        ({"images": COPIES}, images.PYTORCH, 1000, 1000),
        ({"gpu": 1, "images": COPIES, "image": "example.org/mine"}, None, None, None),
        # A claim is filled by a container in an image of ours.
        ({"image": "a", "dataset": {"uri": "s3://bucket/c", "cache": "d"}}, None, None, 1000),
    ],
)
def test_programs_run_as_the_user_of_their_image(fields, image, user, group):
    job = TrainingJob.create(**{"entrypoint": "train.py", "workers": 1} | fields)
    (*_, worker) = roles(render(job))
    pod = worker.pod
    assert image in (None, pod["containers"][0]["image"])
    context = pod["securityContext"]
    assert (context.get("runAsUser"), context.get("fsGroup")) == (user, group)
