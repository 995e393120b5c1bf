"""trireme run --target kfp, and list, status, cancel and retry of runs there."""

import json
import os
import pty
import signal
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trireme.code import bundle
from trireme.errors import InputError
from trireme.pipeline import catalog
from trireme.progress import Progress
from trireme.runner.cluster import jobs
from trireme.targets import remote
from trireme.targets.kubeflow import parameters, runs, uploading
from trireme.targets.kubeflow.target import Kubeflow
from trireme.tracking import abandoned_runs

GOOD = [
    ("PENDING", {}),
    ("RUNNING", {"checkout": "PENDING"}),
    ("RUNNING", {"checkout": "RUNNING"}),
    ("RUNNING", {"checkout": "SUCCEEDED", "dataset": "RUNNING"}),
    ("RUNNING", {"checkout": "SUCCEEDED", "dataset": "SUCCEEDED", "train": "RUNNING"}),
    ("SUCCEEDED", {"checkout": "SUCCEEDED", "dataset": "SUCCEEDED", "train": "SUCCEEDED"}),
]
BAD = [("RUNNING", {"checkout": "RUNNING"}), ("FAILED", {"checkout": "FAILED"})]
RUN = ("run", "pytorch-training", "--target", "kfp")


def test_a_run_is_followed_to_its_end_in_the_words_of_a_run_here(trireme, kubeflow, untracked):
    kubeflow.states = GOOD
    status, output, errors = trireme(*RUN)
    assert (status, errors) == (0, "")
    said = [line.split(" in ")[0] for line in output.splitlines()]
    name = kubeflow.only_run()["display_name"]
    begun = said.index(f"{name} started")
    assert [line for line in said[begun + 1 :] if line and not line.startswith("  ")] == [
        "checkout  started",
        "checkout  finished",
        "dataset   started",
        "dataset   finished",
        "train     started",
        "train     finished",
        f"{name} FINISHED",
    ]
    run_id = kubeflow.only_run()["run_id"]
    assert f"  Page  {kubeflow.url}/#/runs/details/{run_id}" in output.splitlines()
    assert not untracked.exists()


def test_how_far_its_training_is_is_shown_meanwhile(trireme, kubeflow, monkeypatch):
    told = iter([None, Progress(0.3, "30%, 0:07 left"), Progress(0.31, "31%, 0:07 left")])
    monkeypatch.setattr(remote, "PROGRESS_PAUSE", 0.0)
    monkeypatch.setattr(Kubeflow, "training_jobs", lambda self, run: (None, run.id))
    monkeypatch.setattr(jobs, "progress_of_run", lambda cluster, run: next(told, None))
    training = ("RUNNING", {"train": "RUNNING"})
    kubeflow.states = [training] * 3 + [("SUCCEEDED", {"train": "SUCCEEDED"})]
    status, output, errors = trireme(*RUN)
    assert (status, errors) == (0, "")
    assert "train     started\ntrain     30%, 0:07 left\ntrain     finished" in output


@pytest.mark.parametrize(("state", "shown"), [("SUCCEEDED", "finished"), ("FAILED", "killed")])
def test_a_step_that_is_told_to_run_when_its_run_has_ended_ended_with_it(
    trireme, kubeflow, state, shown
):
    """As Kubeflow 2.17's answer has the last step of a run at times."""
    kubeflow.states = [("RUNNING", {"train": "SUCCEEDED"}), (state, {"finish": "RUNNING"})]
    _, output, _ = trireme(*RUN)
    assert f"\nfinish    started\nfinish    {shown}" in output


def test_a_run_that_has_failed_is_looked_at_once_more_for_the_step_that_did(trireme, kubeflow):
    kubeflow.states = [
        ("RUNNING", {"train": "RUNNING"}),
        ("FAILED", {"train": "RUNNING"}),
        ("FAILED", {"train": "FAILED"}),
    ]
    status, output, errors = trireme(*RUN)
    assert (status, errors.endswith(" failed at train\n")) == (1, True)
    assert "\ntrain     started\ntrain     failed" in output
    assert "killed" not in output


def test_a_run_takes_the_folder_along(trireme, kubeflow, make_repository, monkeypatch):
    repository = make_repository("code")
    repository.commit("one")
    (repository.directory / "train.py").write_text("print('not committed')")
    kept = []
    monkeypatch.setattr(bundle, "keep", lambda bundle, connect: kept.append(bundle))
    words = ("-p", f"code_url={repository.directory}", "-p", "entrypoint=train.py")
    status, _, errors = trireme(*RUN, "--no-wait", *words)
    assert (status, errors) == (0, f"{repository.directory} travels with 1 uncommitted file\n")
    given = kubeflow.only_run()["runtime_config"]["parameters"]
    assert [given["code_url"]] == [each.url for each in kept]


@pytest.mark.parametrize(
    ("given", "name"), [((), "pytorch-training"), (("-p", "experiment=ours"), "ours")]
)
def test_kubeflows_mlflow_plugin_is_told_the_experiment(trireme, kubeflow, given, name):
    kubeflow.states = GOOD
    status, output, _ = trireme(*RUN, *given)
    assert kubeflow.only_run()["plugins_input"] == {"mlflow": {"experiment_name": name}}
    assert (status, "note:" in output) == (0, False)


@pytest.mark.parametrize(
    ("mlflow", "said"),
    [
        (None, "plugin is off: the run is recorded if its namespace has a Secret trireme-mlflow"),
        (
            {"state": "PLUGIN_FAILED", "state_message": "no such host"},
            "note: Kubeflow's MLflow plugin does not record the run: no such host",
        ),
    ],
)
def test_a_run_that_the_plugin_does_not_record_is_told_of(trireme, kubeflow, mlflow, said):
    kubeflow.states, kubeflow.mlflow = GOOD, mlflow
    status, output, _ = trireme(*RUN)
    assert status == 0
    assert said in output


def test_where_the_secret_is_there_nothing_is_said_of_a_plugin_that_is_off():
    run = SimpleNamespace(source=SimpleNamespace(plugins_output=None))
    assert runs.recording_note(run, lambda: True) == ""
    assert "plugin is off" in runs.recording_note(run, lambda: False)


def test_what_is_run_is_the_version_that_was_uploaded(trireme, kubeflow):
    kubeflow.states = GOOD
    trireme("upload", "pytorch-training")
    status, output, _ = trireme(*RUN)
    assert status == 0
    assert "pytorch-training is there already, unchanged" in output
    (version,) = kubeflow.versions.values()
    assert kubeflow.only_run()["pipeline_version_reference"] == {
        "pipeline_id": version["pipeline_id"],
        "pipeline_version_id": version["pipeline_version_id"],
    }


@pytest.mark.parametrize("experiment", ["", "flowers"])
def test_it_is_in_the_experiment_that_is_made_once(trireme, kubeflow, experiment):
    kubeflow.states = GOOD
    for _ in range(2):
        assert trireme(*RUN, "-p", f"experiment={experiment}")[0] == 0
    (made,) = kubeflow.experiments.values()
    assert made["display_name"] == (experiment or "pytorch-training")
    assert {run["experiment_id"] for run in kubeflow.runs.values()} == {made["experiment_id"]}


def test_several_users_have_a_namespace_each(trireme, kubeflow):
    kubeflow.multi_user, kubeflow.states = True, GOOD
    assert trireme(*RUN, "--namespace", "team")[0] == 0
    (experiment,) = kubeflow.experiments.values()
    assert experiment["namespace"] == "team"
    status, output, _ = trireme("list", "--target", "kfp", "-n", "team")
    assert (status, len(output.splitlines())) == (0, 2)
    assert trireme("list", "--target", "kfp", "-n", "others")[1] == ""


def test_a_run_that_fails_is_exit_status_1_and_says_where(trireme, kubeflow):
    kubeflow.states = BAD
    status, output, errors = trireme(*RUN)
    name = kubeflow.only_run()["display_name"]
    assert (status, errors) == (1, f"error: run {name} failed at checkout\n")
    assert f"{name} FAILED" in output
    assert "checkout  failed in" in output


def test_no_wait_returns_at_once_and_says_how_to_look(trireme, kubeflow):
    status, output, _ = trireme(*RUN, "--no-wait")
    run = kubeflow.only_run()
    assert (status, run["state"]) == (0, "PENDING")
    assert f"trireme status {run['run_id']} --target kfp" in output
    assert not any(f"runs/{run['run_id']}" in path for path, _ in kubeflow.seen)


def test_faults_while_it_is_followed_are_waited_out(trireme, kubeflow):
    kubeflow.states = GOOD
    kubeflow.faults = [""] * 9 + ["503", "reset", "", "401", "lost", "500"]
    status, output, errors = trireme(*RUN)
    assert (status, errors, kubeflow.faults) == (0, "", [])
    assert output.count("train     finished") == 1


def test_when_it_can_no_longer_be_followed_it_is_said_that_it_goes_on(trireme, kubeflow):
    kubeflow.states = GOOD
    kubeflow.on_look = lambda: kubeflow.faults.append("403")
    status, output, errors = trireme(*RUN)
    assert (status, errors.count("\n")) == (1, 1)
    assert "does not allow that" in errors
    assert "goes on; cancel it with: trireme cancel" in output


def test_a_run_whose_start_was_not_heard_of_is_not_started_twice(kubeflow):
    connection = Kubeflow(kubeflow.url).connection
    version = uploading.upload(connection, catalog.load("pytorch-training"))
    arguments = catalog.load("pytorch-training").complete({}, set())
    kubeflow.faults = ["", "", "lost"]
    started = runs.start(connection, version, "name", "experiment", arguments)
    assert started.id == kubeflow.only_run()["run_id"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_a_terminal_a_signal_leaves_the_run_going(trireme, kubeflow, number):
    kubeflow.states = [("RUNNING", {"checkout": "RUNNING"})]
    kubeflow.on_look = lambda: os.kill(os.getpid(), number)
    status, output, errors = trireme(*RUN)
    run = kubeflow.only_run()
    assert (status, errors, run["state"]) == (128 + number, "", "RUNNING")
    assert output.splitlines()[-1] == (
        f"{run['display_name']} goes on; cancel it with: trireme cancel {run['run_id']} "
        "--target kfp"
    )


@pytest.mark.parametrize(("wants_it", "slow"), [(True, True), (True, False), (False, True)])
def test_at_a_terminal_it_is_asked_whether_to_cancel(
    trireme, kubeflow, monkeypatch, wants_it, slow
):
    kubeflow.slow_to_end = slow
    kubeflow.states = [("RUNNING", {"checkout": "RUNNING"})]
    monkeypatch.setattr(remote, "_wants_it_cancelled", lambda run: wants_it)
    kubeflow.on_look = lambda: os.kill(os.getpid(), signal.SIGINT)
    status, output, errors = trireme(*RUN)
    run = kubeflow.only_run()
    assert (status, errors) == (130, "")
    assert run["state"] == ("FAILED" if wants_it else "RUNNING")
    assert ("is being cancelled" in output) == wants_it
    assert ("goes on; cancel it with" in output) == (not wants_it)
    assert (f"{run['display_name']} KILLED" in output) == wants_it


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("workers=two", "parameter workers: 'two' is not a whole number"),
        ("worker=2", "did you mean workers?"),
        ('job={"gpus": 1}', "did you mean gpu?"),
        ("seed=-1", "seed -1: must be between 0 and 4294967295"),
        ("workers=1000", "workers"),
        ("dataset_uri=pvc://birds/train", "the claim is not mounted; compile the pipeline with"),
        ("dataset_uri=nfs://server/export", "the pods of a pipeline mount only claims"),
        ("code_revision=[[CurrentTime]]", "code_revision"),
        ("code_revision=main", "code_revision 'main' is given without code_url; give its"),
        ("code_directory=models", "code_directory 'models' is given without code_url; give its"),
        ("entrypoint=train.py", "entrypoint 'train.py' is not one of Trireme's trainers"),
        ('args=["[[RunUUID]]"]', "[[RunUUID]] would be replaced by Kubeflow Pipelines"),
        ('evaluation={"entrypoint": "e.py", "args": [NaN]}', "evaluation"),
        (f"experiment={'x' * 129}", "Kubeflow Pipelines takes at most 128 letters"),
    ],
)
def test_parameters_are_checked_before_anything_is_sent(trireme, kubeflow, given, said):
    status, _, errors = trireme(*RUN, "-p", given)
    assert (status, errors.count("\n")) == (2, 1)
    assert said in errors
    assert kubeflow.seen == []


def test_what_only_this_machine_could_tell_is_not_checked(trireme, kubeflow):
    code = ["code_url=https://git.invalid/code.git", "code_secret=there-only"]
    there = [*code, "dataset_uri=oss://bucket/flowers"]
    more = ["dataset_secret=there-too", 'dataset_options={"region": "cn-hangzhou"}']
    given = [word for pair in [*there, *more] for word in ("-p", pair)]
    assert trireme(*RUN, "--no-wait", *given)[0] == 0
    assert kubeflow.only_run()["runtime_config"]["parameters"]["code_secret"] == "there-only"
    assert trireme("run", "pytorch-training", *given)[0] == 2


def test_a_claim_that_is_mounted_may_be_used(trireme, kubeflow):
    claim = ["--dataset-claim", "birds", "-p", "dataset_uri=pvc://birds/train"]
    assert trireme(*RUN, "--no-wait", *claim)[0] == 0


@pytest.mark.parametrize("option", [["--images", "f"], ["--cache-claim", "c"], ["--context", "c"]])
def test_options_for_kubeflow_are_refused_for_a_run_here(trireme, untracked, option):
    status, _, errors = trireme("run", "pytorch-training", *option)
    assert (status, errors) == (2, f"error: {option[0]} needs --target kfp or argo\n")
    assert not untracked.exists()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OF_EACH_TYPE = {
    "code_url": TEXTS,
    "seed": st.integers(-(2**53), 2**53),
    "min_accuracy": NUMBERS.map(float),
    "args": st.lists(VALUES, max_size=4),
    "job": st.dictionaries(TEXTS, VALUES, max_size=4),
}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(given=st.fixed_dictionaries(OF_EACH_TYPE))
def test_values_of_any_kind_arrive_unchanged_or_are_refused(kubeflow, given):
    connection = _connected(kubeflow)
    pipeline = catalog.load("pytorch-training")
    arguments = {name: each.default for name, each in pipeline.parameters.items()} | given
    try:
        parameters.check(arguments)
    except InputError:
        # The only texts that are refused are those that would arrive as something else.
        assert "[[" in json.dumps(given)
        return
    version = kubeflow.__dict__.setdefault("version", None) or uploading.upload(
        connection, pipeline
    )
    kubeflow.version = version
    kubeflow.runs.clear()
    runs.start(connection, version, "name", "experiment", arguments)
    arrived = kubeflow.only_run()["runtime_config"]["parameters"]
    assert _typed(arrived) == _typed(arguments)


def _connected(kubeflow):
    if "connected" not in kubeflow.__dict__:
        kubeflow.connected = Kubeflow(kubeflow.url).connection
    return kubeflow.connected


def _typed(value):
    """A value with its JSON type, so that true is not 1; the server's numbers are all doubles."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ("number", float(value))
    return (type(value).__name__, value)


def test_what_kubeflow_would_replace_is_refused():
    with pytest.raises(InputError, match=r"\[\[CurrentTime.2006\]\] would be replaced"):
        parameters.check({"code_url": "a[[CurrentTime.2006]]"})


@pytest.fixture
def started(trireme, kubeflow):
    """Starts a run with these states; returns it as the server has it."""

    def start(*states):
        kubeflow.states = list(states)
        before = set(kubeflow.runs)
        assert trireme(*RUN, "--no-wait")[0] == 0
        (run_id,) = set(kubeflow.runs) - before
        return kubeflow.runs[run_id]

    return start


def test_no_record_is_ended_while_another_run_of_its_name_goes_on(monkeypatch):
    ended = {}
    monkeypatch.setattr(abandoned_runs, "end", ended.update)
    states = (("nightly", "RUNNING"), ("nightly", "FAILED"), ("weekly", "FAILED"))
    runs = [SimpleNamespace(name=name, state=state) for name, state in states]
    assert Kubeflow("http://127.0.0.1:9").catch_up(runs)
    assert ended == {"weekly": "FAILED"}


def test_list_shows_the_latest_first(trireme, kubeflow, started):
    first, second = started(), started(("FAILED", {}))
    assert trireme("status", second["run_id"], "--target", "kfp")[0] == 0  # as time goes by
    status, output, _ = trireme("list", "--target", "kfp")
    head, *rows = [line.split() for line in output.splitlines()]
    assert (status, head) == (0, ["NAME", "STATE", "AGE", "SECONDS", "ID"])
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        (second["display_name"], "FAILED", second["run_id"]),
        (first["display_name"], "pending", first["run_id"]),
    ]


@pytest.mark.parametrize("key", ["run_id", "display_name"])
def test_status_shows_the_steps_that_the_pipeline_has(trireme, kubeflow, started, key):
    run = started(("RUNNING", {"checkout": "SUCCEEDED", "dataset": "FAILED"}))
    status, output, _ = trireme("status", run[key], "--target", "kfp")
    lines = output.splitlines()
    assert status == 0
    assert lines[0].startswith(f"{run['display_name']}: running, ")
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["STEP", "STATE"],
        ["checkout", "FINISHED"],
        ["dataset", "FAILED"],
    ]
    assert lines[4:] == [
        f"  Id    {run['run_id']}",
        f"  Page  {kubeflow.url}/#/runs/details/{run['run_id']}",
    ]


def test_a_picture_without_mlflow_has_what_the_server_tells(
    trireme, kubeflow, started, tmp_path, monkeypatch
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = started(("RUNNING", {"checkout": "SUCCEEDED", "dataset": "FAILED"}))
    file = tmp_path / "run.html"
    status, output, errors = trireme("report", run["run_id"], "--target", "kfp", "-o", str(file))
    assert (status, output, errors) == (0, f"{file}\n", "")
    text = file.read_text()
    assert 'title="checkout: FINISHED, ' in text  # its bar in the time line
    assert "What failed: dataset" in text
    assert "not in this picture: MLFLOW_TRACKING_URI is not set" in text


def test_a_run_is_cancelled_once(trireme, kubeflow, started):
    run = started(("RUNNING", {}))
    there = (run["display_name"], "--target", "kfp")
    kubeflow.faults = [""] * 3 + ["lost"]  # its effect is seen all the same
    status, output, _ = trireme("cancel", *there)
    assert status == 0
    assert output.startswith(
        f"{run['display_name']} was cancelled; whether its training job has ended is not known: no "
    )
    assert "KILLED" in trireme("status", *there)[1]
    status, _, errors = trireme("cancel", *there)
    assert status == 2
    assert errors == f"error: run {run['display_name']} has ended already: KILLED\n"


def test_a_run_that_has_failed_is_tried_again(trireme, kubeflow, started):
    run = started(*BAD)
    there = (run["run_id"], "--target", "kfp")
    status, _, errors = trireme("resume", *there)
    assert (status, run["state"]) == (2, "RUNNING")
    assert "is running; only one that failed or was killed can be resumed" in errors
    kubeflow.faults = ["", "", "lost"]
    kubeflow.states = GOOD
    status, _, errors = trireme("resume", *there, "-p", "gate={}")
    assert status == 2
    assert "a run on a cluster is resumed with the parameters that it has" in errors
    status, output, _ = trireme("resume", *there)
    assert (status, output) == (0, f"{run['display_name']} is being resumed\n")
    assert run["state"] in ("PENDING", "RUNNING")


@pytest.mark.parametrize("command", ["status", "report", "cancel", "resume"])
@pytest.mark.parametrize("name", ["unknown", "00000000-0000-0000-0000-000000000000"])
def test_a_run_that_is_not_there_is_one_sentence(trireme, kubeflow, command, name):
    status, _, errors = trireme(command, name, "--target", "kfp")
    assert (status, errors.count("\n")) == (2, 1)
    assert "there is no run" in errors
    assert name in errors
    assert kubeflow.url in errors


def test_of_two_runs_with_one_name_the_id_says_which(trireme, kubeflow, started):
    first, second = started(), started()
    second["display_name"] = first["display_name"]
    status, _, errors = trireme("status", first["display_name"], "--target", "kfp")
    assert (status, errors.count("\n")) == (2, 1)
    assert first["run_id"] in errors
    assert second["run_id"] in errors


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "state"), [(b"y\n", "FAILED"), (b"\n", "RUNNING")])
def test_ctrl_c_at_a_real_terminal_asks_whether_to_cancel(kubeflow, untracked, answer, state):
    kubeflow.states = [("RUNNING", {"checkout": "RUNNING"})]
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-m", "trireme", *RUN]
        os.execve(command[0], command, os.environ | {"TERM": "xterm"})
    shown = b""
    kubeflow.on_look = lambda: os.write(terminal, b"\x03")
    try:
        with suppress(OSError):  # its end
            while part := os.read(terminal, 65536):
                shown += part
                if b"-pytorch-training?" in part:
                    os.write(terminal, answer)
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130, shown.decode()
    assert b"loading pytorch-training" in shown
    assert (b"goes on; cancel it with: trireme cancel" in shown) == (state == "RUNNING")
    assert kubeflow.only_run()["state"] == state
