"""trireme/code/git.py, with real repositories."""

import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from trireme.code import command, git
from trireme.code.git import check_here, checkout
from trireme.errors import InputError, TriremeError
from trireme.tracking import journal

pytestmark = pytest.mark.usefixtures("unaided_git")


@pytest.fixture
def repository(make_repository):
    """A repository with two commits on main; ``first`` is the older one."""
    made = make_repository("origin")
    made.first = made.commit("one")
    made.second = made.commit("two")
    return made


@pytest.fixture
def destination(tmp_path):
    return tmp_path / "workspace" / "code"


def content(destination: Path) -> str:
    return (destination / "file.txt").read_text()


def beside(destination: Path) -> list[str]:
    """Names of what was left next to the destination."""
    parent = destination.parent
    return sorted(path.name for path in parent.iterdir()) if parent.exists() else []


def test_a_branch_is_checked_out_at_its_tip(repository, destination):
    repository.git("checkout", "--quiet", "-b", "feature/x")
    tip = repository.commit("three")
    repository.git("checkout", "--quiet", "main")
    result = checkout(str(repository.directory), "feature/x", destination)
    assert result == (str(destination), tip)
    assert content(destination) == "three"
    assert beside(destination) == ["code"]


def test_a_lightweight_tag_is_found(repository, destination):
    repository.git("tag", "v1", repository.first)
    assert checkout(str(repository.directory), "v1", destination).commit == repository.first
    assert content(destination) == "one"


def test_an_annotated_tag_gives_the_commit_it_points_at(repository, destination):
    repository.git("tag", "-a", "-m", "release", "v1", repository.first)
    assert checkout(str(repository.directory), "v1", destination).commit == repository.first
    assert content(destination) == "one"


def test_a_branch_wins_over_a_tag_of_the_same_name(repository, destination):
    repository.git("branch", "twin", repository.second)
    repository.git("tag", "twin", repository.first)
    assert checkout(str(repository.directory), "twin", destination).commit == repository.second


def test_a_full_commit_is_found(repository, destination):
    result = checkout(str(repository.directory), repository.second, destination)
    assert result.commit == repository.second


def test_a_commit_that_is_not_a_branch_tip_is_found(repository, destination):
    result = checkout(str(repository.directory), repository.first, destination)
    assert result.commit == repository.first
    assert content(destination) == "one"


def test_a_server_that_hands_out_only_tips_still_gives_an_older_commit(
    repository, destination, monkeypatch
):
    # Protocol 0 refuses a commit that no reference points at, unless the server allows it.
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.version")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "0")
    result = checkout(str(repository.directory), repository.first, destination)
    assert result.commit == repository.first


def test_a_short_commit_is_found(repository, destination):
    result = checkout(str(repository.directory), repository.first[:8], destination)
    assert result.commit == repository.first
    assert content(destination) == "one"


def test_an_empty_revision_is_the_default_branch(repository, destination):
    repository.git("branch", "other", repository.first)
    assert checkout(str(repository.directory), "", destination).commit == repository.second


def test_an_empty_revision_of_a_bare_repository_is_its_head(repository, destination, tmp_path):
    bare = tmp_path / "bare.git"
    repository.git("branch", "trunk", repository.first)
    repository.git("clone", "--quiet", "--bare", ".", str(bare))
    (bare / "HEAD").write_text("ref: refs/heads/trunk\n")
    assert checkout(bare.as_uri(), "", destination).commit == repository.first


def test_head_of_a_detached_clone_is_what_is_checked_out_there(
    repository, destination, make_repository, tmp_path
):
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", ".", str(clone))
    repository.git("-C", str(clone), "checkout", "--quiet", "--detach", repository.first)
    for revision in ("", "HEAD"):
        assert checkout(str(clone), revision, destination).commit == repository.first


def test_head_of_a_shallow_detached_clone_is_found(repository, destination, tmp_path):
    clone = tmp_path / "clone"
    source = repository.directory.as_uri()
    repository.git("clone", "--quiet", "--depth=1", source, str(clone))
    repository.git("-C", str(clone), "checkout", "--quiet", "--detach")
    assert checkout(str(clone), "", destination).commit == repository.second


def test_a_file_url_with_an_encoded_space_is_found(make_repository, destination):
    repository = make_repository("my code")
    commit = repository.commit("spaced")
    assert "%20" in repository.directory.as_uri()
    assert checkout(repository.directory.as_uri(), "", destination).commit == commit
    assert checkout(str(repository.directory), "main", destination).commit == commit


@pytest.mark.parametrize("revision", ["main", "HEAD"])
def test_uncommitted_changes_are_not_brought_along_with_a_revision(
    repository, destination, revision
):
    (repository.directory / "file.txt").write_text("not committed")
    checkout(str(repository.directory), revision, destination)
    assert content(destination) == "two"


def test_the_url_of_a_directory_means_its_last_commit(repository, destination):
    (repository.directory / "file.txt").write_text("not committed")
    checkout(repository.directory.as_uri(), "", destination)
    assert content(destination) == "two"


def test_the_same_commit_already_there_is_left_as_it_is(repository, destination):
    checkout(str(repository.directory), "main", destination)
    (destination / "mark").write_text("still here")
    before = destination.stat().st_ino
    checkout(str(repository.directory), "main", destination)
    assert (destination / "mark").read_text() == "still here"
    assert destination.stat().st_ino == before


def test_a_changed_branch_brings_the_new_commit(repository, destination):
    checkout(str(repository.directory), "main", destination)
    (destination / "mark").write_text("of the old one")
    third = repository.commit("three")
    assert checkout(str(repository.directory), "main", destination).commit == third
    assert content(destination) == "three"
    assert not (destination / "mark").exists()


def test_a_half_done_checkout_of_before_is_replaced(repository, destination):
    partial = destination.with_name("code.partial")
    partial.mkdir(parents=True)
    (partial / "rubbish").write_text("half")
    checkout(str(repository.directory), "main", destination)
    assert beside(destination) == ["code"]
    assert not (destination / "rubbish").exists()


def test_a_directory_that_is_no_checkout_is_replaced(repository, destination):
    destination.mkdir(parents=True)
    (destination / "rubbish").write_text("something else")
    assert checkout(str(repository.directory), "", destination).commit == repository.second
    assert not (destination / "rubbish").exists()


def test_hooks_do_not_run(repository, destination, tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    template = tmp_path / "template"
    # The template's hooks would be copied into the new repository, its own are the server's.
    for hooks in (repository.directory / ".git" / "hooks", template / "hooks"):
        hooks.mkdir(parents=True, exist_ok=True)
        hook = hooks / "post-checkout"
        hook.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
        hook.chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(template))
    checkout(str(repository.directory), "main", destination)
    assert content(destination) == "two"
    assert not ran.exists()


def test_a_repository_of_the_callers_environment_does_not_stand_in(
    repository, destination, make_repository, monkeypatch
):
    other = make_repository("other")
    theirs = other.commit("not this one")
    monkeypatch.setenv("GIT_DIR", str(other.directory / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.directory))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.directory / ".git" / "index"))
    assert checkout(str(repository.directory), "main", destination).commit == repository.second
    assert content(destination) == "two"
    monkeypatch.undo()
    assert other.git("rev-parse", "HEAD") == theirs
    assert other.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    "url",
    [
        "https://somebody:hunter2@example.org/code.git",
        "https://hunter2@example.org/code.git",
        "http://x-access-token:hunter2@example.org/code.git",
        "ssh://git:hunter2@example.org/code.git",
        "https://example.org/code.git?private_token=hunter2",
        "git:hunter2@example.org:code.git",
    ],
)
def test_a_url_with_a_password_or_token_is_refused_and_not_repeated(url, destination):
    with pytest.raises(InputError, match="password or token") as caught:
        checkout(url, "", destination)
    assert "hunter2" not in str(caught.value)
    assert beside(destination) == []


@pytest.mark.parametrize(
    "url",
    ["https://example.org/code", "ssh://git@example.org/code", "git@example.org:code.git"],
)
def test_urls_without_a_password_are_accepted(url):
    git.check(url, "main")


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% ran",
        "ext::touch",
        "--upload-pack=touch ran",
        "-h",
        "fd::17",
        "ftp://example.org/code",
        "no/such/directory",
        "https://example.org/a b",
        "ssh://-oProxyCommand=touch/code",
        "-oProxyCommand=touch@example.org:code",
        "git@example.org:-touch",
        "file://example.org/code",
        "git://somebody@example.org/code",
        "~nosuchuser/code",
        pytest.param("a" * 300, id="too-long"),
    ],
)
def test_what_is_neither_a_url_nor_a_directory_is_refused(url, destination, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="code_url"):
        checkout(url, "", destination)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "revision", ["-h", "--upload-pack=touch", "main~1", "main x", "a:b", "main\n"]
)
def test_what_cannot_be_a_revision_is_refused(revision, repository, destination):
    with pytest.raises(InputError, match="is not a branch, a tag or a commit"):
        checkout(str(repository.directory), revision, destination)
    assert beside(destination) == []


@pytest.mark.parametrize("revision", ["no-such-branch", "0123456", "0" * 39 + "1"])
def test_an_unknown_revision_is_refused(revision, repository, destination):
    with pytest.raises(InputError, match=f"{revision}.* does not exist"):
        checkout(str(repository.directory), revision, destination)
    assert beside(destination) == []


def test_an_unknown_revision_leaves_the_checkout_of_before(repository, destination):
    checkout(str(repository.directory), "main", destination)
    with pytest.raises(InputError):
        checkout(str(repository.directory), "no-such-branch", destination)
    assert content(destination) == "two"
    assert beside(destination) == ["code"]


def test_a_repository_without_commits_is_refused(make_repository, destination):
    with pytest.raises(InputError):
        checkout(str(make_repository("empty").directory), "", destination)
    assert beside(destination) == []


def test_a_server_that_is_not_there_is_said_after_some_attempts(destination, monkeypatch, capsys):
    monkeypatch.setattr(command, "PAUSES", (0.0,) * 2)
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        port = bound_but_not_listening.getsockname()[1]
        with pytest.raises(TriremeError, match="cannot be read") as caught:
            checkout(f"git://127.0.0.1:{port}/code", "", destination)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 1
    assert capsys.readouterr().err.count("trying again") == 2
    assert beside(destination) == []


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("kill -9 $$", r"^git fetch was killed \(SIGKILL\)$"),
        ("echo Killed >&2; exit 128", "cannot be read: Killed"),
        ("echo 'error: git-upload-pack died of signal 15' >&2; exit 128", "died of signal 15"),
    ],
)
def test_a_git_that_is_killed_is_a_fault_and_not_bad_input(
    end, said, repository, destination, tmp_path, monkeypatch
):
    script = f'case "$*" in *" fetch "*) {end};; *) exec {shutil.which("git")} "$@";; esac'
    (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(command, "PAUSES", ())
    with pytest.raises(TriremeError, match=said) as caught:
        checkout(f"file://{repository.directory}", "main", destination)
    assert caught.value.exit_status == 1


def test_what_is_not_there_is_refused(tmp_path, destination):
    with pytest.raises(InputError, match="is not a git repository"):
        checkout((tmp_path / "nothing").as_uri(), "", destination)
    assert beside(destination) == []


def test_a_folder_of_a_repository_is_named_as_one_gives_it(repository, destination):
    folder = repository.directory / "sub folder"
    folder.mkdir(exist_ok=True)
    whole = re.escape(str(repository.directory))
    with pytest.raises(InputError, match=f"code_url={whole} and code_directory=sub folder$"):
        checkout(str(folder), "", destination)


def test_a_missing_git_is_said_in_one_sentence(repository, destination, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="git is not installed"):
        checkout(str(repository.directory), "", destination)


def test_a_url_that_is_refused_does_not_show_what_may_be_a_password(destination):
    with pytest.raises(InputError) as caught:
        checkout("https://ada:hunt/er2@example.org/code", "", destination)
    assert "hunt" not in str(caught.value)


def test_a_directory_in_the_repository_is_what_is_given(repository, destination):
    (repository.directory / "models" / "flowers").mkdir(parents=True)
    (repository.directory / "models" / "flowers" / "train.py").write_text("")
    commit = repository.commit("three")
    source = str(repository.directory)
    for _ in range(2):
        given = checkout(source, "main", destination, directory="models/flowers")
        assert given == (str(destination / "models/flowers"), commit)
    assert checkout(source, "main", destination).path == str(destination)


@pytest.mark.parametrize("directory", ["..", "/etc", "models/../..", ".git", "a\0b", "x/.git/y"])
def test_a_directory_outside_of_the_repository_is_refused(directory, repository, destination):
    with pytest.raises(InputError, match="must be a path inside the repository"):
        checkout(str(repository.directory), "main", destination, directory=directory)
    assert beside(destination) == []


@pytest.mark.parametrize("directory", ["nothing", "file.txt"])
def test_a_directory_that_is_none_is_refused(directory, repository, destination):
    with pytest.raises(InputError, match=f"code_directory '{directory}' is not a directory in"):
        checkout(str(repository.directory), "main", destination, directory=directory)


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("data", "/mnt/data"),
        ("up", "../elsewhere"),
        ("deep/up", "../../elsewhere"),
        ("roundabout", "deep/down/../../../elsewhere"),
        ("through", "deep/top/../elsewhere"),
    ],
)
def test_a_link_that_leads_out_of_the_repository_is_refused(link, target, repository, destination):
    deep = repository.directory / "deep"
    deep.mkdir()
    (deep / "down").symlink_to("../deep")
    (deep / "top").symlink_to("..")
    (repository.directory / link).symlink_to(target)
    repository.commit("three")
    told = f"{link} is a link that leads out of the repository, to {target}; remove"
    for refuse in (
        lambda url: checkout(url, "main", destination),
        lambda url: check_here(url, "", "main"),
        lambda url: check_here(url, ""),
    ):
        with pytest.raises(InputError, match=told):
            refuse(str(repository.directory))
    assert beside(destination) == []


def test_a_link_that_leads_out_and_is_not_committed_is_refused_before_a_run(repository):
    link = repository.directory / "out.lnk"
    link.symlink_to("/etc/passwd")
    url = str(repository.directory)
    with pytest.raises(InputError, match=r"out\.lnk is a link that leads out .*, to /etc/passwd"):
        check_here(url, "")
    check_here(url, "", "HEAD")
    repository.commit("with a link")
    with pytest.raises(InputError, match="is a link that leads out"):
        check_here(f"file://{url}", "")
    link.unlink()
    check_here(url, "")  # as it is now
    (repository.directory / ".gitignore").write_text("mine")
    (repository.directory / "mine").symlink_to("/etc")
    (repository.directory / "deep").symlink_to("mine/passwd")  # leads nowhere in a checkout
    check_here(url, "")


def test_links_inside_the_repository_are_kept(repository, destination):
    deep = repository.directory / "deep"
    deep.mkdir()
    (deep / "file").symlink_to("../file.txt")
    (repository.directory / "dangling").symlink_to("not-yet")
    (repository.directory / "loop").symlink_to("loop")
    repository.commit("three")
    for revision in ("", "main"):
        check_here(str(repository.directory), "", revision)
    checkout(str(repository.directory), "main", destination)
    assert (destination / "deep" / "file").read_text() == "three"
    assert (destination / "dangling").is_symlink()


@pytest.fixture
def nested(repository, make_repository):
    """The repository, with a submodule beside it."""
    library = make_repository("library")
    commit = library.commit("of the library")
    library.commit("something newer")
    (repository.directory / "lib").mkdir()
    (repository.directory / ".gitmodules").write_text(
        '[submodule "the.lib"]\n\tpath = lib\n\turl = ../library\n'
    )
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},lib")
    repository.commit("three")
    return repository


def test_submodules_are_at_the_commit_that_is_recorded(nested, destination):
    checkout(str(nested.directory), "main", destination)
    assert (destination / "lib" / "file.txt").read_text() == "of the library"


@pytest.mark.parametrize(("wanted", "files"), [("none", []), ("lib", ["file.txt"])])
def test_submodules_are_a_choice(nested, destination, wanted, files):
    checkout(str(nested.directory), "main", destination, submodules=wanted)
    found = [each.name for each in (destination / "lib").iterdir() if each.name != ".git"]
    assert found == files
    assert (destination / "file.txt").read_text() == "three"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("lib,other", "code_submodules 'other': the repository has lib"),
        ("lib,", "code_submodules 'lib,': must be all, none, or the paths"),
        ("", "code_submodules '': must be all, none, or the paths"),
    ],
)
def test_a_submodule_that_there_is_not_is_refused(nested, destination, wanted, said):
    with pytest.raises(InputError, match=said):
        checkout(str(nested.directory), "main", destination, submodules=wanted)
    assert not destination.exists()


def test_a_submodule_that_is_gone_is_named_with_its_url(nested, destination, make_repository):
    library = nested.directory.parent / "library"
    library.rename(library.with_name("moved"))
    with pytest.raises(InputError, match=r"the submodule lib: .*library.*code_submodules says"):
        checkout(str(nested.directory), "main", destination)


def test_a_submodule_that_is_to_be_left_out_is_named(nested, destination, capsys):
    with (nested.directory / ".gitmodules").open("a") as file:
        file.write("\tupdate = none\n")
    nested.commit("four")
    checkout(str(nested.directory), "main", destination)
    assert list((destination / "lib").iterdir()) == []
    assert "without the submodule lib" in capsys.readouterr().err


def records(workspace, kind):
    """What the journal of the step has of a kind, put together."""
    found = [record[kind] for record in journal.read(workspace, "checkout") if kind in record]
    return dict(pair for one in found for pair in one.items()) if kind != "artifact" else found


def test_what_is_not_committed_is_recorded(repository, destination):
    (repository.directory / "staged.txt").write_text("staged")
    repository.git("add", "staged.txt")
    (repository.directory / "file.txt").write_text("changed")
    (repository.directory / "untracked.txt").write_text("unknown to git")
    with journal.opened(destination.parent, "checkout"):
        checkout(str(repository.directory), "main", destination)
    tags = records(destination.parent, "tags")
    assert tags["git.commit"] == repository.second
    assert tags["git.branch"] == "main"
    assert tags["git.dirty"] == "true"
    (file,) = records(destination.parent, "artifact")
    difference = Path(file).read_text()
    assert "+changed" in difference and "+staged" in difference
    assert "unknown to git" not in difference


def test_a_clean_tree_leaves_no_difference(repository, destination):
    with journal.opened(destination.parent, "checkout"):
        checkout(str(repository.directory), "", destination)
    assert records(destination.parent, "tags")["git.dirty"] == "false"
    assert records(destination.parent, "artifact") == []
    assert beside(destination) == ["code", "steps"]


def test_changes_to_another_commit_say_nothing_of_this_one(repository, destination):
    (repository.directory / "file.txt").write_text("changed")
    with journal.opened(destination.parent, "checkout"):
        checkout(str(repository.directory), repository.first, destination)
    assert "git.dirty" not in records(destination.parent, "tags")
    assert records(destination.parent, "artifact") == []


def test_a_large_difference_is_cut(repository, destination, monkeypatch):
    (repository.directory / "file.txt").write_text("line\n" * 100_000)
    monkeypatch.setattr(git, "LIMIT", 1000)
    checkout(str(repository.directory), "main", destination)
    difference = destination.with_name("code.diff").read_text()
    assert len(difference) < 1100
    assert difference.endswith("cut here: there is more]\n")


def test_what_the_local_repository_configures_does_not_run(repository, destination, tmp_path):
    ran = tmp_path / "ran"
    (repository.directory / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    repository.commit("three")
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch '{ran}'\ncat\n")
    script.chmod(0o755)
    settings = {
        "filter.evil.clean": script,
        "filter.evil.process": script,
        "filter.evil.required": "true",
        "diff.evil.textconv": script,
        "diff.evil.command": script,
        "diff.external": script,
        "core.fsmonitor": script,
        "core.sshCommand": script,
        "uploadpack.packObjectsHook": script,
    }
    for name, value in settings.items():
        repository.git("config", name, str(value))
    (repository.directory / "file.txt").write_text("changed")
    checkout(str(repository.directory), "main", destination)
    assert "+changed" in destination.with_name("code.diff").read_text()
    assert not ran.exists()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs another file system")
def test_in_a_pod_a_repository_has_to_be_on_a_volume(
    repository, destination, monkeypatch, untracked, tmp_path
):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as volume:
        bare = Path(volume, "code.git")
        repository.git("clone", "--quiet", "--bare", ".", str(bare))
        assert checkout(bare.as_uri(), "", destination).commit == repository.second
    if tmp_path.stat().st_dev == Path("/").stat().st_dev:
        with pytest.raises(InputError, match="in a pod a repository must be on a mounted volume"):
            checkout(repository.directory.as_uri(), "", destination)


def test_a_short_commit_that_is_there_is_not_searched_again(repository, destination, monkeypatch):
    source = str(repository.directory)
    checkout(source, repository.first[:10], destination)
    (destination / "mark").write_text("still here")
    assert checkout(source, repository.first[:10], destination).commit == repository.first
    assert (destination / "mark").exists()


def test_a_server_that_hands_out_only_tips_is_asked_for_no_more_history_than_it_takes(
    repository, destination, monkeypatch
):
    commits = [repository.commit(f"number {number}") for number in range(70)]
    for name, value in (("COUNT", "1"), ("KEY_0", "protocol.version"), ("VALUE_0", "0")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    checkout(str(repository.directory), commits[30], destination)
    assert content(destination) == "number 30"
    log = ["git", "-C", str(destination), "log", "--all", "--format=%H"]
    history = subprocess.run(log, check=True, capture_output=True, text=True).stdout.split()
    assert repository.first not in history


def test_a_destination_that_cannot_be_written_is_said(repository, tmp_path):
    (tmp_path / "occupied").write_text("a file")
    with pytest.raises(TriremeError, match="cannot be written"):
        checkout(str(repository.directory), "main", tmp_path / "occupied" / "code")


def test_what_a_revision_is_now_can_be_asked(repository, tmp_path):
    url = str(repository.directory)
    repository.git("tag", "-a", "v1", "-m", "one", repository.first)
    assert git.resolve(url, "main") == git.resolve(url, "") == repository.second
    assert git.resolve(url, "v1") == git.resolve(url, repository.first) == repository.first
    assert git.resolve(url, repository.first[:8]) == repository.first[:8]
    with pytest.raises(InputError, match="is not a git repository"):
        git.resolve((tmp_path / "nothing").as_uri(), "main")
