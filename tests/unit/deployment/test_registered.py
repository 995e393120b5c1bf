"""The list of registered models."""

import shutil

import mlflow
import pytest
import tracking_uri

from trireme.cli.app import app
from trireme.deployment.registered import versions
from trireme.errors import InputError
from trireme.tracking import registry, store


@pytest.fixture
def registered(tmp_path, monkeypatch, mlflow_store):
    """Two models in a store: digits, with two versions, and one that is not evaluated."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{shutil.copy(mlflow_store, tmp_path)}")
    before = tracking_uri.told()
    store.use()
    client = mlflow.MlflowClient()
    for name in ("digits", "words"):
        client.create_registered_model(name)
    for number, accuracy in enumerate(("0.95", "0.97"), 1):
        tags = {"held_out_accuracy": accuracy, "pipeline_run.name": f"training-{number}"}
        client.create_model_version("digits", f"file:///{number}", tags=tags)
    client.create_model_version("words", "file:///3")
    registry.promote("digits", "1")
    registry.challenge("digits", "2")
    yield client
    mlflow.set_tracking_uri(before)


def test_versions_say_how_good_they_are_and_which_is_in_use(registered):
    newest, first = versions("digits")
    assert (newest.number, newest.aliases, newest.metric) == (2, ["challenger"], "accuracy 0.97")
    assert (first.number, first.aliases, first.run) == (1, ["champion"], "training-1")
    assert newest.since == 0 and 0 <= first.since - int(first.created) < 60
    with pytest.raises(InputError, match="there is no registered model 'nothing'"):
        versions("nothing")


def test_the_time_since_is_that_of_the_last_change(registered, monkeypatch):
    (_, before) = versions("digits")
    monkeypatch.setattr(registry.time, "time", lambda: before.since + 100)
    registry.promote("digits", "2")
    newest, first = versions("digits")
    assert newest.since == before.since + 100 and first.since == 0
    monkeypatch.setattr(registry.time, "time", lambda: before.since + 200)
    registry.rollback("digits")
    assert versions("digits")[1].since == before.since + 200


def test_a_lock_is_no_model(registered):
    registered.create_registered_model("digits.promotion", description=f"{registry.LOCK}abc")
    assert {each.model for each in versions()} == {"digits", "words"}


def test_the_command_shows_models_and_versions(registered, capsys):
    for words, expected in (
        (
            ["models"],
            ["MODEL", "digits  2         1         accuracy 0.95", "words   1         none"],
        ),
        (
            ["models", "digits"],
            ["VERSION", "2        challenger  accuracy 0.97", "1        champion"],
        ),
    ):
        with pytest.raises(SystemExit):
            app(words)
        lines = capsys.readouterr().out.splitlines()
        assert [line[: len(start)] for line, start in zip(lines, expected, strict=True)] == expected
