"""trireme reproduce --target kfp: what is started there, and what is said when it has ended."""

import mlflow
import pytest
from recorded import COMMIT, record

from trireme.code import bundle
from trireme.packages.use import AGAIN
from trireme.pipeline import catalog
from trireme.tracking.journal import TRAINING

PARAMS = {
    "code_url": "https://example.org/models.git",
    "code_revision": "main",
    "entrypoint": "train.py",
    "dataset_uri": "pvc://flowers/all",
    "workers": 2,
    "seed": 7,
}
REPRODUCE = ("reproduce", "original", "--target", "kfp", "--dataset-claim", "flowers")
DONE = dict.fromkeys(("checkout", "dataset", "train", "finish"), "SUCCEEDED")
OWN = """
from kfp import dsl
from trireme import WORKSPACE, checkout, dataset, evaluate, finishing, train


@dsl.pipeline(name="flowers", pipeline_config=WORKSPACE)
def flowers(code_url: str):
    with finishing("flowers"):
        code, data = checkout(code_url, requirements=["tiny"]), dataset("pvc://flowers/all")
        trained = train(code, data, entrypoint="train.py")
        evaluate(trained, code, data, entrypoint="train.py")
"""


@pytest.fixture
def original(kubeflow, untracked, mlflow_store, monkeypatch):
    """Makes the record of a run, which the next run on Kubeflow makes again."""
    untracked.mkdir()
    (untracked / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{untracked}/mlflow.db")

    def make(again="weights", state="SUCCEEDED", pipeline="pytorch-training", **tags):
        tags = {"code": PARAMS["code_url"]} | tags
        params = catalog.load("pytorch-training").complete(PARAMS, {"flowers"})
        record(untracked, "original", params, pipeline, **tags)

        def run_there():
            run = kubeflow.only_run()
            given = run["runtime_config"]["parameters"]
            name = run["display_name"]
            record(untracked, name, given, f"{pipeline}-again", again, **tags)

        kubeflow.states, kubeflow.on_look = [(state, DONE)], run_there

    return make


def in_mlflow(name):
    client = mlflow.MlflowClient()
    (experiment,) = client.search_experiments(filter_string="name = 'digits'")
    query = f"attributes.run_name = '{name}'"
    (run,) = client.search_runs([experiment.experiment_id], query)
    return run


def checkout_of(kubeflow):
    """Returns the container of the step that checks out."""
    (version,) = kubeflow.versions.values()
    spec = version["pipeline_spec"]["pipeline_spec"]
    return spec["deploymentSpec"]["executors"]["exec-checkout"]["container"]


def test_it_trains_there_and_the_models_are_compared(trireme, kubeflow, original):
    original()
    status, output, errors = trireme(*REPRODUCE)
    assert (status, errors) == (0, "")
    assert output.splitlines()[-1] == "the model is bit-identical, 1 file, as that of original"
    run = kubeflow.only_run()
    given = run["runtime_config"]["parameters"]
    assert {name: given[name] for name in PARAMS} == PARAMS | {"code_revision": COMMIT}
    assert (given["experiment"], given["start"]) == ("digits", "")
    assert AGAIN not in {one["name"] for one in checkout_of(kubeflow)["env"]}
    again = in_mlflow(run["display_name"])
    assert again.data.tags["reproduces"] == in_mlflow("original").info.run_id
    assert again.data.tags["reproduction"] == "is bit-identical, 1 file"


def test_a_model_that_differs_is_told_with_what_differs_of_the_pods(trireme, original):
    original(again="others")
    mlflow.MlflowClient().set_tag(in_mlflow("original").info.run_id, "cpu", "i486, 1 core")
    status, _, errors = trireme(*REPRODUCE)
    warning, error = errors.splitlines()
    assert status == 1
    assert warning.startswith("warning: CPU was i486, 1 core and is ")
    assert "error: the model differs in 1 of 1 file, most in model.pt" in error
    assert error.count("runs:/") == 2


@pytest.fixture
def folder(make_repository, monkeypatch):
    """A folder with a commit that a run was trained with, and one that came later."""
    made = make_repository("code")
    (made.directory / "train.py").write_text("print('trains')")
    trained = made.commit("one")
    made.commit("two")
    monkeypatch.setattr(bundle, "keep", lambda bundle, connect: None)
    return {"code": f"file://{made.directory}", "commit": trained}


def test_a_folder_travels_as_it_was_when_it_was_trained_with(trireme, kubeflow, original, folder):
    original(**folder)
    status, _, errors = trireme(*REPRODUCE)
    assert (status, errors) == (0, "")
    given = kubeflow.only_run()["runtime_config"]["parameters"]
    assert given["code_url"].endswith(folder["commit"])
    assert given["code_revision"] == folder["commit"]


def test_a_pipeline_that_cannot_be_told_the_commit_is_refused(
    trireme, kubeflow, original, folder, tmp_path
):
    original(pipeline="flowers", **folder)
    (tmp_path / "flowers.py").write_text(OWN)
    status, _, errors = trireme(*REPRODUCE, f"{tmp_path}/flowers.py")
    assert (status, kubeflow.seen) == (2, [])
    assert f"error: original was trained with the commit {folder['commit']}" in errors


def test_a_run_that_fails_there_is_not_compared(trireme, kubeflow, original):
    original(state="FAILED")
    status, _, errors = trireme(*REPRODUCE)
    run = kubeflow.only_run()["display_name"]
    assert (status, f"error: run {run} failed" in errors) == (1, True)
    assert "reproduces" not in in_mlflow(run).data.tags


def test_the_checkout_is_told_whose_packages_it_installs(trireme, kubeflow, original, tmp_path):
    original(pipeline="flowers", packages="abc")
    (tmp_path / "flowers.py").write_text(OWN)
    status, _, errors = trireme(*REPRODUCE, f"{tmp_path}/flowers.py")
    assert (status, errors) == (0, "")
    training = in_mlflow("original").data.tags[TRAINING]
    assert {"name": AGAIN, "value": training} in checkout_of(kubeflow)["env"]
    # A newer version of the pipeline's own name is what its schedules would run.
    (pipeline,) = kubeflow.pipelines.values()
    (version,) = kubeflow.versions.values()
    spec = version["pipeline_spec"]["pipeline_spec"]
    assert pipeline["name"] == spec["pipelineInfo"]["name"] == "flowers-reproduction"
    assert spec["root"]["dag"]["tasks"].keys() == {*DONE}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (REPRODUCE[:4], "dataset_uri 'pvc://flowers/all'"),
        ((*REPRODUCE, "--images", "none.yaml"), "--images none.yaml"),
        ((REPRODUCE[0], "none-such", *REPRODUCE[2:]), "there is no run of that id or name"),
        (("reproduce", "original", "--cache-claim", "x"), "--cache-claim needs --target kfp or"),
    ],
)
def test_a_mistake_is_told_before_anything_is_made(trireme, kubeflow, original, words, why):
    original()
    status, output, errors = trireme(*words)
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert why in errors
    assert kubeflow.seen == []


def test_what_a_run_started_from_has_to_be_there(trireme, kubeflow, original):
    original()
    mlflow.MlflowClient().set_tag(in_mlflow("original").info.run_id, "warm_start.run", "0" * 32)
    status, _, errors = trireme(*REPRODUCE)
    assert (status, kubeflow.seen) == (2, [])
    assert f"the model that original started from, of run {'0' * 32}, is no longer in" in errors


def test_the_record_has_to_be_on_a_server(trireme, kubeflow, untracked):
    status, _, errors = trireme(*REPRODUCE)
    assert (status, errors.count("\n"), kubeflow.seen) == (2, 1, [])
    assert "--target kfp: MLFLOW_TRACKING_URI has to name the server" in errors
