"""The default pipeline's steps in their images: kfp's commands, and two replicas that train."""

import json
from pathlib import Path

import pytest
import yaml
from jobs_of_runs import job_in

from images import build
from tests.images.containers import Containers, is_built
from trireme.frameworks import FRAMEWORKS
from trireme.manifests import render

ROOT = Path(__file__).resolve().parents[2]
COMPILED = ROOT / "tests/golden/pytorch-training.yaml"
ENTRYPOINT = FRAMEWORKS["pytorch"].trainer
IN_A_POD = ("--env", "KUBERNETES_SERVICE_HOST=192.0.2.1")  # where steps keep all in the workspace
NAMES = {url: name for name, url in build.IMAGES.items()}

pytestmark = pytest.mark.images


@pytest.fixture
def containers(tmp_path):
    for name in ("base", "pytorch"):
        if not is_built(name):
            pytest.skip(f"the image {build.IMAGES[name]} is not built here")
    tmp_path.chmod(0o777)
    made = Containers(tmp_path)
    yield made
    made.close()


class Steps:
    """The steps of the compiled pipeline, a container each."""

    def __init__(self, containers):
        self.containers = containers
        spec = next(yaml.safe_load_all(COMPILED.read_text()))
        self.executors = spec["deploymentSpec"]["executors"]
        self.components = spec["components"]

    def run(self, name, **parameters):
        """Runs a step as Kubeflow's launcher does; returns its outputs."""
        outputs = self.containers.workspace / "outputs" / name
        outputs.mkdir(parents=True)
        outputs.parent.chmod(0o777)
        outputs.chmod(0o777)
        declared = self.components[f"comp-{name}"].get("outputDefinitions", {})
        artifacts = {
            key: {"artifacts": [self._artifact(outputs / key, declaration)]}
            for key, declaration in declared.get("artifacts", {}).items()
        }
        given = {
            "inputs": {"parameterValues": self._workspace() | parameters},
            "outputs": {
                "parameters": {
                    key: {"outputFile": str(outputs / key)}
                    for key in declared.get("parameters", {})
                },
                "artifacts": artifacts,
                "outputFile": str(outputs / "executor_output.json"),
            },
        }
        container = self.executors[f"exec-{name}"]["container"]
        arguments = [json.dumps(given) if part == "{{$}}" else part for part in container["args"]]
        done = self.containers.run(
            NAMES[container["image"]],
            *container["command"],
            *arguments,
            name=name,
            options=IN_A_POD,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads((outputs / "executor_output.json").read_text())["parameterValues"]

    def _workspace(self):
        return {"workspace": str(self.containers.workspace / "run")}

    def _artifact(self, file, declaration):
        return {"name": file.name, "type": declaration["artifactType"], "uri": str(file)}


def train(containers, code, data):
    """Runs the two replicas of the job that the training step would create."""
    workspace = containers.workspace / "run"
    job = job_in(
        workspace, run="one", code=code, data=data, entrypoint=ENTRYPOINT, args=["--epochs", "15"]
    )
    replicas = render(job)["spec"]["pytorchReplicaSpecs"]
    for directory in (job.checkpoint_dir, job.model_dir):
        Path(directory).mkdir()
        Path(directory).chmod(0o777)
    started = []
    for rank, role in enumerate(("Master", "Worker")):
        container = replicas[role]["template"]["spec"]["containers"][0]
        variables = {entry["name"]: entry["value"] for entry in container["env"]} | {
            "MASTER_ADDR": "replica-0",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "2",
            "RANK": str(rank),
        }
        options = [f"--env={name}={value}" for name, value in variables.items()]
        started.append(
            containers.start(
                NAMES[container["image"]],
                *container["command"],
                *container.get("args", []),
                name=f"replica-{rank}",
                options=(*options, "--workdir", container["workingDir"]),
            )
        )
    for replica in started:
        status, output = containers.wait(replica)
        assert status == 0, output
    return job.model_dir


@pytest.mark.timeout(900)
def test_the_steps_run_in_their_images_and_two_replicas_train_in_two(containers):
    steps = Steps(containers)
    (containers.workspace / "run").mkdir()
    (containers.workspace / "run").chmod(0o777)
    code = steps.run("checkout", url="", revision="")["path"]
    data = steps.run("dataset", uri="builtin://digits", options={}, secret="")["path"]
    model = train(containers, code, data)
    common = {
        "code": code,
        "data": data,
        "model": model,
        "model_factory": "",
        "model_name": "",
        "entrypoint": ENTRYPOINT,
    }
    evaluated = steps.run("evaluate", evaluation={}, gate={}, min_accuracy=0.95, **common)
    assert evaluated["passed"] is True, evaluated["reason"]
    assert evaluated["score"] > 0.95
    exported = steps.run("export", champion="", promote=False, **common)
    assert {file.suffix for file in Path(exported["path"]).rglob("*")} >= {".onnx", ".pt2"}
    assert exported["difference"] < 1e-3
