"""trireme/tracking/sync.py: the journal's way into a real MLflow store."""

import json
import math
import os
from pathlib import Path

import numpy as np
import onnx_models
import pytest

from trireme.errors import StepFailed
from trireme.tracking import journal, unsent_metrics
from trireme.tracking.batch import PARAMETER_LIMIT
from trireme.tracking.sync import StepRun, is_whole, sync


def own_tags(client, run_id):
    tags = client.get_run(run_id).data.tags
    return {key: value for key, value in tags.items() if not key.startswith("mlflow.")}


def artifacts(client, run_id, folder=None) -> list[str]:
    return sorted(file.path for file in client.list_artifacts(run_id, folder))


@pytest.mark.slow
def test_everything_recorded_arrives_where_it_belongs(
    client, run, workspace, tmp_path, monkeypatch
):
    from mlflow import MlflowClient

    calls, log_batch = [], MlflowClient.log_batch
    monkeypatch.setattr(
        MlflowClient, "log_batch", lambda *given: calls.append(given[1]) or log_batch(*given)
    )
    (tmp_path / "report.html").write_text("<p>good</p>")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("a")
    with journal.opened(workspace, "evaluate"):
        journal.log_params({"min_accuracy": 0.9, "args": ["a", "b"]})
        journal.log_run_params({"args.lr": "0.1"})
        journal.log_metrics({"loss": 0.5, "files": 3})
        journal.log_tags({"git.commit": "abc"})
        journal.log_headline({"accuracy": 0.75})
        journal.log_total({"cost": 1.5})
        journal.log_artifact(tmp_path / "report.html")
        journal.log_artifact(tmp_path / "folder", "kept")
        journal.log_artifact(tmp_path / "never-written.log", "logs")
        journal.summarize("only for the console")
        journal.log_error(StepFailed("too bad", "detail"))
    sync(workspace, "evaluate", run)
    # What comes before the first file together, and what after the last.
    assert sorted(calls) == sorted(2 * [run.step_id, run.pipeline_id])
    step, pipeline = client.get_run(run.step_id).data, client.get_run(run.pipeline_id).data
    assert step.params == {"min_accuracy": "0.9", "args": "['a', 'b']"}
    assert pipeline.params == {"args.lr": "0.1"}
    assert step.metrics == {"loss": 0.5, "files": 3.0, "accuracy": 0.75}
    assert pipeline.metrics == {"accuracy": 0.75, "cost": 1.5}
    whole = {"git.commit": "abc", "error": "too bad"}
    assert own_tags(client, run.pipeline_id) == whole
    assert own_tags(client, run.step_id) == whole | {journal.LAST_LINES: "detail"}
    assert artifacts(client, run.step_id) == ["kept", "report.html"]
    assert artifacts(client, run.step_id, "kept") == ["kept/a.txt"]
    assert artifacts(client, run.pipeline_id) == []


def test_a_parameter_that_the_whole_run_has_already_stays(client, run, workspace):
    for rate in ("0.1", "0.2"):  # which MLflow refuses to change
        with journal.opened(workspace, "train"):
            journal.log_run_params({"args.lr": rate, f"args.{rate}": "x"})
        sync(workspace, "train", run)
    found = client.get_run(run.pipeline_id).data.params
    assert found == {"args.lr": "0.1", "args.0.1": "x", "args.0.2": "x"}


def test_a_log_is_on_the_disk_once_where_artifacts_are_files_here(client, run, workspace, tmp_path):
    log = tmp_path / "master-0.log"
    log.write_text("epoch 1\n")
    for _ in range(2):  # a step may be brought again
        with journal.opened(workspace, "train"):
            journal.log_artifact(log, "logs")
        sync(workspace, "train", run)
        assert artifacts(client, run.step_id, "logs") == ["logs/master-0.log"]
    assert log.stat().st_nlink == 2
    log.rename(tmp_path / "master-0.1.log")  # as the next attempt does
    log.write_text("epoch 2\n")
    with journal.opened(workspace, "train"):
        journal.log_artifact(log, "logs")
    sync(workspace, "train", run)
    kept = client.download_artifacts(run.step_id, "logs/master-0.log")
    assert Path(kept).read_text() == "epoch 2\n"
    assert (tmp_path / "master-0.1.log").read_text() == "epoch 1\n"


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
def test_a_log_that_cannot_be_linked_is_copied(
    client, run, workspace, tmp_path, monkeypatch, error
):
    def hardlink_to(self, target):  # as on another disk
        raise error

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    log = tmp_path / "master-0.log"
    log.write_text("epoch 1\n")
    with journal.opened(workspace, "train"):
        journal.log_artifact(log, "logs")
    sync(workspace, "train", run)
    assert artifacts(client, run.step_id, "logs") == ["logs/master-0.log"]
    assert log.stat().st_nlink == 1


def test_a_dataset_is_an_input_of_the_run(client, run, workspace):
    fingerprint = f"sha256:{64 * 'a'}"
    with journal.opened(workspace, "dataset"):
        journal.log_dataset("dataset", "s3://bucket/digits/", fingerprint, 2, 300)
    sync(workspace, "dataset", run)
    for run_id in (run.step_id, run.pipeline_id):
        (used,) = client.get_run(run_id).inputs.dataset_inputs
        assert (used.dataset.name, used.dataset.digest) == ("digits", 36 * "a")
        assert json.loads(used.dataset.source) == {"uri": "s3://bucket/digits/"}
        profile = {"files": 2, "bytes": 300, "fingerprint": fingerprint}
        assert json.loads(used.dataset.profile) == profile
        assert [tag.value for tag in used.tags] == ["training"]


def test_metrics_have_the_time_that_they_were_recorded_at(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_metrics({"loss": 0.5})
    at = int(journal.read(workspace, "train")[0]["time"] * 1000)
    sync(workspace, "train", run)
    assert [point.timestamp for point in client.get_metric_history(run.step_id, "loss")] == [at]


def points(client, run, name):
    history = client.get_metric_history(run.step_id, name)
    return [(point.step, point.value, point.timestamp) for point in history]


def test_metrics_that_a_program_has_printed_are_logged_with_their_steps(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_points({"loss": [(1, 3.0, 1000), (2, 2.0, 2000)], "train acc, %": [(1, 1, 5)]})
        journal.log_points({"loss": [(3, math.nan, 3000)]})
    for _ in range(2):
        sync(workspace, "train", run)
        # As where a process has ended between writing to MLflow and remembering it.
        journal.synced_path(workspace, "train").unlink()
    assert points(client, run, "loss")[:2] == [(1, 3.0, 1000), (2, 2.0, 2000)]
    assert len(points(client, run, "loss")) == 3
    assert client.get_run(run.step_id).data.tags["metrics.read"] == "loss, train acc_ _"
    assert "loss" not in client.get_run(run.pipeline_id).data.metrics


def test_a_metric_that_the_program_logs_itself_is_not_logged_twice(client, run, workspace):
    client.log_metric(run.step_id, "loss", 0.25, step=7)
    with journal.opened(workspace, "train"):
        journal.log_points({"loss": [(1, 3.0, 1000)], "cost": [(1, 9.0, 1000)]})
        journal.log_points({"accuracy": [(1, 0.5, 1000)]})
        journal.log_metrics({"cost": 1.0})  # one of ours
    sync(workspace, "train", run)
    assert [point[:2] for point in points(client, run, "loss")] == [(7, 0.25)]
    assert [point[:2] for point in points(client, run, "cost")] == [(0, 1.0)]
    assert points(client, run, "accuracy") == [(1, 0.5, 1000)]


def test_a_training_that_is_tried_again_goes_on_with_what_was_read_before(client, run, workspace):
    for step in (1, 2):
        with journal.opened(workspace, "train"):
            journal.log_points({"loss": [(step, 3.0, 1000 * step)]})
        sync(workspace, "train", run)
    assert points(client, run, "loss") == [(1, 3.0, 1000), (2, 3.0, 2000)]


def test_what_was_read_before_is_known_whatever_was_read_last(client, run, workspace):
    for step, name in enumerate(("loss", "accuracy", "loss")):
        with journal.opened(workspace, "train"):
            journal.log_points({name: [(step, 3.0, 1000 + step)]})
        sync(workspace, "train", run)
    assert points(client, run, "loss") == [(0, 3.0, 1000), (2, 3.0, 1002)]
    assert client.get_run(run.step_id).data.tags["metrics.read"] == "loss, accuracy"


def test_what_was_read_before_is_known_however_much_it_is(client, run, workspace):
    names = [f"{number}-{'x' * 96}" for number in range(200)]
    for step in (1, 2):
        with journal.opened(workspace, "train"):
            journal.log_points({name: [(step, 3.0, 1000 * step)] for name in names})
        sync(workspace, "train", run)
    for name in (names[0], names[-1]):
        assert points(client, run, name) == [(1, 3.0, 1000), (2, 3.0, 2000)]
    tags = client.get_run(run.step_id).data.tags
    found = [
        tags[f"metrics.read{number}"].split(", ")
        for number in ("", *[f".{n}" for n in range(2, 7)])
    ]
    assert [name for each in found for name in each] == names


def test_points_of_a_metric_are_of_one_kind(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_points({"loss": [(1, 9.0, 1, "epoch"), (100, 3.0, 2, "step")]})
        journal.log_points({"loss": [(200, 2.0, 3, "step")], "cost": [(1, 1.0, 4, "epoch")]})
    sync(workspace, "train", run)
    assert points(client, run, "loss") == [(100, 3.0, 2), (200, 2.0, 3)]
    assert points(client, run, "cost") == [(1, 1.0, 4)]


def test_points_that_are_none_are_left_out(client, run, workspace):
    with journal.opened(workspace, "train"):
        odd = [(10**30, 1.0, 1), (1, "x", 1), (1, 1.0, -5), (1, 1.0), 7, (2, 1.0, 1)]
        journal.log_points({"loss": odd, "more": 3})
    sync(workspace, "train", run)
    assert points(client, run, "loss") == [(2, 1.0, 1)]


def test_a_second_sync_changes_nothing(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_params({"workers": 2})
        journal.log_metrics({"loss": 0.5})
    sync(workspace, "train", run)
    before = client.get_run(run.step_id).data.to_dictionary()
    sync(workspace, "train", run)
    # A process that ended between writing to MLflow and remembering it does it once more.
    journal.journal_path(workspace, "train").with_name("journal.synced").unlink()
    sync(workspace, "train", run)
    assert client.get_run(run.step_id).data.to_dictionary() == before
    assert len(client.get_metric_history(run.step_id, "loss")) == 1


def test_what_one_of_many_trainings_met_is_not_said_of_the_run(client, run, workspace):
    with journal.opened(workspace, "trial-000"):
        journal.log_error(StepFailed("too wide"), is_fatal=False)
    sync(workspace, "trial-000", run)
    assert client.get_run(run.step_id).data.tags["error"] == "too wide"
    assert "error" not in client.get_run(run.pipeline_id).data.tags


def test_the_model_is_found_by_the_run_that_holds_it(client, run, workspace):
    (workspace / "model").mkdir(parents=True)
    (workspace / "model" / "weights").write_text("1")
    with journal.opened(workspace, "choose"):
        journal.log_artifact(workspace / "model", journal.MODEL)
    sync(workspace, "choose", run)
    assert client.get_run(run.pipeline_id).data.tags["training.run"] == run.step_id


def test_a_sync_goes_on_where_the_last_one_stopped(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_metrics({"loss": 0.5})
        sync(workspace, "train", run)
        journal.log_metrics({"more": 1.5})
        sync(workspace, "train", run)
    assert client.get_run(run.step_id).data.metrics == {"loss": 0.5, "more": 1.5}


def test_metrics_that_a_program_could_not_send_are_brought(client, run, workspace, tmp_path):
    file = tmp_path / "checkpoints" / unsent_metrics.NAME
    with journal.opened(workspace, "train"):
        journal.log_unsent(file)
    sync(workspace, "train", run)  # most programs leave none
    file.parent.mkdir()
    told = [{"key": "loss", "value": 1 / n, "timestamp": 1000 + n, "step": n} for n in (1, 2)]
    damaged = [
        '{"key": "lo',
        "[]",
        '{"key": "x"}',
        5000 * "[",
        json.dumps(told[0] | {"step": 9**99}),
    ]
    unusual = json.dumps(told[0] | {"key": "acc@1"})  # which MLflow refuses, with its whole batch
    file.write_text("".join(f"\n{line}" for line in [*map(json.dumps, told), unusual, *damaged]))
    for _ in range(2):  # that of a process which was killed before it could remember it, too
        journal.synced_path(workspace, "train").unlink()
        sync(workspace, "train", run)
    assert client.get_run(run.step_id).data.metrics == {"loss": 0.5, "acc_1": 1.0}
    history = client.get_metric_history(run.step_id, "loss")
    assert [(one.value, one.timestamp, one.step) for one in history] == [
        (1.0, 1001, 1),
        (0.5, 1002, 2),
    ]


def told(*steps):
    each = ({"key": "loss", "value": 1 / n, "timestamp": 1000 + n, "step": n} for n in steps)
    return "".join(f"\n{json.dumps(one)}" for one in each)


def test_metrics_of_a_program_are_brought_many_at_a_time(tmp_path):
    (tmp_path / "file").write_text(told(*range(1, unsent_metrics.BATCH + 3)))
    batches = unsent_metrics.batches(tmp_path / "file")
    assert [len(metrics) for metrics in batches] == [unsent_metrics.BATCH, 2]


def test_metrics_that_are_refused_do_not_hold_up_the_record(
    client, run, workspace, tmp_path, capsys
):
    (tmp_path / "file").write_text(told(1))
    with journal.opened(workspace, "train"):
        journal.log_unsent(tmp_path / "file")
    client.delete_run(run.step_id)  # which takes none while it is
    sync(workspace, "train", run)
    client.restore_run(run.step_id)
    assert "MLflow refuses metrics" in capsys.readouterr().err
    assert is_whole(workspace, "train")


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_what_is_no_file_of_metrics_is_not_read(tmp_path, kind):
    (tmp_path / "file").write_text('{"key": "loss", "value": 1, "timestamp": 1, "step": 1}')
    (metrics,) = unsent_metrics.batches(tmp_path / "file")
    assert len(metrics) == 1
    if kind == "fifo":
        os.mkfifo(tmp_path / unsent_metrics.NAME)
    else:
        (tmp_path / unsent_metrics.NAME).symlink_to(tmp_path / "file")
    assert list(unsent_metrics.batches(tmp_path / unsent_metrics.NAME)) == []


def test_a_step_that_is_tried_again_is_recorded_again(client, run, workspace):
    for value in (1.0, 2.0):
        with journal.opened(workspace, "train"):
            journal.log_metrics({"loss": value})
        sync(workspace, "train", run)
    assert client.get_run(run.step_id).data.metrics == {"loss": 2.0}


def test_a_single_run_gets_everything(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_headline({"accuracy": 0.75})
        journal.log_tags({"image": "x"})
    sync(workspace, "train", StepRun(run.step_id, run.step_id))
    assert client.get_run(run.step_id).data.metrics == {"accuracy": 0.75}
    assert len(client.get_metric_history(run.step_id, "accuracy")) == 1


def test_the_pipelines_run_is_found_through_the_steps(run, store, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", run.step_id)
    assert StepRun.from_environment() == run
    monkeypatch.setenv("MLFLOW_RUN_ID", run.pipeline_id)
    assert StepRun.from_environment() == StepRun(run.pipeline_id, run.pipeline_id)


def test_a_long_parameter_is_cut(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_params({"args": "x" * 20_000, "after": "kept"})
    sync(workspace, "train", run)
    params = client.get_run(run.step_id).data.params
    assert params == {"args": "x" * PARAMETER_LIMIT, "after": "kept"}


def test_a_long_tag_and_a_long_error_do_not_stop_the_rest(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_tags({"dataset.uri": "x" * 20_000})
        journal.log_error(StepFailed("y" * 20_000, "z" * 20_000 + "the end"))
        journal.log_metrics({"after": 1.0})
    sync(workspace, "train", run)
    tags = own_tags(client, run.step_id)
    assert tags["dataset.uri"].startswith("x" * 1000)
    assert tags["error"].startswith("y" * 1000)
    assert tags[journal.LAST_LINES].endswith("zthe end")
    assert client.get_run(run.step_id).data.metrics == {"after": 1.0}


def test_more_than_mlflow_takes_at_once_arrives_whole(client, run, workspace):
    with journal.opened(workspace, "train"):
        journal.log_params({f"p{number}": number for number in range(250)})
        journal.log_metrics({f"m{number}": number for number in range(1100)})
        journal.log_tags({f"t{number}": str(number) for number in range(250)})
    sync(workspace, "train", run)
    data = client.get_run(run.step_id).data
    assert len(data.params) == 250
    assert len(data.metrics) == 1100
    assert len(own_tags(client, run.step_id)) == 250


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("precision_cat", "precision_cat"),
        ("precision_großer Hund", "precision_großer Hund"),
        ("precision_猫", "precision_猫"),
        ("precision_a+b", "precision_a_b"),
        ("precision_'); DROP TABLE x", "precision____ DROP TABLE x"),
        ("precision_n/a", "precision_n/a"),
        ("precision_50%", "precision_50_"),
        ("precision_a\nb\tc", None),
        ("precision_a//b", None),
        ("precision_and/", None),
        ("precision_../x", None),
        ("precision_" + 300 * "n", None),
        ("precision_ ", None),
    ],
    ids=lambda value: str(value)[:24] if value else "",
)
def test_odd_characters_in_a_name_do_not_stop_the_recording(client, run, workspace, name, kept):
    with journal.opened(workspace, "evaluate"):
        journal.log_metrics({name: 0.5})
        journal.log_metrics({"after": 1.0})
    sync(workspace, "evaluate", run)
    metrics = client.get_run(run.step_id).data.metrics
    assert metrics.pop("after") == 1.0
    assert list(metrics.values()) == [0.5]
    if kept:
        assert set(metrics) == {kept}


def test_names_that_only_odd_characters_or_their_ends_tell_apart_stay_apart(client, run, workspace):
    long = "recall_" + 300 * "n"
    given = {"recall_C+": 0.1, "recall_C#": 0.2, "recall_C_": 0.3, "recall_C__2": 0.4}
    with journal.opened(workspace, "evaluate"):
        journal.log_metrics(given | {long: 0.5, f"{long}m": 0.6})
    sync(workspace, "evaluate", run)
    metrics = client.get_run(run.step_id).data.metrics
    (first, other) = (metrics.pop(name) for name in sorted(metrics) if "nnn" in name)
    assert {first, other} == {0.5, 0.6}
    assert metrics == {
        "recall_C_": 0.3,
        "recall_C__2": 0.4,
        "recall_C__3": 0.1,
        "recall_C__4": 0.2,
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, 1e300])
def test_a_metric_of_any_value_is_kept(client, run, workspace, value):
    with journal.opened(workspace, "train"):
        journal.log_metrics({"loss": value})
    sync(workspace, "train", run)
    found = client.get_run(run.step_id).data.metrics["loss"]
    if math.isinf(value):  # which SQLite keeps as the largest number there is
        assert found * value > 0 and abs(found) > 1e300
    else:
        assert found == pytest.approx(value, nan_ok=True)


@pytest.fixture
def onnx_model(tmp_path) -> tuple[Path, Path]:
    """The smallest ONNX model there is, and a sample of what it answers."""
    from onnx import save

    save(onnx_models.of_one("Relu"), tmp_path / "model.onnx")
    inputs = np.array([[-1, 2], [3, -4]], dtype=np.float32)
    np.savez(tmp_path / "sample.npz", inputs=inputs, outputs=np.maximum(inputs, 0))
    return tmp_path / "model.onnx", tmp_path / "sample.npz"


@pytest.mark.slow
def test_a_model_is_registered_with_its_lineage_and_answers(
    client, run, workspace, store, onnx_model
):
    import mlflow.onnx

    with journal.opened(workspace, "export"):
        journal.log_tags({"git.commit": "abc", "dataset.fingerprint": "sha256:12", "gate": "x"})
        journal.log_model(onnx_model[0], "my relu", onnx_model[1], tags={"weights": "7"})
    sync(workspace, "export", run)
    sync(workspace, "export", run)
    registered = {"model": "my relu", "version": "1", "alias": "challenger", "late": ""}
    assert journal.registered(workspace) == registered
    assert len(client.search_model_versions("name = 'my relu'")) == 1
    version = client.get_model_version("my relu", "1")
    assert version.run_id == run.pipeline_id
    assert dict(version.tags) == {
        "git.commit": "abc",
        "dataset.fingerprint": "sha256:12",
        "pipeline_run": run.pipeline_id,
        "pipeline_run.name": client.get_run(run.pipeline_id).info.run_name,
        "weights": "7",
    }
    tags = own_tags(client, run.pipeline_id)
    assert (tags["model"], tags["model.version"]) == ("my relu", "1")
    loaded = mlflow.pyfunc.load_model("models:/my relu/1")
    answers = loaded.predict(np.array([[-5, 5]], dtype=np.float32))
    assert np.array_equal(next(iter(answers.values())), [[0, 5]])
    assert loaded.metadata.signature.inputs.inputs[0].shape == (-1, 2)


@pytest.mark.slow
def test_a_version_is_made_once_though_the_answer_that_it_is_made_is_lost(
    client, run, workspace, monkeypatch, onnx_model
):
    import mlflow

    register, made = mlflow.register_model, []

    def lossy(*arguments, **options):
        made.append(register(*arguments, **options))
        raise ConnectionError("cut")

    monkeypatch.setattr(mlflow, "register_model", lossy)
    with journal.opened(workspace, "export"):
        journal.log_model(onnx_model[0], "answered", onnx_model[1], tags={})
    sync(workspace, "export", run)
    assert len(made) == len(client.search_model_versions("name = 'answered'")) == 1
    assert journal.registered(workspace)["version"] == "1"


@pytest.mark.slow
def test_a_model_is_kept_with_its_run_and_not_where_the_command_was_started(
    client, run, workspace, store, onnx_model
):
    _, experiment, directory = store
    with journal.opened(workspace, "export"):
        journal.log_model(onnx_model[0], "kept", onnx_model[1], tags={})
    sync(workspace, "export", run)
    listed = client.search_logged_models([experiment])
    assert run.pipeline_id in [model.source_run_id for model in listed]
    assert list((directory / "here").iterdir()) == []
