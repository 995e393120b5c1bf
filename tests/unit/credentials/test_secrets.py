"""Secrets by name: where they are found, and that they do not show."""

import pytest

from trireme.code import credentials
from trireme.credentials import secrets
from trireme.data.description import Dataset
from trireme.data.sources import source_of
from trireme.errors import InputError

KEYS = ("username", "password", "ssh-privatekey")


@pytest.fixture
def here(untracked, monkeypatch, tmp_path):
    """A machine with no secrets; returns the directory for some."""
    monkeypatch.setattr(secrets, "MOUNTS", tmp_path / "mounts")
    return untracked / "secrets"


@pytest.fixture
def kept(here):
    """Two keys of a secret, in files."""
    (here / "team").mkdir(parents=True)
    (here / "team" / "username").write_text("ada\n")
    (here / "team" / "password").write_text("hunter2\n")


def test_there_may_be_none(here):
    assert secrets.read("team", "code", KEYS) == secrets.read("", "code", KEYS) == {}


def test_keys_are_files_of_a_directory(kept):
    assert secrets.read("team", "code", KEYS) == {"username": "ada", "password": "hunter2"}


def test_variables_win(kept, monkeypatch):
    monkeypatch.setenv("TEAM_PASSWORD", "correct horse")
    monkeypatch.setenv("TEAM_SSH_PRIVATEKEY", "key")
    found = secrets.read("team", "code", KEYS)
    assert found == {"username": "ada", "password": "correct horse", "ssh-privatekey": "key"}


def test_in_a_pod_it_is_what_is_mounted_for_the_purpose(kept, mount, tmp_path):
    mount(tmp_path / "mounts" / "dataset", password="mounted")
    assert secrets.read("team", "dataset", KEYS) == {"password": "mounted"}
    assert secrets.read("team", "code", KEYS)["password"] == "hunter2"


def test_values_do_not_show(kept):
    assert repr(secrets.read("team", "code", KEYS)) == "Secret(username, password)"
    assert "hunter2" not in f"{secrets.read('team', 'code', KEYS)}"


@pytest.mark.parametrize("name", ["../team", "Team", "-x", "a" * 254, "a/b"])
def test_a_name_that_kubernetes_does_not_take_is_refused(name):
    with pytest.raises(InputError, match=r"^code_secret .*: must be the name of a Secret"):
        secrets.check("code_secret", name)
    secrets.check("code_secret", "trireme-code")
    secrets.check("code_secret", "")


def test_a_file_that_is_no_text_is_said(here):
    (here / "team").mkdir(parents=True)
    (here / "team" / "password").write_bytes(b"\xff")
    with pytest.raises(InputError, match="cannot be read"):
        secrets.read("team", "code", KEYS)


def test_the_default_secret_need_not_be_there(here, mount, monkeypatch, tmp_path):
    name = secrets.DEFAULTS["code"]
    assert secrets.given(name, "code") == ""
    assert secrets.given("team", "code") == "team"
    monkeypatch.setenv("TRIREME_CODE_PASSWORD", "hunter2")
    assert secrets.given(name, "code") == name
    assert secrets.read(name, "code", KEYS) == {"password": "hunter2"}
    mount(tmp_path / "mounts" / "code")  # what a pod has of one that is not there
    assert secrets.given(name, "code") == ""
    mount(tmp_path / "mounts" / "code", password="")
    assert secrets.given(name, "code") == name


def test_the_default_secret_may_be_a_directory(here):
    (here / secrets.DEFAULTS["dataset"]).mkdir(parents=True)
    assert secrets.given(secrets.DEFAULTS["dataset"], "dataset") == "trireme-dataset"


def test_the_servers_that_it_is_for_get_it_and_no_others(kept, here):
    url = "https://example.org/code.git"
    with credentials.access(url, "team"):
        (here / "team" / "host").write_text("git.example.org other.example.org\n")
    said = r"its key host says that it is for git\.example\.org, other\.example\.org, and not for"
    with pytest.raises(InputError, match=said), credentials.access(url, "team"):
        pass
    with credentials.access("https://git.example.org:8443/code.git", "team"):
        pass
    web = {"uri": "https://example.org/data.csv", "secret": "team"}
    for fields in (web, {"uri": "oss://bucket", "secret": "team", "endpoint": "example.org"}):
        for key in ("akId", "akSecret"):
            (here / "team" / key).write_text("1")
        with pytest.raises(InputError, match="not for example"):
            source_of(Dataset(**fields))
