"""trireme/tracking/environment.py: where MLflow is, and the run of a step."""

import os
import threading

import pytest

from trireme.errors import TriremeError
from trireme.files.home import TRACKER
from trireme.tracking import environment


def test_variables_come_from_the_environment_where_kubeflow_sets_them(untracked, monkeypatch):
    assert environment.variables() == {}
    monkeypatch.setenv("MLFLOW_RUN_ID", "abc")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://example.org")
    found = environment.variables()
    assert found == {"MLFLOW_RUN_ID": "abc", "MLFLOW_TRACKING_URI": "https://example.org"}


def test_variables_come_from_the_file_that_is_announced(untracked, tmp_path, monkeypatch):
    file = tmp_path / "steps" / "train" / "mlflow.json"
    monkeypatch.setenv(TRACKER, str(file))
    environment.announce(file, {"MLFLOW_RUN_ID": "abc"})
    assert environment.variables() == {"MLFLOW_RUN_ID": "abc"}
    environment.announce(file, {"error": "MLflow refuses", "exit_status": "2"})
    with pytest.raises(TriremeError, match="MLflow refuses") as refused:
        environment.variables()
    assert refused.value.exit_status == 2
    assert [path.name for path in file.parent.iterdir()] == ["mlflow.json"]


@pytest.mark.parametrize(
    ("uri", "public", "login"),
    [
        ("https://ada:p%40ss@host:5000/x", "https://host:5000/x", ("ada", "p@ss")),
        ("https://host:5000/a@b", "https://host:5000/a@b", (None, None)),
        ("https://host", "https://host", (None, None)),
        ("postgresql://ada:pass@host/db", "postgresql://ada:pass@host/db", (None, None)),
        ("https://[a@b", "https://[a@b", (None, None)),
        ("", None, (None, None)),
    ],
)
def test_a_servers_password_is_taken_out_of_its_uri(monkeypatch, untracked, uri, public, login):
    names = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
    for name in names:
        monkeypatch.setenv(name, "")  # to be put back
        monkeypatch.delenv(name)
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    environment.separate_login()
    assert os.environ.get("MLFLOW_TRACKING_URI") == public
    assert tuple(os.environ.get(name) for name in names) == login


def test_a_step_says_that_it_waits_for_mlflow(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(environment, "LONG", 0.1)
    file = tmp_path / "mlflow.json"
    late = threading.Timer(0.5, environment.announce, (file, {"MLFLOW_RUN_ID": "abc"}))
    late.start()
    assert environment.announced(file) == {"MLFLOW_RUN_ID": "abc"}
    late.join()
    assert capsys.readouterr().err == "waits until MLflow opens this step's run\n"
