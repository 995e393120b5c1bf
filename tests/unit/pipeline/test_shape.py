"""trireme/compiling/shape: what the pods of steps get, on both kinds of cluster."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.pipeline import catalog

SHAPE = """
workspace: 50Gi
steps:
  "*":
    node_selector: {pool: cheap}
    volumes: [{mount: /etc/company, config_map: company-ca}]
    env: {HTTPS_PROXY: "http://proxy:3128", HERE: all}
  evaluate:
    cpu: 2
    memory: 8Gi
    image: example.org/mine:1
    env: {HERE: evaluate}
    secret_env: {API_KEY: keys/api}
    tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
"""


@pytest.fixture
def compiled(tmp_path):
    """Compiles a pipeline with a shape for a target; returns what its file holds."""

    def compile_it(shape, target, pipeline="pytorch-training"):
        file = tmp_path / "shape.yaml"
        file.write_text(shape)
        given = ["--target", target, "-o", str(tmp_path), "--shape", str(file)]
        done = CliRunner().invoke(app, ["compile", pipeline, *given])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return list(yaml.safe_load_all((tmp_path / f"{pipeline}.yaml").read_text()))

    return compile_it


def test_kubeflow_has_it_in_the_pipeline(compiled):
    spec, platform = compiled(SHAPE, "kfp")
    executors = spec["deploymentSpec"]["executors"]
    container = executors["exec-evaluate"]["container"]
    assert container["image"] == "example.org/mine:1"
    assert container["resources"] == {
        "resourceCpuLimit": "2",
        "resourceCpuRequest": "2",
        "resourceMemoryLimit": "8Gi",
        "resourceMemoryRequest": "8Gi",
    }
    env = {each["name"]: each["value"] for each in container["env"]}
    assert env.pop("TRIREME_ENDS_RUN") == spec["pipelineInfo"]["name"]
    assert env == {"HTTPS_PROXY": "http://proxy:3128", "HERE": "evaluate"}
    assert executors["exec-train"]["container"]["env"][1] == {"name": "HERE", "value": "all"}
    kubernetes = platform["platforms"]["kubernetes"]
    assert kubernetes["pipelineConfig"]["workspace"]["size"] == "50Gi"
    pods = kubernetes["deploymentSpec"]["executors"]
    assert all(pod["nodeSelector"]["labels"] == {"pool": "cheap"} for pod in pods.values())
    assert set(pods) == set(executors)
    (taint,) = pods["exec-evaluate"]["tolerations"]
    assert (taint["key"], taint["operator"], taint["effect"]) == ("gpu", "Exists", "NoSchedule")
    secrets = pods["exec-evaluate"]["secretAsEnv"]
    assert [each["keyToEnv"] for each in secrets] == [[{"envVar": "API_KEY", "secretKey": "api"}]]
    files = [each["configMapAsVolume"][-1] for each in pods.values()]
    assert {(each["configMapName"], each["mountPath"]) for each in files} == {
        ("company-ca", "/etc/company")
    }
    assert "secretAsVolume" in pods["exec-evaluate"]  # what the pipeline itself says is kept


def test_argo_has_it_in_the_templates(compiled):
    (template,) = compiled(SHAPE, "argo")
    (claim,) = template["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "50Gi"
    steps = {each["name"]: each for each in template["spec"]["templates"] if "container" in each}
    evaluate = next(each for name, each in steps.items() if "evaluate" in name)
    assert evaluate["container"]["image"] == "example.org/mine:1"
    amounts = {"cpu": "2", "memory": "8Gi"}
    assert evaluate["container"]["resources"] == {"limits": amounts, "requests": amounts}
    env = {each["name"]: each for each in evaluate["container"]["env"]}
    assert env["HERE"]["value"] == "evaluate"
    assert (
        env["API_KEY"]["valueFrom"]["secretKeyRef"].items()
        >= {"name": "keys", "key": "api"}.items()
    )
    assert evaluate["tolerations"][0]["key"] == "gpu"
    # The step train hands its own on to the replicas of its job.
    placed = {name: each.get("nodeSelector") for name, each in steps.items()}
    assert {name for name, labels in placed.items() if labels != {"pool": "cheap"}} == {"train"}
    assert "cheap" in str(steps["train"])
    mount = {"name": "company-ca", "mountPath": "/etc/company"}
    source = {"name": "company-ca", "configMap": {"name": "company-ca", "optional": False}}
    for each in steps.values():
        assert mount in each["container"]["volumeMounts"] and source in each["volumes"]
    handed_on = json.dumps(steps["train"]["container"]).replace("\\", "")
    assert json.dumps(mount) in handed_on and json.dumps(source) in handed_on


def test_a_variable_of_a_step_goes_before_that_of_all_wherever_either_is_from(compiled):
    shape = """
    steps:
      "*": {env: {OPEN: all, BOTH: all}, secret_env: {KEY: keys/all, TOKEN: keys/token}}
      evaluate: {env: {KEY: mine}, secret_env: {OPEN: keys/open, TOKEN: keys/own}}
    """
    (template,) = compiled(shape, "argo")
    steps = {each["name"]: each for each in template["spec"]["templates"] if "container" in each}
    (evaluate,) = (each for name, each in steps.items() if "evaluate" in name)
    env = evaluate["container"]["env"]
    ours = [each for each in env if each["name"] in ("OPEN", "BOTH", "KEY", "TOKEN")]
    assert {each["name"]: each.get("value") for each in ours} == {
        "BOTH": "all",
        "KEY": "mine",
        "OPEN": None,
        "TOKEN": None,
    }
    assert len(ours) == 4
    keys = [each["valueFrom"]["secretKeyRef"]["key"] for each in ours if "valueFrom" in each]
    assert sorted(keys) == ["open", "own"]


def test_a_pipeline_is_as_it_is_without_one():
    pipeline = catalog.load("pytorch-training")
    assert all(not step.variables for _, step in pipeline.graph.steps)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (
            "steps: {trian: {cpu: 2}}",
            "shape.steps.trian: there is no such step; there are checkout",
        ),
        (
            "steps: {train: {cpus: 2}}",
            "shape.steps.train.cpus is not a field; shape.steps.train has cpu, memory, image, env",
        ),
        (
            "steps: {train: {tolerations: [{keys: gpu}]}}",
            "shape.steps.train.tolerations.0.keys is not a field; shape.steps.train.tolerations.0 "
            "has key, operator",
        ),
        (
            "steps: {train: {volumes: [{mount: /ca}]}}",
            "volumes.0 {'mount': '/ca'}: it needs one of",
        ),
        (
            "steps: {train: {volumes: [{mount: /ca, config_map: kube-root-ca.crt}]}}",
            "kube-root-ca.crt has dots or more than 63 letters",
        ),
        (
            "steps: {'*': {volumes: [{mount: /ca, config_map: a}]}, "
            "train: {volumes: [{mount: /ca, secret: b}]}}",
            "shape.steps.train.volumes: /ca is there twice",
        ),
        ("step: {}", "shape.step is not a field; shape has workspace, steps"),
        ("steps: {train: {cpu: lots}}", "shape.steps.train.cpu 'lots': must be a Kubernetes"),
        ("steps: {train: {secret_env: {A: b}}}", "shape.steps.train.secret_env.A 'b': must be"),
        (
            "steps: {train: {env: {A: b}, secret_env: {A: b/c}}}",
            "{'A': 'b/c'}}: both env and secret_env have A",
        ),
        ("- train", "must be an object of workspace, steps"),
        ("workspace: {a: 1}", "shape.workspace {'a': 1}:"),
    ],
)
def test_what_cannot_be_is_one_sentence(compiled, shape, said):
    from trireme.errors import InputError

    with pytest.raises(InputError) as error:
        compiled(shape, "kfp")
    assert said in str(error.value) and "\n" not in str(error.value)
