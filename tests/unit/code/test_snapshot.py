"""trireme/code/snapshot.py and bundle.py, with real repositories: what is not committed."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from trireme.code import bundle, snapshot
from trireme.code.git import check_file, check_here, checkout
from trireme.compiling import loading
from trireme.errors import InputError
from trireme.pipeline import catalog
from trireme.report import page
from trireme.report.picture import Picture
from trireme.targets.argo.target import Argo
from trireme.targets.local.target import Local
from trireme.tracking import journal

pytestmark = pytest.mark.usefixtures("unaided_git")


@pytest.fixture
def repository(make_repository):
    """A repository with two commits."""
    made = make_repository("origin")
    made.commit("one")
    made.second = made.commit("two")
    return made


@pytest.fixture
def dirty(repository):
    """The same with everything that can be uncommitted."""
    at = repository.directory
    (at / ".gitignore").write_text("ignored/\n*.log\n")
    (at / "gone.txt").write_text("gone")
    repository.second = repository.commit("two")
    (at / "file.txt").write_text("changed")
    (at / "staged.txt").write_text("staged")
    repository.git("add", "staged.txt")
    (at / "gone.txt").unlink()
    (at / "new file\n.txt").write_text("new")
    (at / "run.sh").write_text("#!/bin/sh\n")
    (at / "run.sh").chmod(0o755)
    (at / "ignored").mkdir()
    for name in ("ignored/secret", "x.log", ".env", "deploy.key"):
        (at / name).write_text("secret")
    return repository


@pytest.fixture
def destination(tmp_path):
    return tmp_path / "workspace" / "code"


def files(directory):
    found = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != ".git")


def state(directory):
    """All of a repository: its own files, and the working tree."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_directory_is_taken_as_it_is(dirty, destination, capsys):
    before = state(dirty.directory)
    taken = checkout(str(dirty.directory), "", destination)
    assert files(destination) == [
        ".gitignore",
        "file.txt",
        "new file\n.txt",
        "run.sh",
        "staged.txt",
    ]
    assert (destination / "file.txt").read_text() == "changed"
    assert os.access(destination / "run.sh", os.X_OK)
    assert state(dirty.directory) == before
    assert taken.commit != dirty.second
    told = capsys.readouterr().err
    assert "with 5 uncommitted files, without .env, deploy.key" in told
    assert Path(destination.with_name("code.pack")).is_file()


@pytest.mark.parametrize("marks", [["--skip-worktree"], ["--assume-unchanged"], []], ids=str)
def test_changes_that_git_is_told_not_to_look_at_are_taken(repository, destination, marks, capsys):
    at, both = repository.directory, ["--skip-worktree", "--assume-unchanged"]
    names = ("file.txt", "ö\n.txt", "odd.txt")
    for name in names:
        (at / name).write_text("committed")
    repository.commit("three")
    for mark in marks or both:
        repository.git("update-index", mark, *names)
    for name in names[:2]:
        (at / name).write_text("as it is")
    before = state(at)
    checkout(str(at), "", destination)
    said = [(destination / name).read_text() for name in names]
    assert said == ["as it is", "as it is", "committed"]
    assert "is checked out with 2 uncommitted files\n" in capsys.readouterr().err
    assert "+as it is" in destination.with_name("code.diff").read_text()
    assert state(at) == before


def test_changes_that_git_is_told_not_to_look_at_are_missed_in_a_commit(repository, destination):
    repository.git("update-index", "--assume-unchanged", "file.txt")
    (repository.directory / "file.txt").write_text("as it is")
    checkout(str(repository.directory), "HEAD", destination)
    assert "+as it is" in destination.with_name("code.diff").read_text()


def test_what_a_sparse_checkout_leaves_out_is_not_gone(repository, destination):
    at = repository.directory
    (at / "deep").mkdir()
    (at / "deep" / "file.txt").write_text("deep")
    repository.commit("three")
    repository.git("sparse-checkout", "set", "--no-cone", "/*", "!/deep/")
    assert not (at / "deep").exists()
    (at / "file.txt").write_text("changed")
    checkout(str(at), "", destination)
    assert (destination / "deep" / "file.txt").read_text() == "deep"
    assert (destination / "file.txt").read_text() == "changed"


def test_what_is_assumed_unchanged_may_be_gone(repository, destination):
    repository.git("update-index", "--assume-unchanged", "file.txt")
    (repository.directory / "file.txt").unlink()
    (repository.directory / "new.txt").write_text("new")
    checkout(str(repository.directory), "", destination)
    assert files(destination) == ["new.txt"]


def test_files_that_a_person_or_the_repository_excludes_elsewhere_stay_here(
    repository, destination, tmp_path, monkeypatch
):
    at = repository.directory
    (tmp_path / "own").write_text("*.own\n")
    (tmp_path / "gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path / 'own'}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (at / ".git/info/exclude").write_text("*.excluded\n")
    for name in ("a.own", "a.excluded", "a.new"):
        (at / name).write_text("")
    checkout(str(at), "", destination)
    assert files(destination) == ["a.new", "file.txt"]


def test_a_repository_in_it_is_named_as_missing(dirty, destination, capsys):
    shutil.copytree(dirty.directory / ".git", dirty.directory / "dep" / ".git")
    checkout(str(dirty.directory), "", destination)
    assert not (destination / "dep").exists()
    assert "without .env, deploy.key, the repository dep/" in capsys.readouterr().err
    dirty.git("reset", "-q", "--hard")
    for new in ("new file\n.txt", "run.sh"):
        (dirty.directory / new).unlink()
    checkout(str(dirty.directory), "", destination.with_name("again"))
    assert "is checked out without the repository dep/" in capsys.readouterr().err


def test_names_that_are_no_text_are_told_as_one(dirty, destination, capsys):
    Path(os.fsdecode(os.fsencode(dirty.directory) + b"/caf\xe9.key")).touch()
    checkout(str(dirty.directory), "", destination)
    assert r"without .env, caf\xe9.key, deploy.key" in capsys.readouterr().err


def test_a_page_of_a_report_is_no_change_of_the_code(repository, destination):
    picture = Picture("flowers", 1.0, "FINISHED", began=0.0)
    picture.close()
    (repository.directory / "flowers.html").write_text(page.render(picture))
    (repository.directory / "index.html").write_text("<html>")
    checkout(str(repository.directory), "", destination)
    assert [*destination.glob("*.html")] == [destination / "index.html"]


SECRET = (
    *(
        ".env",
        ".env.local",
        "prod.env",
        ".envrc",
        ".npmrc",
        "_netrc",
        ".pgpass",
        ".aws/credentials",
    ),
    *("a/.ssh/config", ".docker/config.json", "id_ed25519", "server.PEM", "a/Key.P12", "app.jks"),
    *("putty.ppk", "credentials.json", "service-account.json", "my_serviceaccount_2.json"),
    *("client_secret_1.apps.json", "Secrets.yaml", "kubeconfig"),
)
PLAIN = (
    *("environment.py", "env", "id_rsa.pub", "keys.py", "secrets.py", "credentials.py"),
    *("docker/config.json", "aws/model.py", "key", "monkey", "accounts.json", "tokens.npz"),
)


def test_new_files_that_look_like_secrets_stay_here(repository, destination, capsys):
    for name in (*SECRET, *PLAIN):
        path = repository.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("any")
    repository.git("add", ".npmrc")
    checkout(str(repository.directory), "", destination)
    taken = files(destination)
    assert [name for name in SECRET if name in taken] == [".npmrc"]
    assert {*PLAIN} <= {*taken}
    told = capsys.readouterr().err
    assert all(name in told for name in SECRET if name != ".npmrc")


def test_the_same_content_is_the_same_commit(dirty, destination, tmp_path):
    one = checkout(str(dirty.directory), "", destination).commit
    (dirty.directory / "file.txt").write_text("other")
    other = checkout(str(dirty.directory), "", destination).commit
    assert (destination / "file.txt").read_text() == "other"
    (dirty.directory / "file.txt").write_text("changed")
    again = checkout(str(dirty.directory), "", destination).commit
    assert one == again != other


def test_a_clean_tree_is_its_commit_and_nothing_is_kept(repository, destination):
    with journal.opened(destination.parent, "checkout"):
        taken = checkout(str(repository.directory), "", destination)
    assert taken.commit == repository.second
    assert not destination.with_name("code.pack").exists()
    records = journal.read(destination.parent, "checkout")
    tags = {name: text for each in records for name, text in each.get("tags", {}).items()}
    assert tags["git.dirty"] == "false"
    assert bundle.TAG not in tags


def test_what_is_not_committed_is_recorded_whole(dirty, destination):
    with journal.opened(destination.parent, "checkout"):
        taken = checkout(str(dirty.directory), "", destination)
    records = journal.read(destination.parent, "checkout")
    tags = {name: text for each in records for name, text in each.get("tags", {}).items()}
    assert (tags["git.commit"], tags["git.dirty"]) == (taken.commit, "true")
    assert tags[bundle.TAG] == "code.pack"
    kept = [Path(each["artifact"]).name for each in records if "artifact" in each]
    assert kept == ["code.diff", "code.pack"]
    assert "with 5 uncommitted files" in journal.summary_of(destination.parent, "checkout")


def test_a_repository_without_commits_is_taken_too(make_repository, destination):
    made = make_repository("origin")
    (made.directory / "file.txt").write_text("first")
    checkout(str(made.directory), "", destination)
    assert files(destination) == ["file.txt"]


@pytest.fixture
def plain(tmp_path):
    """A folder that is no repository."""
    folder = tmp_path / "plain"
    for name in ("train.py", "sub/net.py", ".venv/bin/python", "__pycache__/net.pyc", "notes.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / ".gitignore").write_text("*.log\n")
    return folder


def test_a_folder_that_is_no_repository_is_taken_too(plain, destination):
    check_here(str(plain), "", "")
    check_file("entrypoint", "sub/net.py", str(plain), "", "")
    found = checkout(str(plain), "", destination)
    assert files(destination) == [".gitignore", "sub/net.py", "train.py"]
    assert not (plain / ".git").exists()
    assert bundle.of_directory(str(plain), "", False).commit == found.commit
    with pytest.raises(InputError, match=r"entrypoint 'notes\.log' is left out of the code"):
        check_file("entrypoint", "notes.log", str(plain), "", "")
    with pytest.raises(InputError, match="code_revision 'main' does not exist in file:///"):
        check_here(str(plain), "", "main")


def test_a_folder_of_more_than_code_is_refused(plain, monkeypatch):
    monkeypatch.setattr(snapshot, "MOST", 20)
    check_here(str(plain), "", "")
    (plain / "data/a").mkdir(parents=True)
    for number in range(20):
        (plain / f"data/a/{number}.bin").touch()
    (plain / ".gitignore").write_text("*.log\n/data/\n")
    check_here(str(plain), "", "")
    (plain / ".gitignore").write_text("*.log\n")
    told = "is not a git repository and has more than 20 files; .* or code_without, as data"
    with pytest.raises(InputError, match=told):
        check_here(str(plain), "", "")
    check_here(str(plain), "", "", ["./data/a/"])


@pytest.mark.parametrize("is_plain", [True, False])
def test_folders_of_tools_are_no_code(repository, plain, destination, is_plain, monkeypatch):
    at = plain if is_plain else repository.directory
    before = {".gitignore", "sub/net.py", "train.py"} if is_plain else {"file.txt"}
    for name in ("wandb/a", "sub/node_modules/a/b", "mine/pyvenv.cfg", "mine/lib/a.py", "new.py"):
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(name)
    monkeypatch.setattr(snapshot, "MOST", 5)
    checkout(str(at), "", destination)
    assert {*files(destination)} == before | {"new.py"}


def test_a_folder_that_is_itself_a_virtual_environment_has_code(plain, destination):
    (plain / "pyvenv.cfg").touch()
    checkout(str(plain), "", destination)
    assert "train.py" in files(destination)


def test_what_is_no_code_is_left_out_of_a_folder(plain, destination):
    check_here(str(plain), "", "", ["sub"])
    with pytest.raises(InputError, match=r"'sub/net\.py' is left out of the code: code_without"):
        check_file("entrypoint", "sub/net.py", str(plain), "", "", ["sub"])
    found = checkout(str(plain), "", destination, without=["sub"])
    assert files(destination) == [".gitignore", "train.py"]
    sent = bundle.of_directory(str(plain), "", False, ["sub"])
    assert sent.commit == found.commit


def test_what_is_no_code_is_left_out_of_a_repository(repository, destination, capsys):
    at = repository.directory
    (at / "data").mkdir()
    for name in ("data/.gitkeep", "data/README.md", "*x*"):
        (at / name).write_text(name)
    repository.commit("three")
    before = repository.git("rev-parse", "HEAD")
    (at / "data/train.csv").write_text("new")
    (at / "link").symlink_to("/mnt/data")
    checkout(str(at), "", destination, without=["data", "link"])
    assert files(destination) == ["*x*", "data/.gitkeep", "file.txt"]
    assert repository.git("rev-parse", "HEAD") == before
    assert (at / "data/README.md").is_file()


def test_a_folder_that_only_git_keeps_is_left_out_without_a_change(repository, destination):
    at = repository.directory
    (at / "data").mkdir()
    (at / "data/.gitkeep").touch()
    commit = repository.commit("three")
    (at / "data/train.csv").write_text("new")
    assert checkout(str(at), "", destination, without=["data"]).commit == commit


@pytest.mark.parametrize(
    ("path", "revision", "told"),
    [
        ("../x", "", r"code_without '\.\./x': must be a path inside"),
        ("/x", "", "code_without '/x': must be a path inside"),
        (".", "", r"code_without '\.': must be a path inside"),
        (1, "", "code_without 1: must be a path inside"),
        ("data", "main", "code_without is given without a directory"),
    ],
)
def test_what_is_no_code_is_a_path_in_a_folder(repository, destination, path, revision, told):
    with pytest.raises(InputError, match=told):
        checkout(str(repository.directory), revision, destination, without=[path])


def test_what_is_too_large_is_refused_before_it_is_read(repository, monkeypatch):
    monkeypatch.setattr(snapshot, "LIMIT", 1000)
    with (repository.directory / "data.bin").open("wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(InputError, match=r"has 10\.0 GiB \(the largest file is data\.bin\)"):
        check_here(str(repository.directory), "")
    check_here(str(repository.directory), "", "HEAD")
    (repository.directory / ".gitignore").write_text("*.bin\n")
    check_here(str(repository.directory), "")


def test_a_folder_in_a_repository_is_told_its_top(repository):
    folder = repository.directory / "a/b"
    folder.mkdir(parents=True)
    told = f"give code_url={repository.directory} and code_directory=a/b"
    with pytest.raises(InputError, match=told):
        check_here(str(folder), "")
    with pytest.raises(InputError, match=told):
        bundle.of_directory(str(folder), "", has_mlflow=False)


def test_a_file_of_the_working_tree_is_there_unless_gitignore_names_it(repository):
    at, name = str(repository.directory), "requirements.txt"
    (repository.directory / name).write_text("x")
    check_file("requirements", name, at, "", "")
    with pytest.raises(InputError, match=f"requirements '{name}' does not exist in the repo"):
        check_file("requirements", name, at, "HEAD", "")
    (repository.directory / ".gitignore").write_text("*.txt\n")
    with pytest.raises(InputError, match=f"'{name}' is left out of the code: .gitignore names it"):
        check_file("requirements", name, at, "", "")
    check_file("entrypoint", "file.txt", at, "", "")  # committed all the same


def test_a_change_in_the_second_of_the_commit_is_one(repository, destination):
    file = repository.directory / "file.txt"
    before = file.read_bytes()
    repository.commit("three")
    then = (repository.directory / ".git" / "index").stat().st_mtime_ns
    file.write_bytes(bytes(reversed(before)))
    os.utime(file, ns=(then, then))
    time.sleep(1.1)  # the copy of the index is of another second
    checkout(str(repository.directory), "", destination)
    assert (destination / "file.txt").read_bytes() == bytes(reversed(before)) != before


@pytest.mark.skipif(not shutil.which("git-lfs"), reason="needs git-lfs")
def test_changed_files_of_lfs_are_taken_as_they_are(repository, destination, tmp_path, monkeypatch):
    at = repository.directory
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    repository.git("lfs", "install", "--skip-repo")
    (at / ".gitattributes").write_text("*.bin filter=lfs diff=lfs -text\n")
    (at / "big.bin").write_bytes(b"before")
    repository.commit("in LFS")
    clean = repository.git("rev-parse", "HEAD")
    os.utime(at / "big.bin", (1, 1))  # which is no change
    with snapshot.taken(str(at)) as taken:
        assert (taken.commit, taken.changed) == (clean.strip(), 0)
    for name in ("big.bin", "new.bin"):
        (at / name).write_bytes(name.encode())
    checkout(str(at), "", destination)
    assert [(destination / name).read_text() for name in ("big.bin", "new.bin")] == [
        "big.bin",
        "new.bin",
    ]


def test_names_with_a_carriage_return_are_taken(repository, destination):
    (repository.directory / "Icon\r").write_text("icon")
    checkout(str(repository.directory), "", destination)
    assert (destination / "Icon\r").read_text() == "icon"


def test_a_file_behind_a_link_or_in_a_submodule_may_be_there(repository):
    at = repository.directory
    (at / "v2").mkdir()
    (at / "v2" / "train.py").write_text("x")
    (at / "current").symlink_to("v2")
    repository.commit("a link")
    for path in ("v2/train.py", "current/train.py"):
        check_file("entrypoint", path, str(at), "HEAD", "")
    with pytest.raises(InputError, match=r"entrypoint 'v2/other\.py' does not exist"):
        check_file("entrypoint", "v2/other.py", str(at), "HEAD", "")


def test_filters_of_the_repository_do_not_run(repository, destination, tmp_path):
    ran, script = tmp_path / "ran", tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch '{ran}'\ncat\n")
    script.chmod(0o755)
    (repository.directory / ".gitattributes").write_text("*.txt filter=evil\n")
    repository.git("config", "filter.evil.clean", str(script))
    (repository.directory / "file.txt").write_text("changed")
    checkout(str(repository.directory), "", destination)
    assert (destination / "file.txt").read_text() == "changed"
    assert not ran.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_another_users_folder_is_taken_as_it_is_too(repository, destination):
    (repository.directory / "file.txt").write_text("changed")
    for path in (repository.directory, *repository.directory.rglob("*")):
        os.chown(path, 1234, 1234)
    checkout(str(repository.directory), "", destination)
    assert (destination / "file.txt").read_text() == "changed"


def test_a_linked_worktree_and_a_shallow_clone_are_taken(repository, destination, tmp_path):
    repository.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    repository.git(
        "clone", "--quiet", "--depth=1", repository.directory.as_uri(), str(tmp_path / "s")
    )
    for name in ("linked", "s"):
        (tmp_path / name / "file.txt").write_text(name)
        checkout(str(tmp_path / name), "", destination)
        assert (destination / "file.txt").read_text() == name


def packed(repository, revision="", has_mlflow=False):
    return bundle.of_directory(str(repository.directory), revision, has_mlflow)


@pytest.fixture
def kept(monkeypatch):
    """What is kept where bundles are, by commit."""
    places = {}
    monkeypatch.setattr(
        bundle, "_download", lambda place, commit, file: file.write_bytes(places[commit])
    )
    return places


def test_a_bundle_is_the_commit(dirty, kept, destination, tmp_path):
    made = packed(dirty)
    assert made.place == "configmap"
    kept[made.commit] = made.content
    assert checkout(made.url, "", destination).commit == made.commit
    assert checkout(str(dirty.directory), "", tmp_path / "here").commit == made.commit
    assert files(destination) == files(tmp_path / "here")
    kept.clear()
    assert checkout(made.url, made.commit, destination).commit == made.commit  # it is there


@pytest.mark.parametrize("revision", ["main~1", "main"])
def test_a_revision_is_packed_as_it_is(dirty, kept, destination, revision):
    made = packed(dirty, revision)
    wanted = dirty.git("rev-parse", revision).strip()
    assert made.commit == wanted
    kept[made.commit] = made.content
    assert checkout(made.url, "", destination).commit == wanted


def test_another_pack_and_a_broken_one_are_refused(dirty, kept, destination):
    made = packed(dirty)
    for content in (packed(dirty, "main").content, made.content[:-30], b""):
        kept[made.commit] = content
        with pytest.raises(InputError, match="is not that commit"):
            checkout(made.url, "", destination)
        assert not destination.exists()


def test_large_code_goes_to_mlflow_or_nowhere(dirty, monkeypatch):
    monkeypatch.setattr(bundle, "CONFIG_MAP_LIMIT", 100)
    assert packed(dirty, has_mlflow=True).place == "mlflow"
    with pytest.raises(InputError, match="for more MLFLOW_TRACKING_URI"):
        packed(dirty)
    monkeypatch.setattr(bundle, "LIMIT", 100)
    with pytest.raises(InputError, match="which is the most that travels"):
        packed(dirty, has_mlflow=True)


@pytest.mark.parametrize(
    ("make", "revision", "told"),
    [
        (shutil.rmtree, "", "is not a git repository"),
        (lambda at: None, "nothing", "has no commit 'nothing'"),
    ],
)
def test_what_cannot_travel_gets_a_sentence(repository, make, revision, told):
    make(repository.directory)
    with pytest.raises(InputError, match=told):
        packed(repository, revision)


def test_files_in_lfs_do_not_travel(repository):
    (repository.directory / ".gitattributes").write_text("*.bin filter=lfs diff=lfs -text\n")
    with pytest.raises(InputError, match="has files in LFS"):
        packed(repository)


def test_a_run_on_a_cluster_takes_the_folder_along(dirty, monkeypatch):
    monkeypatch.chdir(dirty.directory)
    (dirty.directory / "train.py").touch()
    pipeline = catalog.load("pytorch-training")
    given = {"code_url": ".", "entrypoint": "train.py"}
    ready, arguments = loading.ready(pipeline, given, Argo())
    assert arguments["code_url"] == ready.bundle.url
    assert arguments["code_revision"] == ready.bundle.commit
    assert "in the ConfigMap trireme-code-" in str(ready.bundle)
    same, arguments = loading.ready(pipeline, given, Local())
    assert same.bundle is None
    assert arguments["code_url"] == "."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"entrypoint": "no.py"}, "entrypoint 'no.py' does not exist in the repository"),
        ({"requirements": ["no.txt"]}, "requirements 'no.txt' does not exist in the repository"),
        ({"evaluation": {"entrypoint": "e.py"}}, "evaluation.entrypoint 'e.py' does not exist"),
        ({"entrypoint": "train.py", "code_revision": "HEAD"}, "entrypoint 'train.py' does not"),
        ({"entrypoint": "ignored/train.py"}, "is left out of the code: .gitignore names it"),
    ],
)
def test_what_the_folder_lacks_is_refused_for_a_cluster_too(dirty, given, told):
    for place in ("", "ignored"):
        (dirty.directory / place / "train.py").touch()
    given = {"code_url": str(dirty.directory), "entrypoint": "train.py"} | given
    pipeline = catalog.load("pytorch-training")
    for place in (Local(), Argo()):
        with pytest.raises(InputError, match=told):
            loading.ready(pipeline, given, place)


def test_mlflow_keeps_a_bundle_once(dirty, destination, untracked, mlflow_store, monkeypatch):
    untracked.mkdir()
    monkeypatch.chdir(untracked)  # where MLflow puts artifacts if there is no server
    shutil.copy(mlflow_store, untracked)
    monkeypatch.setattr(bundle, "CONFIG_MAP_LIMIT", 100)
    made = packed(dirty, has_mlflow=True)
    with pytest.raises(InputError, match="no run in MLflow has that code"):
        checkout(made.url, "", destination)
    for _ in range(2):
        bundle.keep(made, lambda: pytest.fail("no cluster is needed"))
    assert len(list(untracked.rglob("code.pack"))) == 1
    assert checkout(made.url, "", destination).commit == made.commit


def test_files_that_have_become_something_else_are_taken_as_git_add_does(repository):
    top = repository.directory
    for name in ("folder/a", "other/b", "file", "gone", "program", "link"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(name)
    repository.commit("all")
    shutil.rmtree(top / "folder")
    (top / "folder").symlink_to("other")
    (top / "file").unlink()
    (top / "file").mkdir()
    (top / "file" / "within").write_text("new")
    (top / "gone").unlink()
    (top / "program").chmod(0o755)
    (top / "link").unlink()
    (top / "link").symlink_to("program")
    with snapshot.taken(str(top)) as taken:
        tree = repository.git("-C", str(taken.repository), "rev-parse", "HEAD^{tree}")
    repository.git("add", "--all")
    assert tree == repository.git("write-tree")


def test_a_repository_that_names_commits_by_sha256_is_refused(tmp_path):
    subprocess.run(["git", "init", "-q", "--object-format=sha256", tmp_path], check=True)
    (tmp_path / "file.txt").write_text("one")
    for read in (lambda: check_here(str(tmp_path), ""), lambda: snapshot.check(str(tmp_path))):
        with pytest.raises(InputError, match="names its commits by SHA-256"):
            read()
