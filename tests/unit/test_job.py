"""components/training/job.py, manifest.py and the description that launch.py makes of a run."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from components.errors import InputError
from components.tracking import environment
from components.training.job import TrainingJob
from components.training.launch import prepare
from components.training.manifest import render
from components.training.runner import _expand

FIELDS: dict[str, Any] = {
    "image": "example.org/trainer:1",
    "entrypoint": "trainers/train.py",
    "data_dir": "/workspace/data",
    "checkpoint_dir": "/workspace/checkpoints",
    "model_dir": "/workspace/model",
}

RUN: dict[str, Any] = {
    "code": "/workspace/code",
    "data": "/workspace/data",
    "image": "example.org/trainer:1",
    "entrypoint": "train.py",
    "args": [],
    "workers": 1,
    "processes_per_worker": 1,
    "seed": 0,
    "time_limit": 0,
}

NO_NUL = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]))
DOLLARS = st.text(st.sampled_from("$()AZ_.-1 "))


def job(**changes):
    return TrainingJob.create(**FIELDS | changes)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "Train", "must be at most 52 lower-case letters, digits and dashes"),
        ("name", "-train", "must be at most 52 lower-case letters, digits and dashes"),
        ("name", "train-", "must be at most 52 lower-case letters, digits and dashes"),
        ("name", "", "must be at most 52 lower-case letters, digits and dashes"),
        ("name", "a.b", "must be at most 52 lower-case letters, digits and dashes"),
        ("name", "train\n", "must be at most 52 lower-case letters, digits and dashes"),
        ("name", 53 * "a", "must be at most 52 lower-case letters, digits and dashes"),
        ("framework", "tensorflow", "must be 'pytorch'"),
        ("image", 7, "must be a valid string"),
        ("entrypoint", "train.sh", "must be the path of a .py file inside the repository"),
        ("entrypoint", "", "must be the path of a .py file inside the repository"),
        ("entrypoint", "/etc/train.py", "must be the path of a .py file inside the repository"),
        ("entrypoint", "../train.py", "must be the path of a .py file inside the repository"),
        ("entrypoint", "a/../../train.py", "must be the path of a .py file inside"),
        ("entrypoint", "tr\0ain.py", "entrypoint"),
        ("workers", -1, "must be greater than or equal to 0"),
        ("workers", 1000, "must be less than or equal to 999"),
        ("workers", 1.0, "must be a valid integer"),
        ("workers", "2", "must be a valid integer"),
        ("workers", True, "must be a valid integer"),
        ("processes_per_worker", 0, "must be greater than or equal to 1"),
        ("processes_per_worker", 1025, "must be less than or equal to 1024"),
        ("time_limit", 0, "must be greater than or equal to 1"),
        ("args", "--epochs 3", "must be a valid list"),
        ("env", {"A B": "x"}, "'A B' is not the name of an environment variable"),
        ("env", {"1A": "x"}, "'1A' is not the name of an environment variable"),
        ("env", {"": "x"}, "'' is not the name of an environment variable"),
        ("wrokers", 2, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_field_is_named_in_one_sentence(field, value, said):
    with pytest.raises(InputError) as caught:
        job(**{field: value})
    message = str(caught.value)
    assert message.startswith(field)
    assert said in message
    assert "\n" not in message
    assert caught.value.exit_status == 2


def test_a_wrong_argument_is_named_by_its_place():
    with pytest.raises(InputError, match=r"^args\.1 3: must be a valid string$"):
        job(args=["--epochs", 3])


@pytest.mark.parametrize("changes", [{"args": ["a\0b"]}, {"env": {"A": "a\0b"}}])
def test_a_nul_character_is_refused(changes):
    with pytest.raises(InputError, match="args and env cannot hold NUL characters"):
        job(**changes)


@pytest.mark.parametrize("field", FIELDS)
def test_a_missing_field_is_named(field):
    with pytest.raises(InputError, match=f"^{field} .*Field required"):
        TrainingJob.create(**{name: value for name, value in FIELDS.items() if name != field})


@pytest.mark.parametrize("name", ["a", "1", "train", "a-b-2", 52 * "a"])
def test_a_name_from_which_pod_names_can_be_made_is_accepted(name):
    assert job(name=name).name == name


@pytest.mark.parametrize(
    ("workers", "processes", "world_size"), [(0, 1, 1), (1, 1, 2), (2, 2, 6), (999, 1024, 1024000)]
)
def test_the_world_size_counts_every_process_of_master_and_workers(workers, processes, world_size):
    assert job(workers=workers, processes_per_worker=processes).world_size == world_size


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("job-default.yaml", {}),
        ("job-master-only.yaml", {"workers": 0}),
        (
            "job-2-workers-2-processes.yaml",
            {
                "workers": 2,
                "processes_per_worker": 2,
                "args": ["--epochs", "3", "--name", "a b"],
                "env": {"SEED": "7"},
            },
        ),
        ("job-time-limit.yaml", {"time_limit": 3600}),
    ],
)
def test_the_manifest_is_the_golden_one(file, changes, golden):
    golden(file, yaml.safe_dump(render(job(**changes)), sort_keys=False, width=1000))


def test_without_workers_there_is_no_worker_spec():
    assert set(render(job(workers=0))["spec"]["pytorchReplicaSpecs"]) == {"Master"}


def as_given(text: str) -> tuple[str, str]:
    """Returns a text as an argument and as a variable, after the way through a manifest."""
    manifest = render(job(args=[text], env={"GIVEN": text}))
    container = manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][
        0
    ]
    visible = {"DATA_DIR": "wrong", "X": "wrong", "A": "wrong", "GIVEN": "wrong"}
    variable = next(item["value"] for item in container["env"] if item["name"] == "GIVEN")
    return _expand(container["args"][0], visible), _expand(variable, visible)


@given(text=NO_NUL | DOLLARS)
@example(text="$(DATA_DIR)/train.npz")
@example(text="$$(DATA_DIR)")
@example(text="$$$(DATA_DIR)")
@example(text="$(X")
@example(text="price: 5$")
@example(text="$$")
def test_what_is_given_reaches_the_program_untouched(text):
    assert as_given(text) == (text, text)


@given(text=DOLLARS)
def test_text_without_a_known_name_or_double_dollar_stays_as_it_is(text):
    if "$$" not in text:
        assert _expand(text, {}) == text


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("$", "$"),
        ("$$", "$"),
        ("$(A.b-c)", "3"),
    ],
)
def test_variables_are_expanded_as_kubernetes_does(text, expanded):
    assert _expand(text, {"A": "1", "B": "2", "A.b-c": "3"}) == expanded


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": -1}, "seed -1: must be between 0 and 4294967295"),
        ({"seed": 2**32}, "seed 4294967296: must be between 0 and 4294967295"),
        ({"time_limit": -1}, "time_limit -1: must be seconds, or 0 for no limit"),
        ({"workers": -1}, "workers -1: must be greater than or equal to 0"),
        ({"args": [1]}, "args.0 1: must be a valid string"),
    ],
)
def test_a_run_that_could_not_work_is_refused(changes, said):
    with pytest.raises(InputError) as caught:
        prepare(Path("/workspace"), **RUN | changes)
    assert str(caught.value) == said


def test_a_run_becomes_a_job_in_its_workspace():
    described = prepare(Path("/workspace"), **RUN | {"seed": 7, "time_limit": 60})
    assert described.env == {"SEED": "7"}
    assert described.time_limit == 60
    assert described.checkpoint_dir == "/workspace/checkpoints"
    assert Path(described.model_dir).parent == Path("/workspace")
    assert described.model_dir != "/workspace/model"  # which only a whole model is called
    assert prepare(Path("/workspace"), **RUN).time_limit is None


@pytest.mark.parametrize("announced", [False, True])
def test_a_tracking_password_stays_out_of_the_manifest(untracked, monkeypatch, tmp_path, announced):
    given = {"MLFLOW_TRACKING_URI": "https://me:hunter2@example.org", "MLFLOW_RUN_ID": "abc"}
    if announced:
        monkeypatch.setenv(environment.TRACKER, str(tmp_path / "mlflow.json"))
        environment.announce(tmp_path / "mlflow.json", given)
    else:
        for name, value in given.items():
            monkeypatch.setenv(name, value)
    described = prepare(Path("/workspace"), **RUN, tracking=environment.variables())
    assert "hunter2" not in yaml.safe_dump(render(described))
    assert described.env["MLFLOW_RUN_ID"] == "abc"


def test_the_way_to_the_tracking_server_is_in_the_manifest(untracked, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://example.org")
    described = prepare(Path("/workspace"), **RUN, tracking=environment.variables())
    assert described.env["MLFLOW_TRACKING_URI"] == "https://example.org"
