"""How the pods of a training job come by what MLflow asks of them: by reference, never by value."""

import json
from pathlib import Path

import pytest
from jobs_of_runs import job_in

from trireme.job.job import TrainingJob
from trireme.manifests import render, to_yaml
from trireme.manifests.references import Needed, references
from trireme.runner.cluster.passthrough import pass_through
from trireme.runner.inputs import inputs_of
from trireme.tracking import environment

RUN = {
    "MLFLOW_TRACKING_URI": "http://mlflow:5000",
    "MLFLOW_EXPERIMENT_ID": "1",
    "MLFLOW_RUN_ID": "abc",
}
LOGIN = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "hunter2"}


@pytest.fixture
def step(monkeypatch):
    """Sets the variables of a step, and nobody else's."""

    def make(**variables):
        for name in (*environment.VARIABLES, *environment.CREDENTIALS, "TRIREME_TRACKER"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return make


def job(**more):
    """The training job of a pipeline's step."""
    framework = more.pop("framework", "pytorch")
    return job_in(
        Path("/run"),
        run="r",
        job=more,
        framework=framework,
        env=environment.variables(),
        secret_env=environment.credentials(),
    )


def containers(manifest):
    (replicas,) = (v for k, v in manifest["spec"].items() if k.endswith("ReplicaSpecs"))
    return [spec["template"]["spec"]["containers"][0] for spec in replicas.values()]


def sources(container):
    return {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in container["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mpi"])
def test_on_argo_they_are_those_of_the_secret_that_the_step_has(step, framework):
    step(**RUN, **LOGIN)
    manifest = render(job(framework=framework))
    for container in containers(manifest):
        assert sources(container) == {
            name: {"name": "trireme-mlflow", "key": name, "optional": True} for name in LOGIN
        }
    assert "hunter2" not in to_yaml(manifest)
    if framework == "mpi":  # or the ranks would not see them
        assert "MLFLOW_TRACKING_PASSWORD" in containers(manifest)[0]["command"]


def test_a_uri_with_a_password_is_not_written_down_either(step):
    step(**RUN | {"MLFLOW_TRACKING_URI": "http://me:hunter2@mlflow:5000"})
    manifest = render(job())
    found = sources(containers(manifest)[0])
    assert found["MLFLOW_TRACKING_URI"]["name"] == "trireme-mlflow"
    assert "hunter2" not in to_yaml(manifest)


def test_on_kubeflow_they_are_those_of_its_plugin(step):
    keys = {"usernameKey": "user", "passwordKey": "pass"}
    config = {"authType": "basic-auth", "credentialSecretRef": keys}
    step(**RUN, **LOGIN, KFP_MLFLOW_CONFIG=json.dumps(config))
    assert sources(containers(render(job()))[0]) == {
        "MLFLOW_TRACKING_USERNAME": {"name": "kfp-mlflow-credentials", "key": "user"},
        "MLFLOW_TRACKING_PASSWORD": {"name": "kfp-mlflow-credentials", "key": "pass"},
    }


def test_what_the_job_says_itself_wins(step):
    step(**RUN, **LOGIN)
    env = {"MLFLOW_TRACKING_USERNAME": "robot"}
    made = job(env=env, secret_env={"MLFLOW_TRACKING_PASSWORD": "mine/key"})
    (found,) = sources(containers(render(made))[0]).values()
    assert found == {"name": "mine", "key": "key"}


def test_what_the_task_says_itself_wins(step):
    """The step cannot tell keys that the task has from those of the Secret."""
    step(**RUN, **LOGIN, AWS_ACCESS_KEY_ID="mine")
    manifest = render(job())
    workspace = {"name": "w", "persistentVolumeClaim": {"claimName": "w"}}
    env = [{"name": "AWS_ACCESS_KEY_ID", "value": "mine"}]
    pass_through(manifest, {"volumes": [workspace], "env": env})
    container = containers(manifest)[0]
    (found,) = [each for each in container["env"] if each["name"] == "AWS_ACCESS_KEY_ID"]
    assert found == {"name": "AWS_ACCESS_KEY_ID", "value": "mine"}
    assert "MLFLOW_TRACKING_PASSWORD" in sources(container)


def test_a_model_does_not_depend_on_them(step):
    step(**RUN, **LOGIN)
    with_them = job(secret_env={"TOKEN": "mine/key"})
    step()
    assert inputs_of(with_them) == inputs_of(job(secret_env={"TOKEN": "mine/key"}))
    assert inputs_of(with_them) != inputs_of(job())


def test_a_step_whose_record_somebody_else_keeps_has_none(step, tmp_path):
    step(**RUN, **LOGIN, TRIREME_TRACKER=str(tmp_path / "none"))
    assert environment.credentials() == {}


@pytest.mark.parametrize("operator", ["training-operator", "trainer"])
def test_a_job_of_its_own_has_those_of_the_namespace_if_there_are_any(operator):
    described = TrainingJob.create(
        entrypoint="train.py",
        tracking={"uri": "http://mlflow:5000"},
        secret_env={"MLFLOW_TRACKING_TOKEN": "mine/token"},
    )
    manifest = render(described, operator)
    text = to_yaml(manifest)
    assert text.count("key: MLFLOW_TRACKING_PASSWORD") == 1
    assert "optional: true" in text
    assert "key: MLFLOW_TRACKING_TOKEN" not in text
    if operator == "training-operator":
        assert Needed("Secret", "trireme-mlflow", optional=True) in references(manifest)
