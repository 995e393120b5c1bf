"""trireme/tracking/registry.py with a real store: who is the champion, and how that changes."""

import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import forking
import mlflow
import pytest
import tracking_uri
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INTERNAL_ERROR

from trireme.errors import InputError, StepFailed, TriremeError
from trireme.tracking import client as tracking_client
from trireme.tracking import registry

pytestmark = pytest.mark.slow

CONTENDERS = range(2, 12)  # versions, each of them thought better than version 1


@pytest.fixture
def store(tmp_path, mlflow_store, monkeypatch):
    """A store of its own; returns its URI."""
    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    before = tracking_uri.told()
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


def join(barrier):
    global start
    start = barrier


def contend(uri, version):
    mlflow.set_tracking_uri(uri)
    start.wait()
    try:
        registry.promote("digits", str(version), "1")
    except StepFailed as late:
        return str(late)
    return "champion"


def test_of_ten_that_beat_the_same_champion_at_the_same_moment_one_takes_its_place(client, store):
    registry.promote("digits", "1", "")
    context = forking.context()
    barrier = context.Barrier(len(CONTENDERS))
    with ProcessPoolExecutor(len(CONTENDERS), context, join, (barrier,)) as contenders:
        said = list(contenders.map(contend, [store] * len(CONTENDERS), CONTENDERS))
    assert said.count("champion") == 1
    winner = str(CONTENDERS[said.index("champion")])
    assert registry.champion("digits") == winner
    late = f"it was compared with version 1, and the champion is version {winner} by now"
    assert sum(late in each for each in said) == len(CONTENDERS) - 1
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
    with pytest.raises(InputError, match="there is none to roll back to"):
        registry.rollback("digits")
    assert registry.champion("digits") == "1"


def test_a_lock_whose_holder_died_is_broken(client, monkeypatch):
    client.create_registered_model("digits.promotion", description=f"{registry.LOCK}dead")
    monkeypatch.setattr(registry, "STALE", 1.0)
    started = time.monotonic()
    registry.promote("digits", "3")
    assert time.monotonic() - started > 0.5
    assert registry.champion("digits") == "3"
    assert models(client) == ["digits"]


def test_somebodys_model_is_no_lock_and_stays(client, monkeypatch):
    client.create_registered_model("digits.promotion", description="Who gets a better job")
    monkeypatch.setattr(registry, "STALE", 0.0)
    with pytest.raises(InputError, match="whose name is needed to change the champion of digits"):
        registry.promote("digits", "3")
    assert models(client) == ["digits", "digits.promotion"]
    assert registry.champion("digits") == ""


def test_a_holder_whose_lock_was_broken_changes_nothing(client, monkeypatch):
    at_once = registry._must_exist

    def slow(name, version):
        at_once(name, version)
        client.delete_registered_model("digits.promotion")
        client.create_registered_model("digits.promotion", description=f"{registry.LOCK}other")

    registry.promote("digits", "1")
    registry.promote("digits", "2")
    monkeypatch.setattr(registry, "_must_exist", slow)
    with pytest.raises(StepFailed, match="is being changed by another"):
        registry.rollback("digits")
    assert registry.champion("digits") == "2"
    assert models(client) == ["digits", "digits.promotion"]  # the other's


def test_one_of_many_breaks_a_lock(client, monkeypatch):
    monkeypatch.setattr(registry, "STALE", 5.0)  # on a busy machine one may take its time
    client.create_registered_model("digits.promotion", description=f"{registry.LOCK}dead")
    inside, most = [], []
    plainly = registry.champion

    def watched(name):
        inside.append(name)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        return plainly(name)

    monkeypatch.setattr(registry, "champion", watched)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: registry.promote("digits", str(number)), (1, 2, 3, 4, 1, 2)))
    assert set(most) == {1}
    assert models(client) == ["digits"]


def test_a_server_that_does_not_say_is_not_one_without_a_champion(client, monkeypatch):
    def refuse(*_):
        raise MlflowException("the store is on fire", INTERNAL_ERROR)

    assert registry.champion("nobody") == ""
    monkeypatch.setattr(type(client), "get_registered_model", refuse)
    monkeypatch.setattr(tracking_client, "_patience", 0.1)
    with pytest.raises(TriremeError, match="the store is on fire"):
        registry.champion("digits")


def test_what_is_not_there_is_refused(client):
    for call in (lambda: registry.promote("digits", "99"), lambda: registry.promote("none", "1")):
        with pytest.raises(InputError, match="there is no version"):
            call()
    with pytest.raises(InputError, match=r"no registered model 'none' with a champion"):
        registry.rollback("none")
    assert models(client) == ["digits"]


def test_the_commands(client, trireme, tmp_path, store):
    def run(*arguments):
        result = trireme.call(*arguments, MLFLOW_TRACKING_URI=store)
        return result.returncode, result.stdout.strip(), result.stderr.strip()

    assert run("promote", "digits", "1") == (0, "digits version 1 is the champion", "")
    said = "digits version 2 is the champion, instead of version 1"
    assert run("promote", "digits", "2") == (0, said, "")
    said = "digits version 1 is the champion again, instead of version 2"
    assert run("rollback", "digits") == (0, said, "")
    status, _, error = run("rollback", "digits")
    assert (status, error.count("\n")) == (2, 0)
    assert error.startswith("error: digits version 1 is the first champion")
    status, _, error = run("promote", "digits", "one")
    assert status == 2 and error.startswith("error: there is no version one")
