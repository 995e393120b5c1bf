"""Code that travels as a pack: trireme/code/bundle.py. Anybody may have made it."""

import subprocess

import pytest
from fuzzing import changed_bytes, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.code import bundle, git

HOSTILE = ["..", ".", ".git", ".GIT", "git~1", "a/b", "../outside", "/outside", ".git\u200c"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


def run(repository, *arguments, given=b""):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout.strip()


def packed(repository, tree):
    """Returns a commit with a tree that git itself would not make, and its pack."""
    made = run(
        *(repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin"), given=tree
    )
    commit = run(repository, "commit-tree", made.decode(), "-m", "a").decode()
    bundle.pack(repository, commit, repository / "code.pack")
    return commit, (repository / "code.pack").read_bytes()


def entry(repository, name, mode=b"100644", content=b"print()"):
    blob = run(repository, "hash-object", "-w", "--stdin", given=content)
    return mode + b" " + name.encode() + b"\0" + bytes.fromhex(blob.decode())


def bring(commit, content, folder, monkeypatch):
    """Checks a pack out as a pod does, but for the server that it comes from."""
    monkeypatch.setattr(bundle, "_download", lambda place, commit, file: file.write_bytes(content))
    return git.checkout(f"bundle://configmap/{commit}", "", folder / "run" / "code").commit


def below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.iterdir())


@pytest.mark.usefixtures("unaided_git", "untracked")
def test_a_pack_is_checked_out(repository, tmp_path, monkeypatch):
    commit, content = packed(repository, entry(repository, "train.py"))
    assert read_or_refused(bring, commit, content, tmp_path, monkeypatch) == commit
    assert (tmp_path / "run/code/train.py").read_text() == "print()"


@pytest.mark.usefixtures("unaided_git", "untracked")
@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_of_a_pack_is_written_elsewhere(repository, tmp_path, monkeypatch, name):
    inner = run(
        *(repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin"),
        given=entry(repository, "config", content=b"[core]\n\tfsmonitor = touch /tmp/outside\n"),
    )
    tree = b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner.decode())
    for hostile in (entry(repository, name), tree, entry(repository, name, b"120000", b"../..")):
        commit, content = packed(repository, hostile)
        read_or_refused(bring, commit, content, tmp_path, monkeypatch)
        assert set(below(tmp_path)) <= {"run", "trireme-home"}
        assert set(below(tmp_path / "run")) <= {"code", "code.pack"}


@pytest.mark.usefixtures("unaided_git", "untracked")
@fuzz(8, data=st.data())
def test_a_damaged_pack_is_refused_in_a_sentence(repository, tmp_path, monkeypatch, data):
    commit, content = packed(repository, entry(repository, "train.py"))
    damaged = data.draw(changed_bytes([content]))
    found = read_or_refused(bring, commit, damaged, tmp_path, monkeypatch)
    assert found in (commit, None)
