"""What a replica's process finds in its environment."""

import json
import os
from pathlib import Path

import pytest
from line_by_line import line_by_line

from trireme.errors import InputError
from trireme.runner.local import runner
from trireme.runner.local.environment import expand
from trireme.runner.local.isolation import Isolated
from trireme.runner.local.manifest import read
from trireme.runner.local.network import Loopback

DUMP = """
import json, os, pathlib
name = os.environ.get("RANK") or os.environ["POD"]
pathlib.Path(os.environ["OUT"], f"{name}.json").write_text(json.dumps(dict(os.environ)))
"""


@pytest.fixture
def environments(tmp_path):
    """Reads what DUMP has written, by replica."""
    return lambda: {file.stem: json.loads(file.read_text()) for file in tmp_path.glob("*.json")}


@pytest.fixture
def injected(replicas, job):
    """Returns, by replica, what a cluster's operator would add, from how many of each role."""

    def values(kind, spec=None, **counts):
        roles = {role: replicas(["x"], n) for role, n in counts.items()}
        made = read(job(kind, spec=spec, **roles))
        names = Isolated(made)  # which is not entered: nothing but names is needed
        return {pod.name: made.framework.environment(made, pod, names) for pod in made.pods}

    return values


# PyTorchJob: pkg/controller.v1/pytorch/envvar.go and its siblings, training operator v1.9.


def test_a_pytorchjob_with_a_master(injected):
    found = injected("PyTorchJob", {"nprocPerNode": "2"}, Master=1, Worker=2)
    for rank, name in enumerate(["master-0", "worker-0", "worker-1"]):
        assert found[name] == {
            "PYTHONUNBUFFERED": "1",
            "MASTER_PORT": "23456",
            "PET_MASTER_PORT": "23456",
            "MASTER_ADDR": "job-master-0",
            "PET_MASTER_ADDR": "job-master-0",
            "WORLD_SIZE": "6",
            "RANK": str(rank),  # of the node: torchrun sets every process's own
            "PET_NODE_RANK": str(rank),
            "PET_NPROC_PER_NODE": "2",
            "PET_NNODES": "3",
        }


ELASTIC = {
    "elasticPolicy": {
        "minReplicas": 1,
        "maxReplicas": 3,
        "maxRestarts": 5,
        "rdzvId": "run",
        "rdzvBackend": "c10d",
    }
}


def test_an_elastic_pytorchjob(injected):
    expected = {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": "1",
        "PET_RDZV_ENDPOINT": "job-worker-0:23456",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "1:3",
        "PET_MAX_RESTARTS": "5",
        "PET_RDZV_ID": "run",
    }
    assert injected("PyTorchJob", ELASTIC, Worker=2) == {"worker-0": expected, "worker-1": expected}


def test_worker_0_holds_the_store_where_all_share_an_address(job, replicas):
    given = {"PET_RDZV_CONF": "join_timeout=60"}
    made = read(job("PyTorchJob", spec=ELASTIC, Worker=replicas(["x"], 2, env=given)))
    with Loopback() as network:
        first, second = (made.framework.environment(made, pod, network) for pod in made.pods)
    assert first["PET_RDZV_CONF"] == "join_timeout=60,is_host=true"
    assert second["PET_RDZV_CONF"] == "join_timeout=60,is_host=false"
    assert first["PET_RDZV_ENDPOINT"] == second["PET_RDZV_ENDPOINT"]
    assert first["PET_RDZV_ENDPOINT"].startswith("127.0.0.1:")


# TFJob: pkg/controller.v1/tensorflow/pod_test.go, training operator v1.9.


def test_tf_config_letter_for_letter(injected):
    found = injected("TFJob", Worker=1, PS=1)
    assert found["worker-0"]["TF_CONFIG"] == (
        '{"cluster":{"ps":["job-ps-0.default.svc:2222"],"worker":["job-worker-0.default.svc:2222"]}'
        ',"task":{"type":"worker","index":0},"environment":"cloud"}'
    )


def test_tf_config_of_every_role(injected):
    found = injected("TFJob", Chief=1, Worker=2, PS=1, Evaluator=1)
    cluster = {
        "chief": ["job-chief-0.default.svc:2222"],
        "evaluator": ["job-evaluator-0.default.svc:2222"],
        "ps": ["job-ps-0.default.svc:2222"],
        "worker": ["job-worker-0.default.svc:2222", "job-worker-1.default.svc:2222"],
    }
    tasks = {}
    for name, variables in found.items():
        config = json.loads(variables["TF_CONFIG"])
        assert list(variables) == ["TF_CONFIG"]
        assert config["cluster"] == cluster
        assert list(config["cluster"]) == sorted(cluster)
        tasks[name] = (config["task"]["type"], config["task"]["index"])
    assert tasks == {
        "chief-0": ("chief", 0),
        "ps-0": ("ps", 0),
        "worker-0": ("worker", 0),
        "worker-1": ("worker", 1),
        "evaluator-0": ("evaluator", 0),
    }


def test_a_single_replica_gets_no_tf_config(injected):
    assert injected("TFJob", Worker=1) == {"worker-0": {}}


def test_every_replica_of_a_tfjob_has_a_port_of_its_own_here(job, replicas):
    made = read(job("TFJob", Worker=replicas(["x"], 2), PS=replicas(["x"])))
    with Loopback() as network:
        configs = [made.framework.environment(made, pod, network)["TF_CONFIG"] for pod in made.pods]
    clusters = [json.loads(config)["cluster"] for config in configs]
    assert clusters[0] == clusters[1] == clusters[2]
    addresses = [address for role in clusters[0].values() for address in role]
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)


# JAXJob: pkg/controller.v1/jax/envvar_test.go, training operator v1.9.


def test_a_jaxjob(injected):
    found = injected("JAXJob", Worker=2)
    for number, name in enumerate(["worker-0", "worker-1"]):
        assert found[name] == {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": "6666",
            "COORDINATOR_ADDRESS": "job-worker-0",
            "NUM_PROCESSES": "2",
            "PROCESS_ID": str(number),
        }


# XGBoostJob: pkg/controller.v1/xgboost/pod_test.go, training operator v1.9.


def test_an_xgboostjob(injected):
    found = injected("XGBoostJob", Master=1, Worker=2)
    for rank, name in enumerate(["master-0", "worker-0", "worker-1"]):
        assert found[name] == {
            "MASTER_PORT": "9999",
            "MASTER_ADDR": "job-master-0",
            "WORLD_SIZE": "3",
            "RANK": str(rank),
            "PYTHONUNBUFFERED": "1",
            "WORKER_PORT": "9999",
            "WORKER_ADDRS": "job-worker-0,job-worker-1",
        }
    assert "WORKER_PORT" not in injected("XGBoostJob", Master=1)["master-0"]


# What the process really finds.


def test_every_replica_gets_what_the_operator_adds_and_what_is_declared(
    manifest, logs, tmp_path, environments
):
    job = manifest(DUMP, workers=2, spec={"nprocPerNode": "2"}, env={"SEED": "7"})
    assert set(runner.run(job, logs)) == {"master-0", "worker-0", "worker-1"}
    found = environments()
    assert set(found) == {"0", "1", "2"}
    port = found["0"]["MASTER_PORT"]
    assert 0 < int(port) < 65536
    for rank, environment in found.items():
        expected = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": "6",
            "RANK": rank,
            "PET_NNODES": "3",
            "OUT": str(tmp_path),
            "SEED": "7",
        }
        assert {name: environment.get(name) for name in expected} == expected
        assert "LOCAL_RANK" not in environment


def test_what_surrounds_the_runner_does_not_leak_into_the_job(
    manifest, logs, environments, monkeypatch
):
    stale = [
        *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        *("GROUP_RANK", "NODE_RANK", "ROLE_RANK", "TF_CONFIG"),
        *("PET_RDZV_ENDPOINT", "TORCHELASTIC_RUN_ID"),
        *("DMLC_TASK_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "K_MPI_JOB_ROLE"),
    ]
    for name in stale:
        monkeypatch.setenv(name, "stale")
    kept = {"UNRELATED": "kept", "LOCAL_DATA": "/data", "MASTER_KEY": "secret"}
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    runner.run(manifest(DUMP), logs)
    for environment in environments().values():
        assert "stale" not in environment.values()
        assert kept.items() <= environment.items()


def test_a_set_number_of_threads_is_kept_and_else_chosen(manifest, logs, environments, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    runner.run(manifest(DUMP, workers=0), logs)
    assert environments()["0"]["OMP_NUM_THREADS"] == str(len(os.sched_getaffinity(0)))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    runner.run(manifest(DUMP, workers=0), logs)
    assert environments()["0"]["OMP_NUM_THREADS"] == "3"
    runner.run(manifest(DUMP, workers=0, env={"OMP_NUM_THREADS": "5"}), logs)
    assert environments()["0"]["OMP_NUM_THREADS"] == "5"


def test_tensorflow_is_told_how_many_threads_it_may_have(
    job, replicas, logs, tmp_path, environments, monkeypatch
):
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    env = {"OUT": str(tmp_path), "POD": "worker"}
    cores = len(os.sched_getaffinity(0))
    made = job("TFJob", Worker=replicas(["python3", "-c", DUMP], cores, env=env))
    runner.run(made, logs)
    found = environments()["worker"]
    assert found["TF_NUM_INTRAOP_THREADS"] == "1"
    # With one of these a parameter server waits for itself for ever.
    assert "TF_NUM_INTEROP_THREADS" not in found


def test_arguments_and_working_directory_reach_the_program(manifest, logs, code, tmp_path):
    said: list[str] = []
    program = "import os, sys; print(os.getcwd(), sys.argv[1:])"
    job = manifest(program, workers=0, args=["$(OUT)", "$$(OUT)", "a b", "", "ü", "$(RANK)", "$$"])
    runner.run(job, logs, line_by_line(lambda name, line: said.append(line)))
    assert said == [f"{code} {[str(tmp_path), '$(OUT)', 'a b', '', 'ü', '0', '$']}"]


def test_the_working_directory_may_be_missing(job, replicas, logs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    runner.run(
        job("PyTorchJob", Master=replicas(["pwd"])),
        logs,
        line_by_line(lambda _, line: said.append(line)),
    )
    assert said == [str(tmp_path)]


def test_the_programs_folder_joins_the_python_path_of_this_machine(
    manifest, logs, environments, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", "/ours")
    runner.run(manifest(DUMP, workers=0, env={"PYTHONPATH": "/code"}), logs)
    assert environments()["0"]["PYTHONPATH"] == "/code:/ours"


# https://github.com/kubernetes/kubernetes/blob/v1.31.0/third_party/forked/golang/expansion/expand_test.go
@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "a"),
        ("___$(B)___", "___b___"),
        ("$(A)-$(MISSING)-$(B)", "a-$(MISSING)-b"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$($(A))", "$($(A))"),
        ("$()", "$()"),
        ("", ""),
    ],
)
def test_variables_are_expanded_as_kubernetes_does_it(text, expanded):
    assert expand(text, {"A": "a", "B": "b"}) == expanded


def with_env(job, replicas, *entries):
    made = job("PyTorchJob", Master=replicas(["python3", "-c", DUMP]))
    container = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["env"] = list(entries)
    return made


def test_a_variable_sees_those_declared_before_it_only(job, replicas, logs, tmp_path, environments):
    made = with_env(
        job,
        replicas,
        {"name": "EARLY", "value": "$(LATE)"},
        {"name": "LATE", "value": "$(OUT)"},
        {"name": "OUT", "value": str(tmp_path)},
        {"name": "AFTER", "value": "$(OUT)/$(RANK)"},
    )
    runner.run(made, logs)
    found = environments()["0"]
    # RANK comes after all of them: the operator appends.
    assert found["EARLY"] == "$(LATE)"
    assert found["LATE"] == "$(OUT)"
    assert found["AFTER"] == f"{tmp_path}/$(RANK)"


def from_secret(name, **more):
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": "mlflow", "key": "key", **more}}}


def test_a_secrets_value_comes_from_the_variable_of_that_name_here(
    job, replicas, logs, tmp_path, environments, monkeypatch
):
    monkeypatch.setenv("TOKEN", "s3cret")
    monkeypatch.delenv("OTHER", raising=False)
    made = with_env(
        job,
        replicas,
        {"name": "OUT", "value": str(tmp_path)},
        from_secret("TOKEN"),
        from_secret("OTHER", optional=True),
    )
    runner.run(made, logs)
    found = environments()["0"]
    assert found["TOKEN"] == "s3cret"
    assert "OTHER" not in found
    assert not any(b"s3cret" in file.read_bytes() for file in Path(logs).iterdir())


def test_a_secret_that_has_no_value_here_is_refused(job, replicas, logs, monkeypatch):
    monkeypatch.delenv("TOKEN", raising=False)
    with pytest.raises(InputError, match="env TOKEN of Master comes from the Secret 'mlflow', whi"):
        runner.run(with_env(job, replicas, from_secret("TOKEN")), logs)
