"""trireme/tracking/client.py: MLflow's client."""

from types import SimpleNamespace

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.store.entities import PagedList

from trireme.errors import TrackingRefused
from trireme.tracking.client import client, patiently


def test_more_runs_than_mlflow_hands_out_at_once_are_all_found(monkeypatch):
    pages = {None: PagedList([1, 2], "second"), "second": PagedList([3], "")}
    asked = []

    def search_runs(self, experiments, query, page_token=None):
        asked.append((experiments, query))
        return pages[page_token]

    monkeypatch.setattr(mlflow.MlflowClient, "search_runs", search_runs)
    assert list(client.every_run(["1"], "all")) == [1, 2, 3]
    assert asked == [(["1"], "all")] * 2


def test_nor_does_an_experiment_stay_unseen(monkeypatch):
    one, two, three = (SimpleNamespace(experiment_id=each) for each in "123")
    pages = {None: PagedList([one, two], "second"), "second": PagedList([three], "")}
    monkeypatch.setattr(
        mlflow.MlflowClient, "search_experiments", lambda self, page_token: pages[page_token]
    )
    assert client.experiment_ids() == ["1", "2", "3"]


@pytest.mark.parametrize("words", ["attempt to write a readonly", "unable to open"])
def test_a_database_that_may_not_be_written_is_not_asked_again(untracked, words):
    asked = []

    def call():
        asked.append(1)
        raise MlflowException(f"(sqlite3.OperationalError) {words} database file")

    with pytest.raises(TrackingRefused, match=r"mlflow\.db cannot be written"):
        patiently(call)
    assert asked == [1]
