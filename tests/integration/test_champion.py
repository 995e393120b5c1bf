"""components/tracking/registry.py with a real store: who is the champion, and how that changes."""

import subprocess
import sys
import time

import mlflow
import pytest

from components.errors import InputError, StepFailed
from components.tracking import registry

pytestmark = pytest.mark.slow

CONTEND = """
import sys
import mlflow
from components.errors import StepFailed
from components.tracking import registry

uri, version, start = sys.argv[1:]
mlflow.set_tracking_uri(uri)
print("ready", flush=True)
sys.stdin.readline()
try:
    registry.promote("digits", version, "1")
    print("champion")
except StepFailed as late:
    print(late)
"""


@pytest.fixture
def store(tmp_path, mlflow_store, monkeypatch):
    """A store of its own; returns its URI."""
    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    yield uri
    mlflow.set_tracking_uri(before)


@pytest.fixture
def client(store):
    """A client, and a registered model with eleven versions, none of them champion."""
    client = mlflow.MlflowClient()
    client.create_registered_model("digits")
    for _ in range(11):
        client.create_model_version("digits", "/nowhere")
    return client


def models(client):
    return [model.name for model in client.search_registered_models()]


def test_of_ten_that_beat_the_same_champion_at_the_same_moment_one_takes_its_place(client, store):
    registry.promote("digits", "1", "")
    contenders = [
        subprocess.Popen(
            [sys.executable, "-c", CONTEND, store, str(version), "go"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for version in range(2, 12)
    ]
    for contender in contenders:
        assert contender.stdout.readline() == "ready\n"
    outputs = [contender.communicate("go\n", timeout=120)[0].strip() for contender in contenders]
    assert outputs.count("champion") == 1
    winner = str(outputs.index("champion") + 2)
    assert registry.champion("digits") == winner
    late = f"it was compared with version 1, and the champion is version {winner} by now"
    assert sum(late in output for output in outputs) == 9
    assert models(client) == ["digits"]


def test_a_champion_that_is_not_the_one_compared_with_is_not_replaced(client):
    registry.promote("digits", "1")
    with pytest.raises(StepFailed, match="compared with none, and the champion is version 1"):
        registry.promote("digits", "2", "")
    assert registry.champion("digits") == "1"


def test_a_challenger_that_is_promoted_is_challenger_no_more(client):
    registry.challenge("digits", "2")
    registry.promote("digits", "1", "")
    assert client.get_model_version_by_alias("digits", "challenger").version == 2
    registry.promote("digits", "2", "1")
    assert client.get_registered_model("digits").aliases == {"champion": 2}


def test_a_rollback_goes_back_step_by_step(client):
    for version in ("1", "4", "2"):
        registry.promote("digits", version)
    assert registry.rollback("digits") == ("2", "4")
    assert registry.rollback("digits") == ("4", "1")
    with pytest.raises(InputError, match="none before it, to go back to"):
        registry.rollback("digits")
    assert registry.champion("digits") == "1"


def test_a_lock_whose_holder_died_is_broken(client, monkeypatch):
    client.create_registered_model("digits.promotion")
    monkeypatch.setattr(registry, "STALE", 1.0)
    started = time.monotonic()
    registry.promote("digits", "3")
    assert time.monotonic() - started > 0.5
    assert registry.champion("digits") == "3"
    assert models(client) == ["digits"]


def test_what_is_not_there_is_refused(client):
    for call in (lambda: registry.promote("digits", "99"), lambda: registry.promote("none", "1")):
        with pytest.raises(InputError, match="there is no version"):
            call()
    with pytest.raises(InputError, match="no champion"):
        registry.rollback("none")
    assert models(client) == ["digits"]


def test_the_commands(client, trireme, tmp_path, store):
    def run(*arguments):
        result = trireme.run(*arguments, MLFLOW_TRACKING_URI=store)
        return result.returncode, result.stdout.strip(), result.stderr.strip()

    assert run("promote", "digits", "1") == (0, "digits version 1 is the champion", "")
    said = "digits version 2 is the champion, instead of version 1"
    assert run("promote", "digits", "2") == (0, said, "")
    said = "digits version 1 is the champion again, instead of version 2"
    assert run("rollback", "digits") == (0, said, "")
    status, _, error = run("rollback", "digits")
    assert (status, error.count("\n")) == (2, 0) and error.startswith("error: digits has no")
    status, _, error = run("promote", "digits", "one")
    assert status == 2 and error.startswith("error: there is no version one")


def test_a_better_model_takes_the_place_of_the_champion(trireme):
    def run(epochs):
        result = trireme.run(
            *("run", "pytorch-training", "-p", f'args=["--epochs", "{epochs}"]'),
            *("-p", "min_accuracy=0.1", "-p", "workers=0"),
        )
        assert result.returncode == 0, result.stderr
        aliases = trireme.client.get_registered_model("classifier").aliases
        return result.stdout, {alias: int(version) for alias, version in aliases.items()}

    output, aliases = run(1)
    assert aliases == {"champion": 1} and "classifier, version 1, champion" in output
    output, aliases = run(8)
    assert aliases == {"champion": 2} and "classifier, version 2, champion" in output
    (parent, *_) = trireme.parents()
    assert parent.data.tags["champion"].startswith("better: +")
    report = (trireme.run_directory() / "workspace" / "report.html").read_text()
    assert "against champion version 1" in report
    version = trireme.client.get_model_version("classifier", "2")
    assert version.tags["champion.before"] == "1"
    assert int(version.tags["weights"]) > 1000
