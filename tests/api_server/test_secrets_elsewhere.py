"""A cluster's Secrets go to no server that only a repository's, or a job's, file names."""

import base64

import pytest
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.errors import InputError
from trireme.kubernetes.errors import NotFound
from trireme.kubernetes.resources import SECRETS
from trireme.pipeline import saved
from trireme.targets.handle import run

FILE = """
code:
  c: {url: "https://evil.example/mine.git"}
datasets:
  d: {uri: "https://evil.example/x.csv", secret: trireme-code}
"""
AT_THREE = ("schedule", "pytorch-training", "--cron", "0 3 * * *")
IN_TEAM = ("--namespace", "team")
COMMANDS = [
    ("run", "pytorch-training", "--target", "argo", *IN_TEAM, "-p", "code=@c"),
    ("run", "pytorch-training", "--target", "kfp", *IN_TEAM, "--params", "params.yaml"),
    ("plan", "pytorch-training", "--target", "argo", *IN_TEAM, "-p", "code=@c"),
    (*AT_THREE, "--target", "argo", *IN_TEAM, "-p", "code=@c"),
    ("schedule", "apply", "schedules.yaml", "--target", "argo", *IN_TEAM),
    *(("job", each, "job.yaml", *IN_TEAM) for each in ("submit", "plan", "preflight")),
]
EVIL = {"MLFLOW_TRACKING_URI": "https://evil.example"}


@pytest.fixture
def repository(tmp_path, monkeypatch, untracked):
    """A repository whose file names a server, and files that name what is in there."""
    files = {
        "trireme.yaml": FILE,
        "params.yaml": "code: '@c'",
        "job.yaml": "{entrypoint: train.py, image: x, dataset: '@d'}",
        "schedules.yaml": "[{name: n, pipeline: pytorch-training, cron: 0 3 * * *, "
        "params: {code: '@c'}}]",
        "tracking.yaml": "{entrypoint: train.py, image: x, tracking: {uri: 'https://evil.example'}}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keep(cluster, name, **content):
    """Makes a Secret."""
    data = {key: base64.b64encode(text.encode()).decode() for key, text in content.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
    cluster.create(SECRETS, body, cluster.namespace)


def command(*words):
    """Runs a command."""
    result = CliRunner().invoke(app, words)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_refuses_it_before_anything_is_made(standing_in, repository, words):
    keep(standing_in, "trireme-code", password="hunter2", host="example.org")
    told = "the Secret trireme-code of namespace team would be sent to evil.example, which only"
    with pytest.raises(InputError, match=told):
        command(*words)


def test_so_does_python(standing_in, repository):
    keep(standing_in, "trireme-code", password="hunter2")
    with pytest.raises(InputError, match="trireme-code of namespace team would be sent to evil"):
        run("pytorch-training", target="argo", namespace="team", code="@c")


def test_one_that_names_the_server_goes_there_as_does_none(standing_in, repository):
    saved.expanded({"code": "@c"}, (), lambda: standing_in)
    keep(standing_in, "trireme-code", password="hunter2", host="example.org evil.example")
    saved.expanded({"code": "@c"}, (), lambda: standing_in)


def test_it_goes_where_the_user_says(standing_in, repository):
    keep(standing_in, "trireme-code", password="hunter2")
    for more in ({"code_url": "https://evil.example/mine.git"}, {"code_secret": ""}):
        saved.expanded({"code": "@c"} | more, (), lambda: standing_in)
    saved.users_file().parent.mkdir(parents=True)
    (repository / "trireme.yaml").rename(saved.users_file())
    saved.expanded({"code": "@c"}, (), lambda: standing_in)


def test_what_nobody_may_look_at_is_not_sent_either(repository):
    class Closed:
        namespace = "team"

        def find(self, *_):
            raise NotFound("you may not get secrets")

    with pytest.raises(InputError, match=r"is not to be seen \(you may not get secrets\); see to"):
        saved.expanded({"code": "@c"}, (), Closed)


@pytest.mark.parametrize(
    ("secret", "named", "is_sent"),
    [
        ({"MLFLOW_TRACKING_URI": "http://mlflow:5000", "MLFLOW_TRACKING_PASSWORD": "x"}, {}, True),
        ({"MLFLOW_TRACKING_TOKEN": "x"}, {}, True),
        ({"MLFLOW_TRACKING_TOKEN": "x"}, EVIL, False),
        (EVIL | {"MLFLOW_TRACKING_TOKEN": "x"}, {}, False),
        ({"MLFLOW_TRACKING_URI": "http://mlflow:5000"}, {}, False),
        ({}, {}, False),
    ],
)
def test_a_job_logs_in_to_no_mlflow_that_only_its_file_names(
    standing_in, repository, monkeypatch, secret, named, is_sent
):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    if secret:
        keep(standing_in, "trireme-mlflow", **secret)
    words = ("job", "plan", "tracking.yaml", *IN_TEAM)
    if is_sent:
        with pytest.raises(InputError, match="the login in the Secret trireme-mlflow would be s"):
            command(*words)
    else:
        command(*words)


def test_nor_to_one_of_a_repositorys_workspace(standing_in, repository, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    text = "workspaces: {w: {mlflow: 'https://evil.example'}}"
    (repository / "trireme.yaml").write_text(text)
    (repository / "job.yaml").write_text("{entrypoint: train.py, image: x}")
    words = ("job", "plan", "job.yaml", *IN_TEAM, "-w", "w")
    command(*words)
    keep(standing_in, "trireme-mlflow", MLFLOW_TRACKING_TOKEN="x")
    with pytest.raises(InputError, match="which only the repository's file names; if it is for"):
        command(*words)
    saved.users_file().parent.mkdir(parents=True)
    (repository / "trireme.yaml").rename(saved.users_file())
    command(*words)
