"""trireme/runner/cluster/passthrough.py: what a pipeline's task hands on to a job's pods."""

import pytest

from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.manifests.roles import roles
from trireme.runner.cluster.passthrough import pass_through, with_gpus

TASK = {
    "volumes": [{"name": "kfp-workspace", "persistentVolumeClaim": {"claimName": "run-1"}}],
    "volume_mounts": [{"name": "kfp-workspace", "mountPath": "/kfp-workspace"}],
    "resources": {"limits": {"memory": "64Gi", "nvidia.com/gpu": "2"}, "requests": {"cpu": "8"}},
    "env": [{"name": "TEAM", "value": "a"}, {"name": "CODE_DIR", "value": "/elsewhere"}],
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "node_selector": {"pool": "gpu"},
    "affinity": {"nodeAffinity": {}},
}


@pytest.fixture
def pods():
    """Hands a task on to a job; returns the pod specs by role."""

    def make(task, **fields):
        manifest = render(TrainingJob.create(entrypoint="train.py", **fields))
        pass_through(manifest, task)
        (replicas,) = (
            value for key, value in manifest["spec"].items() if key.endswith("ReplicaSpecs")
        )
        return {role: spec["template"]["spec"] for role, spec in replicas.items()}

    return make


def test_every_pod_gets_volumes_variables_and_placement(pods):
    for pod in pods(TASK, workers=1, scheduling={"node_selector": {"zone": "a"}}).values():
        assert TASK["volumes"][0] in pod["volumes"]
        (container,) = pod["containers"]
        assert TASK["volume_mounts"][0] in container["volumeMounts"]
        assert {"name": "TEAM", "value": "a"} in container["env"]
        assert [e["value"] for e in container["env"] if e["name"] == "CODE_DIR"] == ["/root/code"]
        assert pod["tolerations"] == TASK["tolerations"]
        assert pod["nodeSelector"] == {"zone": "a", "pool": "gpu"}
        assert pod["affinity"] == TASK["affinity"]


def test_gpus_of_the_task_are_the_jobs():
    job = TrainingJob.create(entrypoint="train.py", workers=1)
    assert with_gpus(job, {}) == with_gpus(job, {"resources": {"limits": {"cpu": "1"}}}) == job
    given = with_gpus(job, TASK)
    assert {replica.gpu for replica in given.roles.values()} == {2}
    assert all(replica.image.endswith("-cuda") for replica in given.roles.values())
    mine = TrainingJob.create(entrypoint="train.py", gpu=0)
    assert with_gpus(mine, TASK) == mine
    as_device = TrainingJob.create(entrypoint="train.py", devices={"nvidia.com/gpu": 1})
    assert with_gpus(as_device, TASK) == as_device


def test_a_variable_that_holds_a_login_stays_behind(pods, capsys):
    values = {
        "MLFLOW_TRACKING_URI": "https://me:hunter2@mlflow",
        "PIP_ARGS": "--index-url https://token@pypi.example.org/x",
        "MAIL": "me@example.org",
        "DOCS": "https://example.org/@me",
    }
    env = [{"name": name, "value": value} for name, value in values.items()]
    env.append({"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})
    container = pods(TASK | {"env": env})["Master"]["containers"][0]
    names = {variable["name"] for variable in container["env"]}
    assert {"MAIL", "DOCS", "KEY"} < names and not {"MLFLOW_TRACKING_URI", "PIP_ARGS"} & names
    warning = capsys.readouterr().err
    assert warning.startswith("warning: MLFLOW_TRACKING_URI, PIP_ARGS of the task")
    assert warning.count("\n") == 1 and "hunter2" not in warning


def test_affinity_of_another_sort_is_kept(pods):
    ours = {"podAntiAffinity": {}}
    pod = pods(TASK, scheduling={"affinity": ours})["Master"]
    assert pod["affinity"] == ours | TASK["affinity"]


def test_what_the_task_asks_for_wins_and_either_amount_is_the_others_default(pods):
    container = pods(TASK, cpu="2", memory="4Gi")["Master"]["containers"][0]
    assert container["resources"] == {
        "limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"},
        "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"},
    }


def test_replicas_that_do_not_compute_keep_their_own_resources(pods):
    made = pods(TASK, framework="tensorflow", replicas={"chief": {}, "ps": {}}, workers=1)
    assert "nvidia.com/gpu" not in made["PS"]["containers"][0]["resources"]["limits"]
    assert "nvidia.com/gpu" in made["Worker"]["containers"][0]["resources"]["limits"]


def test_the_pods_of_a_trainjob_get_all_that_too():
    job = TrainingJob.create(
        entrypoint="train.py", framework="tensorflow", replicas={"chief": {}, "ps": {}}, workers=1
    )
    manifest = render(job, "trainer")
    pass_through(manifest, TASK)
    found = {role.name: role.pod for role in roles(manifest)}
    assert found.keys() == {"chief", "ps", "worker"}
    for role, pod in found.items():
        assert TASK["volumes"][0] in pod["volumes"]
        (container,) = pod["containers"]
        assert TASK["volume_mounts"][0] in container["volumeMounts"]
        assert {"name": "TEAM", "value": "a"} in container["env"]
        assert pod["nodeSelector"] == TASK["node_selector"]
        computes = "nvidia.com/gpu" in container["resources"]["limits"]
        assert computes is (role != "ps")


@pytest.mark.parametrize("framework", ["pytorch", "mpi"])
def test_a_trainjob_that_patches_a_runtime_gets_all_that_too(framework):
    job = TrainingJob.create(entrypoint="train.py", framework=framework, runtime="theirs")
    manifest = render(job, "trainer")
    pass_through(manifest, TASK)
    trainer, (patch,) = manifest["spec"]["trainer"], manifest["spec"]["runtimePatches"]
    assert {"name": "TEAM", "value": "a"} in trainer["env"]
    assert trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"] == "2"
    for each in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
        pod = each["template"]["spec"]["template"]["spec"]
        assert pod["volumes"].count(TASK["volumes"][0]) == 1
        assert pod["nodeSelector"] == TASK["node_selector"]
        (container,) = pod["containers"]
        assert TASK["volume_mounts"][0] in container["volumeMounts"]
        assert not {"env", "resources"} & set(container)  # no fields of a patch


def test_pods_without_the_workspace_are_refused(pods):
    with pytest.raises(InputError, match="need the run workspace"):
        pods({})


def test_what_other_runs_see_too_is_only_read(pods):
    mounts = [
        {"name": "datasets", "mountPath": "/var/lib/trireme/cache"},
        {"name": "flowers", "mountPath": "/var/lib/trireme/datasets/flowers"},
    ]
    task = TASK | {"volume_mounts": TASK["volume_mounts"] + mounts}
    found = pods(task)["Master"]["containers"][0]["volumeMounts"]
    closed = {mount["name"] for mount in found if mount.get("readOnly")}
    assert closed == {"datasets", "flowers"}
