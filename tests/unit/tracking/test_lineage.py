"""trireme/tracking/lineage.py and the refusals of ``trireme reproduce``, on a real store."""

import dataclasses
import re
import shutil
from pathlib import Path

import mlflow
import pytest
import tracking_uri
from recorded import COMMIT, record

from trireme.code import builtin
from trireme.errors import InputError
from trireme.frameworks import FRAMEWORKS
from trireme.packages import install, use
from trireme.pipelines import reproduction
from trireme.tracking import journal, lineage, machine, registry, store
from trireme.tracking.batch import PARAMETER_LIMIT

PARAMS = {
    "code_url": "../models",
    "code_revision": "main",
    "args": ["--name", "it's", "--rate", "0.5"],
    "job": {"retries": 3, "env": {"A": "1"}, "suspend": False},
    "seed": 7,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory, mlflow_store):
    """A store with a run as a pipeline leaves it; what this process knows of MLflow is put back."""
    home = tmp_path_factory.mktemp("home")
    shutil.copy(mlflow_store, home)
    before = tracking_uri.told()
    with pytest.MonkeyPatch.context() as environment:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
            environment.delenv(name, raising=False)
        environment.setenv("TRIREME_HOME", str(home))
        record(home, "whole-run", PARAMS, git_dirty="true")
        store.use()
        yield home
    mlflow.set_tracking_uri(before)


def arguments(of):
    return reproduction.arguments(reproduction.pipeline(of, ""), of)


@pytest.fixture(scope="module")
def whole(home):
    return lineage.read("whole-run")


@pytest.fixture
def run(home):
    """Makes a run with tags, which is removed again; returns its id."""
    client = mlflow.MlflowClient()
    made = []

    def make(**tags):
        experiment = client.get_experiment_by_name("digits").experiment_id
        tags = {name.replace("_", "."): value for name, value in tags.items()}
        made.append(client.create_run(experiment, tags=tags, run_name="another").info.run_id)
        return made[-1]

    yield make
    for run_id in made:
        client.delete_run(run_id)


def test_a_run_is_known_by_its_id_and_by_its_name(whole):
    assert lineage.read(whole.run_id) == whole


def test_what_it_was_made_from_is_read(whole):
    assert (whole.name, whole.experiment, whole.framework) == ("whole-run", "digits", "pytorch")
    assert (whole.code, whole.commit) == ("file:///models", COMMIT)
    assert whole.fingerprint == "sha256:abc"
    assert {"Python", "CPU", "torch", "numpy"} <= set(whole.machine)


def test_its_model_is_brought(whole, tmp_path):
    model = lineage.download_model(whole, tmp_path / "original")
    assert (model / "model.pt").read_text() == "weights"


def test_nothing_has_changed_on_the_machine_that_it_ran_on(whole):
    assert lineage.changes(whole, lineage.this_machine()) == []


def test_what_has_changed_is_named(whole):
    then = whole.machine | {"numpy": "1.0", "gone": "2.0", "CPU": "i486, 1 core"}
    told = lineage.changes(dataclasses.replace(whole, machine=then), lineage.this_machine())
    now = whole.machine
    assert f"CPU was i486, 1 core and is {now['CPU']}" in told
    assert f"numpy was 1.0 and is {now['numpy']}" in told
    assert "gone was 2.0 and is not installed" in told
    assert len(told) == 3


def test_what_a_run_left_is_a_start(whole, tmp_path):
    start = f"{lineage.OF_A_RUN}{whole.run_id}"
    with journal.opened(tmp_path, "train"):
        folder = lineage.start_folder(start, tmp_path)
        assert Path(folder, "model.pt").read_text() == "weights"
        assert lineage.start_folder(start, tmp_path) == folder  # a step that is tried again
    assert {"tags": {lineage.START: whole.run_id}}.items() <= journal.read(tmp_path, "train")[
        -1
    ].items()
    assert lineage.start_folder("/workspace/before", tmp_path) == "/workspace/before"
    assert lineage.has_trained(whole.run_id)


@pytest.mark.parametrize("gone", ["0" * 32, "x"])
def test_a_start_that_is_gone_is_refused(home, tmp_path, gone):
    assert not lineage.has_trained(gone)
    with pytest.raises(InputError, match="the model of that run is no longer in MLflow"):
        lineage.start_folder(f"{lineage.OF_A_RUN}{gone}", tmp_path)


def test_its_parameters_have_their_types_again_and_its_commit(whole):
    given = _given(whole) | {"start": "/tmp/gone"}
    of = dataclasses.replace(whole, params=given, code="/models", start="abc")
    values = arguments(of)
    assert values["args"] == PARAMS["args"]
    assert values["job"] == PARAMS["job"]
    assert values["seed"] == 7
    assert values["code_revision"] == COMMIT
    assert (values["code_url"], values["start"]) == ("/models", "runs:/abc")
    assert values["experiment"] == "digits"
    assert values["processes_per_worker"] == 1


def test_the_trainers_that_trireme_carries_have_to_be_the_same(whole):
    given = _given(whole) | {"code_url": "", "entrypoint": FRAMEWORKS["pytorch"].trainer}
    run = dataclasses.replace(whole, params=given, code=builtin.URL, trainers="0.0.9")
    values = arguments(dataclasses.replace(run, commit=builtin.commit()))
    assert (values["code_url"], values["code_revision"]) == ("", "")
    with pytest.raises(InputError, match=r"was trained with the trainers of Trireme 0\.0\.9, "):
        arguments(run)


@pytest.mark.parametrize("name", ["args", "entrypoint"])
def test_a_parameter_that_mlflow_has_cut_is_refused(whole, name):
    cut = ("['" + "x" * PARAMETER_LIMIT)[:PARAMETER_LIMIT]
    given = _given(whole) | {name: cut}
    with pytest.raises(InputError, match=f"does not have its parameter {name} whole"):
        arguments(dataclasses.replace(whole, params=given))


def _given(whole):
    """The parameters of a real pipeline's run, as MLflow has them."""
    defaults = {
        "code_url": "models",
        "code_secret": "",
        "code_directory": "",
        "entrypoint": "train.py",
        "dataset_uri": "builtin://digits",
        "dataset_secret": "",
        "dataset_options": "{}",
        "workers": "1",
        "time_limit": "0",
        "image": "",
        "model_name": "classifier",
    }
    return defaults | whole.params


@pytest.mark.parametrize("unknown", ["none-such", "0" * 32, "' or 1 = 1", "", "../x"])
def test_a_run_that_there_is_not_is_refused(home, unknown):
    with pytest.raises(InputError, match="there is no run of that id or name"):
        lineage.read(unknown)


def test_a_name_that_several_have_is_refused(run):
    run(), run()
    with pytest.raises(
        InputError, match="there are 2 runs of that name in MLflow; give the id of one"
    ):
        lineage.read("another")


def test_a_step_stands_for_the_run_that_it_is_of(whole):
    assert lineage.read(whole.training_id) == whole


@pytest.fixture
def champion(whole, tmp_path):
    """Makes a file that came out of a run the champion; returns the model's name."""
    client = mlflow.MlflowClient()
    name = f"champion-of-{tmp_path.name}"
    client.create_registered_model(name)

    def make(pipeline_run):
        client.log_text(whole.run_id, "onnx", "out/model.onnx")
        source = f"{client.get_run(whole.run_id).info.artifact_uri}/out"
        tags = {"pipeline_run": pipeline_run, "weights": "7"}
        version = client.create_model_version(name, source, whole.run_id, tags=tags).version
        client.set_registered_model_alias(name, registry.CHAMPION, version)
        return name

    yield make
    client.delete_registered_model(name)


def test_a_champion_is_brought_with_what_its_training_left_if_that_is_wanted(
    champion, whole, tmp_path
):
    name = champion(whole.run_id)
    registry.download_champion(name, tmp_path / "champion")
    found = registry.load_champion(tmp_path / "champion")
    assert (found.version, found.tags["weights"], found.trained) == ("1", "7", None)
    assert found.onnx.read_text() == "onnx"
    registry.download_champion(name, tmp_path / "champion", trained=True)
    trained = registry.load_champion(tmp_path / "champion").trained
    assert (trained / "model.pt").read_text() == "weights"


@pytest.mark.parametrize("run", ["", "0" * 32])
def test_a_champion_whose_training_is_forgotten_is_brought_without(champion, run, tmp_path):
    registry.download_champion(champion(run), tmp_path / "champion", trained=True)
    found = registry.load_champion(tmp_path / "champion")
    assert found.onnx and found.trained is None


def test_without_a_champion_nothing_is_brought(home, tmp_path):
    (tmp_path / "champion").mkdir()  # of an earlier attempt
    registry.download_champion("none-such", tmp_path / "champion")
    assert registry.load_champion(tmp_path / "champion") is None


COMPLETE = {"pipeline": "p", "git_commit": COMMIT, "dataset_fingerprint": "sha256:abc"}


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("pipeline", "is not a run of a Trireme pipeline"),
        ("git_commit", "has no record of the commit, the tag git.commit"),
        ("dataset_fingerprint", "has no record of the fingerprint of its dataset"),
        ("", "has no model to compare with"),
    ],
)
def test_a_run_that_does_not_say_enough_is_refused(run, missing, why):
    run_id = run(**{name: value for name, value in COMPLETE.items() if name != missing})
    with pytest.raises(InputError, match=re.escape(why)) as refused:
        lineage.read(run_id)
    assert f"run another ({run_id})" in str(refused.value)


def test_the_command_refuses_in_one_sentence(trireme, untracked):
    status, output, errors = trireme("reproduce", "some-run")
    assert (status, output) == (2, "")
    assert errors.startswith("error: nothing has run on this machine yet: there is no ")
    assert len(errors.splitlines()) == 1
    assert not untracked.exists()


@pytest.mark.parametrize(("set_to", "told"), [("", ""), ("3", ", OMP_NUM_THREADS=3")])
def test_the_cpu_is_named_with_its_cores_and_threads(monkeypatch, set_to, told):
    monkeypatch.setenv("OMP_NUM_THREADS", set_to)
    assert re.fullmatch(rf".+, \d+ cores?{told}", machine.cpu())


def test_a_step_that_is_told_a_training_installs_its_packages(whole, tmp_path, monkeypatch):
    lock = f"--no-index\n# {install._PLATFORM}\n"  # of no package beside those that are there
    mlflow.MlflowClient().log_text(whole.training_id, lock, journal.PACKAGES)
    monkeypatch.setenv(use.AGAIN, whole.training_id)
    install.install(["tiny==1.0"], tmp_path, tmp_path)
    assert Path(use.folder(tmp_path), journal.PACKAGES).read_text() == lock
