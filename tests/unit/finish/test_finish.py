"""components/finish: what is left to do when a run has ended, however it did."""

import json
import re
import sys
from pathlib import Path

import mlflow
import pytest

from trireme import last_words
from trireme.errors import InputError, StepFailed, TriremeError
from trireme.finish import outcome, webhook
from trireme.finish.finish import finish
from trireme.finish.outcome import Outcome
from trireme.tracked_step import step
from trireme.tracking import journal

OUTCOME = Outcome("retraining", "run-1", "FAILED", "the learning rate went to seed")


def test_a_webhook_is_told_in_a_form_that_chats_show(server, monkeypatch):
    monkeypatch.setenv("HOOK_TOKEN", "opens")
    server.answers = [200]
    webhook.send("hook", OUTCOME)
    ((body, authorization),) = server.told
    assert body["text"] == "retraining run-1 FAILED: the learning rate went to seed"
    assert (body["run"], body["status"]) == ("run-1", "FAILED")
    assert authorization == "Bearer opens"


def test_the_text_has_the_pipeline_and_the_run_and_each_once():
    whole = Outcome("sweep", "20260102-030405-6789-sweep", "FINISHED")
    assert whole.message["text"] == "20260102-030405-6789-sweep FINISHED"


@pytest.mark.parametrize(
    ("when", "told"),
    [
        (None, {"FAILED", "KILLED", "FINISHED", "challenger", "champion"}),
        ("always", {"FAILED", "KILLED", "FINISHED", "challenger", "champion"}),
        ("failed", {"FAILED", "KILLED"}),
        ("champion", {"champion"}),
        ("failed champion", {"FAILED", "KILLED", "champion"}),
    ],
)
def test_a_webhook_is_told_of_the_runs_that_its_secret_names(server, monkeypatch, when, told):
    if when is not None:
        monkeypatch.setenv("HOOK_WHEN", when)
    ends = {status: Outcome("p", "p-1", status) for status in ("FAILED", "KILLED", "FINISHED")}
    for alias in ("challenger", "champion"):
        ends[alias] = Outcome("p", "p-1", "FINISHED", model="m", version="2", alias=alias)
    server.answers = [200] * len(told)
    assert {name for name, end in ends.items() if webhook.send("hook", end)} == told
    assert len(server.told) == len(told)


@pytest.mark.parametrize("when", ["failure", "", "failed,champion", "Always"])
def test_another_word_for_when_is_refused_and_harms_no_run(
    server, monkeypatch, tmp_path, when, capsys
):
    monkeypatch.setenv("HOOK_WHEN", when)
    with pytest.raises(InputError, match=r"'hook': its key when is .*; it must be always, failed"):
        webhook.send("hook", OUTCOME)
    finish("COMPLETE", "", "sweep", "run-1", "hook", tmp_path, tmp_path / "run.html")
    assert "warning: webhook_secret 'hook': its key when is" in capsys.readouterr().out
    assert server.told == []


def test_a_run_that_the_webhook_is_not_told_of_does_not_say_that_it_was(
    server, monkeypatch, tmp_path
):
    monkeypatch.setenv("HOOK_WHEN", "failed")
    with step("finish", str(tmp_path)):
        finish("COMPLETE", "", "sweep", "run-1", "hook", tmp_path, tmp_path / "run.html")
    assert (server.told, journal.summary_of(tmp_path, "finish")) == ([], "")


def test_the_command_posts_the_example_of_the_docs_and_says_the_answer(
    server, monkeypatch, trireme
):
    monkeypatch.setenv("HOOK_WHEN", "failed")  # which the example is not
    page = (Path(__file__).parents[3] / "docs" / "reference" / "webhook-fields.md").read_text()
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    server.answers = [200, 403]
    assert trireme("webhook", "test", "hook") == (0, "the webhook of hook answers 200 OK\n", "")
    status, _, error = trireme("webhook", "test", "hook")
    assert (status, "it answers 403 Forbidden" in error) == (1, True)
    assert [body for body, _ in server.told] == [example] * 2
    fields = re.findall(r"^\| `(\w+)` \|", page.partition("## Its fields")[2], re.MULTILINE)
    assert fields == list(example)


def test_the_command_says_where_the_url_belongs(untracked, trireme):
    status, _, error = trireme("webhook", "test")
    assert status == 2
    assert f"write the URL into {untracked}/secrets/trireme-webhook/url" in error


def test_a_webhook_that_is_away_for_a_moment_is_told_later(server):
    server.answers = [503, 429, 204]
    webhook.send("hook", OUTCOME)
    assert len(server.told) == 3


@pytest.mark.parametrize(("answers", "times"), [([404], 1), ([301], 1), ([500] * 4, 4)])
def test_a_webhook_that_refuses_is_said_without_its_url(server, answers, times):
    server.answers = list(answers)
    with pytest.raises(TriremeError, match=f"it answers {answers[0]}") as refused:
        webhook.send("hook", OUTCOME)
    assert len(server.told) == times
    assert "hidden" not in str(refused.value)


def test_a_webhook_that_nobody_answers_is_said_without_its_url(server, monkeypatch):
    monkeypatch.setenv("HOOK_URL", "http://127.0.0.1:1/?key=hidden")
    with pytest.raises(TriremeError, match="ConnectionError") as refused:
        webhook.send("hook", OUTCOME)
    assert "hidden" not in str(refused.value)


def test_a_secret_without_a_url_is_refused(untracked):
    with pytest.raises(InputError, match="webhook_secret 'hook': has no key url"):
        webhook.send("hook", OUTCOME)


def test_of_a_run_that_failed_it_is_said_why(tmp_path, untracked):
    with journal.opened(tmp_path, "trial-000"):
        journal.log_error(StepFailed("too wide"), is_fatal=False)
    assert outcome.read(tmp_path, "sweep", "1", "FAILED", "as kfp says").reason == "as kfp says"
    with journal.opened(tmp_path, "choose"):
        journal.log_error(StepFailed("all failed"))
    assert outcome.read(tmp_path, "sweep", "1", "FAILED", "as kfp says").reason == "all failed"


def test_a_model_that_cannot_be_registered_late_is_told(tmp_path, tracked, monkeypatch, capsys):
    _, _, steps = tracked
    with journal.opened(tmp_path, "export"):
        journal.log_model(tmp_path / "model.onnx", "digits", tmp_path / "sample.npz", tags={})
    journal.run_path(tmp_path, "export").write_text(steps[0])
    monkeypatch.setitem(sys.modules, "onnx", None)  # as where it is not installed
    finish("COMPLETE", "", "pytorch-training", "run-1", "", tmp_path, tmp_path / "run.html")
    said = capsys.readouterr()
    assert "warning: the model of step export is not registered: MLflow was unavailable" in said.out
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("state", "status"),
    # Kubeflow's words; RUNNING where the last step was skipped, and where one was killed.
    [("COMPLETE", "FINISHED"), ("FAILED", "FAILED"), ("RUNNING", "KILLED")],
)
def test_on_a_cluster_the_record_is_made_whole_and_closed(tmp_path, tracked, state, status):
    client, whole, steps = tracked
    # A step that MLflow was away for.
    with journal.opened(tmp_path, "train"):
        journal.log_metrics({"loss": 0.5})
        journal.log_tags({"git.commit": "abc"})
    journal.run_path(tmp_path, "train").write_text(steps[0])
    finish(state, "", "pytorch-training", "run-1", "", tmp_path, tmp_path / "drawn.html")
    assert client.get_run(steps[0]).data.metrics == {"loss": 0.5}
    found = client.get_run(whole)
    assert found.info.status == status
    assert found.data.tags["git.commit"] == "abc"
    assert found.data.tags["mlflow.note.content"].startswith(f"**{status}**")
    drawn = client.download_artifacts(whole, "run.html", str(tmp_path))
    assert Path(drawn).read_text() == (tmp_path / "drawn.html").read_text()


def test_what_a_person_has_written_of_a_run_in_mlflow_stays(tmp_path, tracked):
    client, whole, _ = tracked
    for own, then in (("my best one", "my best one"), ("**FAILED**: it did", "**FINISHED**")):
        client.set_tag(whole, "mlflow.note.content", own)
        finish("COMPLETE", "", "pytorch-training", "run-1", "", tmp_path, tmp_path / "drawn.html")
        assert client.get_run(whole).data.tags["mlflow.note.content"].startswith(then)


def test_a_run_whose_steps_have_all_ended_is_not_taken_for_killed(tmp_path, untracked, server):
    for name in ("checkout", "compare"):
        with step(name, str(tmp_path)):
            pass
    server.answers = [200, 200]
    finish("RUNNING", "", "retraining", "run-1", "hook", tmp_path, tmp_path / "run.html")
    with pytest.raises(SystemExit), step("train", str(tmp_path)):
        raise StepFailed("the learning rate went to seed")
    finish("RUNNING", "", "retraining", "run-1", "hook", tmp_path, tmp_path / "run.html")
    assert [body["status"] for body, _ in server.told] == ["FINISHED", "FAILED"]


def test_a_run_leaves_a_picture_of_itself(tmp_path, untracked):
    with step("checkout", str(tmp_path)):
        pass
    with pytest.raises(SystemExit), step("train", str(tmp_path)):
        raise StepFailed("the learning rate went to seed")
    page = tmp_path / "outputs" / "report"
    with step("finish", str(tmp_path)):
        finish("FAILED", "", "retraining", "run-1", "", tmp_path, page)
    drawn = page.read_text()
    assert tmp_path.parent.name in drawn and "the learning rate went to seed" in drawn
    assert "checkout" in drawn and "finish" not in drawn


def test_where_mlflow_refuses_the_webhook_is_told_all_the_same(
    tmp_path, untracked, server, mlflow_store, monkeypatch, capsys
):
    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_RUN_ID", 32 * "0")
    monkeypatch.setattr("trireme.tracking.client._patience", 0.1)
    mlflow.set_tracking_uri(uri)
    server.answers = [200]
    finish("COMPLETE", "", "sweep", "run-1", "hook", tmp_path, tmp_path / "run.html")
    assert "warning: " in capsys.readouterr().out
    assert [body["status"] for body, _ in server.told] == ["FINISHED"]


def test_on_a_cluster_the_last_words_say_what_a_run_here_says_at_its_end(
    tmp_path, tracked, monkeypatch
):
    _, whole, steps = tracked
    with journal.opened(tmp_path, "evaluate"):
        journal.log_headline({"held_out_accuracy": 0.97256, "held_out_roc_auc": 0.99})
        journal.log_tags({"verdict": "better than version 2"})
    journal.run_path(tmp_path, "evaluate").write_text(steps[0])
    registered = {"model": "digits", "version": "3", "alias": "champion", "late": ""}
    journal.registered_path(tmp_path).write_text(json.dumps(registered))
    (tmp_path / "report.html").touch()
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "0")
    here = outcome.facts(tmp_path)
    assert here["Accuracy"] == "0.9726 on held-out samples"
    short = "digits, version 3, champion; Accuracy 0.9726 on held-out samples"
    assert outcome.in_a_line(tmp_path) == short
    monkeypatch.setattr(outcome, "in_a_pod", lambda: True)
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setattr("trireme.last_words.TERMINATION_LOG", log)
    with step("finish", str(tmp_path)):
        journal.log_outcome(outcome.facts(tmp_path), "")
    left = last_words.read(log.read_text())
    page = f"http://127.0.0.1:5000/#/experiments/0/runs/{whole}?workflowType=machine_learning"
    report = f"http://127.0.0.1:5000/#/experiments/0/runs/{steps[0]}/artifacts/report.html"
    assert left.facts == here | {"Report": report, "MLflow": page}
    assert left.facts["Registered"] == "digits, version 3, champion"


def test_a_cost_of_somebodys_own_is_not_what_the_run_has_cost(tmp_path):
    with journal.opened(tmp_path, "mine"):
        journal.log_headline({"cost": 0.5})
        journal.log_total({"cost": 2.0})
        journal.log_tags({"cost": "low", "held_out_by": "me"})
        assert outcome.facts(tmp_path) == {}
        journal.log_tags({"currency": "EUR"})
        assert outcome.facts(tmp_path) == {"Cost": "2.00 EUR"}


def test_last_words_fit_and_of_long_lines_the_last_are_there():
    lines = "\n".join(f"line {number} é" for number in range(1000))
    facts = {f"{number}": "x" * 400 for number in range(9)}
    text = last_words.written("sent", facts, lines)
    assert len(text.encode()) <= last_words.LIMIT
    result, kept, shown = last_words.read(text)
    assert (result, len(kept)) == ("sent", 9)
    assert lines.endswith(shown) and len(shown) > 800
    assert last_words.read(last_words.written("", facts | dict.fromkeys("abcdef", "y" * 400), ""))
    for text in ("not exported: too bad", "{}", '{"result": 1, "facts": [], "last_lines": ""}'):
        assert last_words.read(text) == (text, {}, "")
