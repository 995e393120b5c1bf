"""Single training jobs of every kind, by each of the operators."""

import json
import secrets

import place as places
import pytest
import yaml

TRAINERS = "/opt/trireme/lib/python3.11/site-packages/trireme/trainers"
SMALL = {"cpu": "100m", "memory": "1Gi"}


@pytest.fixture
def submit(operator, place, tmp_path):
    """Submits a job and stays to its end; returns what was printed."""
    names = []

    def run(*words, status=0, **fields):
        name = f"job-{secrets.token_hex(3)}"
        names.append(name)
        file = tmp_path / "job.yaml"
        code = {} if "command" in fields else {"code": {"url": place.code}}
        file.write_text(yaml.safe_dump({"name": name} | SMALL | code | fields))
        given = ("job", "submit", str(file), "--wait", "--operator", operator.operator, *words)
        return operator.command(*given, status=status)

    yield run
    for name in names:
        operator.ended(operator.start("job", "delete", name, *operator.words))


@pytest.fixture
def claim(operator):
    """The name of a volume that several pods may write to."""
    name = f"claim-{secrets.token_hex(3)}"
    room = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    places.create(operator.namespace, claim | {"spec": room})
    yield name
    places.kubectl("delete", "pvc", name, "--wait=false", namespace=operator.namespace)


def test_pytorch(submit):
    output = submit(entrypoint="sum_torch.py", workers=1)
    assert output.count("of 2: the sum is 2") == 2


def test_pytorch_with_several_processes_each(submit):
    output = submit(entrypoint="sum_torch.py", workers=1, processes_per_worker=2)
    assert output.count("of 4: the sum is 4") == 4


def test_elastic(submit):
    output = submit(entrypoint="sum_torch.py", elastic={"min": 1, "max": 2})
    assert "the sum is 2" in output


def test_tensorflow(submit):
    output = submit(framework="tensorflow", entrypoint="sum_tensorflow.py", workers=2)
    assert output.count("the sum is 2") == 2


def test_parameter_servers(submit, claim):
    output = submit(
        volumes=[{"mount": "/workspace", "claim": claim}],  # each writes its part of a checkpoint
        framework="tensorflow",
        code_dir=TRAINERS,
        code=None,
        entrypoint="tensorflow_classifier.py",
        args=["--epochs", "1"],
        dataset="builtin://digits",
        env={"SEED": "0"},
        replicas={"chief": {"count": 1}, "ps": {"count": 1}, "worker": {"count": 1}},
    )
    assert "loss" in output


def test_mpi(submit):
    output = submit(framework="mpi", entrypoint="sum_mpi.py", workers=2)
    assert output.count("the sum is 2") == 2


@pytest.mark.parametrize(
    ("framework", "args"), [("jax", ["--epochs", "3"]), ("xgboost", ["--rounds", "3"])]
)
def test_reference_trainers(submit, framework, args):
    output = submit(
        framework=framework,
        code_dir=TRAINERS,
        code=None,
        entrypoint=f"{framework}_classifier.py",
        args=args,
        workers=2,
        dataset="builtin://digits",
        env={"SEED": "0"},
    )
    assert "accuracy" in output


def test_custom(submit):
    # The job ends with its master, which has to be there until the worker has found it.
    find = 'until getent hosts "$MASTER_ADDR"; do sleep 1; done'
    say = 'echo "rank $RANK of $WORLD_SIZE"; [ "$RANK" != 0 ] || sleep 30'
    output = submit(framework="custom", workers=1, command=["sh", "-c", f"{find}; {say}"])
    assert "rank 0 of 2" in output and "rank 1 of 2" in output


def test_a_program_that_fails(submit):
    output = submit(entrypoint="digits.py", args=["--fail"], env={"SEED": "0"}, status=1)
    assert "the learning rate went to seed" in output


def test_a_job_that_hangs(submit):
    """It is told after five minutes, which is the least, with where each replica stands."""
    program = """
import threading, time
def waits_for_a_peer():
    threading.Event().wait()
for step in range(5):
    print("step", step, flush=True)
    time.sleep(1)
waits_for_a_peer()
"""
    output = submit(workers=1, on_hang="fail", command=["python3", "-c", program], status=1)
    assert "error: the job hangs: no replica has printed" in output
    for replica in ("master-0", "worker-0"):
        assert f"[{replica}]     waits_for_a_peer (" in output


def test_a_missing_image(submit):
    output = submit(
        "--starting-limit",
        "40",
        image="example.invalid/no:1",
        run_as_user=1000,
        command=["true"],
        status=1,
    )
    assert "ImagePull" in output


def test_more_than_any_node_has(submit):
    output = submit("--starting-limit", "60", cpu="500", command=["true"], status=1)
    assert "cpu" in output


def test_without_rights(submit, operator, monkeypatch, tmp_path):
    """A user of the namespace who may do nothing is told what is not allowed."""
    config = json.loads(places.kubectl("config", "view", "--raw", "--output", "json"))
    token = places.kubectl("create", "token", "default", namespace=operator.namespace)
    for user in config["users"]:
        user["user"] = {"token": token.strip()}
    limited = tmp_path / "kubeconfig"
    limited.touch(mode=0o600)
    limited.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(limited))
    output = submit(command=["true"], status=1)
    assert "not allowed" in output and "Traceback" not in output
    monkeypatch.undo()
