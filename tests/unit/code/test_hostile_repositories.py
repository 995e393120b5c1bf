"""A repository on this machine whose own configuration would have git run something: nothing is."""

import os
import shutil
import subprocess
from contextlib import nullcontext, suppress

import pytest

from trireme.code import bundle, command, snapshot
from trireme.code.git import check_file, check_here, checkout, resolve
from trireme.errors import InputError, TriremeError

pytestmark = pytest.mark.usefixtures("unaided_git")

# Those of git's settings that name a program, a file of settings, or a repository of another place:
# https://git-scm.com/docs/git-config
DANGEROUS = {
    "core.fsmonitor": "{run}",
    "core.hooksPath": "{hooks}",
    "core.sshCommand": "{run}",
    "core.gitProxy": "{run}",
    "core.askPass": "{run}",
    "core.editor": "{run}",
    "core.pager": "{run}",
    "core.alternateRefsCommand": "{run}",
    "core.attributesFile": "{attributes}",
    "core.worktree": "/etc",
    "credential.helper": "!{run}",
    "diff.external": "{run}",
    "diff.driver.command": "{run}",
    "diff.driver.textconv": "{run}",
    "filter.driver.clean": "{run}",
    "filter.driver.smudge": "{run}",
    "filter.driver.process": "{run}",
    "filter.a=b.clean": "{run}",
    "filter.a=b.smudge": "{run}",
    "filter.a=b.process": "{run}",
    "merge.driver.driver": "{run}",
    "gpg.program": "{run}",
    "commit.gpgSign": "true",
    "sequence.editor": "{run}",
    "interactive.diffFilter": "{run}",
    "trailer.x.command": "{run}",
    "uploadpack.packObjectsHook": "{run}",
    "remote.origin.uploadpack": "{run}",
    "remote.origin.vcs": "ext",
    "protocol.ext.allow": "always",
    "protocol.allow": "always",
    "alias.rev-parse": "!{run}",
    "alias.ls-files": "!{run}",
    "include.path": "{included}",
    "includeIf.gitdir:/.path": "{included}",
    "init.templateDir": "{hooks}",
    "submodule.sub.update": "!{run}",
    "url.ext::{run} .insteadOf": "file://",
    "extensions.worktreeConfig": "true",
}


@pytest.fixture
def destination(tmp_path):
    return tmp_path / "workspace" / "code"


@pytest.fixture
def repository(make_repository, tmp_path):
    """A repository with what hostile settings are about; ``ran`` is there if one was followed."""
    made = make_repository("origin")
    made.commit("one")
    attributes = "*.txt filter=driver diff=driver merge=driver\n*.md filter=a=b\n"
    (made.directory / ".gitattributes").write_text(attributes)
    (made.directory / "a.md").write_text("a")
    made.second = made.commit("two")
    made.ran, run = tmp_path / "ran", tmp_path / "run"
    run.write_text(f'#!/bin/sh\necho "$0 $@" >> {made.ran}\ncat 2>/dev/null\n')
    run.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        shutil.copy(run, hooks / name)
    included = tmp_path / "included"
    included.write_text(f"[core]\n\tfsmonitor = {run}\n")
    given = tmp_path / "attributes"
    given.write_text("* filter=driver\n")
    made.places = {"run": run, "hooks": hooks, "included": included, "attributes": given}
    (made.directory / "file.txt").write_text("changed")
    (made.directory / "new.md").write_text("new")
    return made


def set_up(repository, settings):
    """Writes settings as somebody would who means harm, past what git would refuse to write."""
    with (repository.directory / ".git" / "config").open("a") as config:
        for key, value in settings.items():
            section, _, name = key.format(**repository.places).rpartition(".")
            first, _, rest = section.partition(".")
            header = f'[{first} "{rest}"]' if rest else f"[{first}]"
            config.write(f"{header}\n\t{name} = {value.format(**repository.places)}\n")


def use(repository, destination):
    """Does with it all that a run would."""
    url = str(repository.directory)
    check_here(url, "")
    assert resolve(f"file://{url}", "main") == repository.second
    for revision in ("", "HEAD"):
        check_file("entrypoint", "file.txt", url, revision, "")
    with snapshot.taken(url) as taken:
        assert taken.changed == 2
    assert bundle.of_directory(url, "", False).commit == taken.commit
    assert bundle.of_directory(url, "HEAD", False).commit == repository.second
    assert checkout(url, "", destination).commit == taken.commit
    assert (destination / "file.txt").read_text() == "changed"
    assert (destination / "new.md").read_text() == "new"
    assert checkout(url, "main", destination).commit == repository.second
    assert (destination / "a.md").read_text() == "a"


@pytest.mark.parametrize("key", DANGEROUS)
def test_no_setting_of_its_own_is_followed(repository, destination, key):
    set_up(repository, {key: DANGEROUS[key]})
    use(repository, destination)
    assert not repository.ran.exists(), repository.ran.read_text()


def test_nor_are_all_of_them_together(repository, destination):
    set_up(repository, DANGEROUS)
    worktree = repository.directory / ".git" / "config.worktree"
    worktree.write_text(f"[core]\n\tfsmonitor = {repository.places['run']}\n")
    use(repository, destination)
    assert not repository.ran.exists(), repository.ran.read_text()


def test_git_itself_would_have_followed_them(repository):
    """The settings do what they are thought to do."""
    set_up(repository, {key: DANGEROUS[key] for key in ("core.fsmonitor", "filter.a=b.clean")})
    add = ["git", "-C", str(repository.directory), "add", "--all"]
    subprocess.run(add, check=False, capture_output=True)
    said = repository.ran.read_text()
    assert said.count("\n") >= 2


def test_what_a_promisor_remote_has_is_not_fetched(repository, destination, monkeypatch):
    monkeypatch.setattr(command, "PAUSES", ())
    run = repository.places["run"]
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::{run} %S",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
    }
    set_up(repository, settings)
    blob = repository.git("rev-parse", f"{repository.second}:a.md")
    (repository.directory / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(TriremeError):
        checkout(str(repository.directory), "main", destination)
    with suppress(TriremeError):  # what is in the folder may be enough
        checkout(str(repository.directory), "", destination)
    assert not repository.ran.exists()


@pytest.mark.parametrize("name", [".gitattributes", ".gitignore", ".gitmodules"])
def test_what_git_would_wait_for_is_refused(repository, name):
    (repository.directory / "folder").mkdir()
    os.mkfifo(repository.directory / "folder" / name)
    with pytest.raises(InputError, match=rf"/folder/{name}' is not a file$"):
        check_here(str(repository.directory), "")


@pytest.mark.parametrize("key", ["core.fsmonitor", "filter.driver.clean", "filter.a=b.process"])
def test_nor_is_one_of_a_repository_within_it(repository, make_repository, key):
    inner = make_repository("origin/inner")
    inner.commit("one")
    repository.git("add", "inner")
    repository.second = repository.commit("three")
    attributes = (repository.directory / ".gitattributes").read_text()
    (inner.directory / ".gitattributes").write_text(attributes)
    (inner.directory / "file.txt").write_text("two")
    inner.places, inner.ran = repository.places, repository.ran
    set_up(inner, {key: DANGEROUS[key]})
    (repository.directory / "file.txt").write_text("changed again")
    check_here(str(repository.directory), "")
    with snapshot.taken(str(repository.directory)) as taken:
        assert taken.changed == 1
    assert not repository.ran.exists(), repository.ran.read_text()
    inner.git("-c", "core.fsmonitor=false", "reset", "--quiet", "--hard")
    repository.ran.unlink(missing_ok=True)
    newer = inner.commit("four")
    repository.ran.unlink(missing_ok=True)
    with snapshot.taken(str(repository.directory)) as taken:
        listed = command.git("ls-tree", taken.commit, "inner", at=taken.repository).stdout
    assert newer in listed
    assert not repository.ran.exists(), repository.ran.read_text()


ENDLESS = [
    *("HEAD", "commondir", "config", "index", "packed-refs", "shallow", "info/exclude"),
    *("objects/info/alternates", "objects/info/commit-graph", "objects/pack/multi-pack-index"),
    *("objects/pack/pack-1.idx", "objects/00/11", "refs/heads/main", "refs/heads/deep/er"),
    *("../inner/.git/HEAD", "../inner/.git/refs/heads/main", "../inner/.git/packed-refs"),
]


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("put", [os.mkfifo, lambda file: file.symlink_to("/dev/zero")])
def test_nothing_of_it_is_waited_for_or_read_without_end(
    repository, make_repository, destination, name, put
):
    inner = make_repository("origin/inner")
    inner.commit("one")
    repository.git("add", "inner")
    file = repository.directory / ".git" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    put(file)
    ignored = name in ("config", "commondir")
    refused = pytest.raises(InputError, match=r"is not (a file|a git repository)")
    with nullcontext() if ignored else refused:
        check_here(str(repository.directory), "")
    with nullcontext() if ignored else pytest.raises(InputError, match=r"is not (a file|a git)"):
        checkout(str(repository.directory), "", destination)


def test_links_among_its_branches_are_not_followed_for_ever(repository):
    for name in ("a", "b", "c"):  # three ways to the folder from each of forty levels
        (repository.directory / ".git/refs/heads" / name).symlink_to("..")
    assert resolve(f"file://{repository.directory}", "main") == repository.second


def test_a_repository_that_git_finds_by_a_shorter_name_has_no_say_either(repository, destination):
    """The file:// URL of x is that of x.git where there is no x."""
    bare = repository.directory.with_name("bare.git")
    repository.git("clone", "--quiet", "--bare", ".", str(bare))
    with (bare / "config").open("a") as config:
        config.write("[uploadpack]\n\thideRefs = refs/heads\n")
    url = f"file://{bare.with_suffix('')}"
    assert checkout(url, "main", destination).commit == repository.second


@pytest.mark.parametrize("name", ["with\nline", 'with"quote', "#comment", " space "])
def test_a_folder_may_have_any_name(make_repository, destination, name):
    made = make_repository(name)
    made.commit("one")
    (made.directory / "file.txt").write_text("changed")
    checkout(str(made.directory), "", destination)
    assert (destination / "file.txt").read_text() == "changed"


@pytest.mark.parametrize("content", [b"\xff\0\n", b"x" * 100_000])
@pytest.mark.parametrize("name", ["commondir", "objects/info/alternates"])
def test_paths_that_are_none_are_one_sentence(repository, name, content):
    (repository.directory / ".git" / name).write_bytes(content)
    with pytest.raises(InputError, match=r"^code_url"):
        check_here(str(repository.directory), "")


def test_nor_is_its_configuration_waited_for(repository, destination):
    (repository.directory / ".git" / "config").unlink()
    os.mkfifo(repository.directory / ".git" / "config")
    assert checkout(str(repository.directory), "main", destination).commit == repository.second


def test_how_its_files_are_kept_is_heeded(repository, destination):
    repository.git("config", "core.fileMode", "false")
    (repository.directory / "file.txt").chmod(0o755)
    (repository.directory / "file.txt").write_text("one")
    repository.git("checkout", "--quiet", "--", ".")
    (repository.directory / "file.txt").chmod(0o755)
    (repository.directory / "new.md").unlink()
    with snapshot.taken(str(repository.directory)) as taken:
        assert taken.changed == 0


def test_nor_is_that_of_a_submodule(repository, make_repository, destination):
    inner = make_repository("inner")
    (inner.directory / ".gitattributes").write_text("*.txt filter=driver\n")
    inner.commit("a")
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add")
    repository.git(*add, str(inner.directory), "inner")
    repository.git("commit", "--quiet", "-m", "With a submodule")
    below = repository.directory / "inner"
    (below / "file.txt").write_text("b")  # as long as before, so that it has to be read
    inner.directory = below
    for key in ("filter.driver.clean", "core.fsmonitor"):
        inner.git("config", key, DANGEROUS[key].format(**repository.places))
    with snapshot.taken(str(repository.directory)) as taken:
        assert taken.changed == 2
    checkout(str(repository.directory), "", destination)
    assert not repository.ran.exists()
    # The commit that it is at travels, which may be a new one.
    commit = inner.git("rev-parse", "HEAD")
    moved = inner.git("commit-tree", "-p", commit, "-m", "c", f"{commit}^{{tree}}")
    inner.git("update-ref", "HEAD", moved)
    repository.ran.unlink(missing_ok=True)
    with snapshot.taken(str(repository.directory)) as taken:
        link = repository.git(
            f"--git-dir={taken.repository}", "ls-tree", taken.commit, "--", "inner"
        )
    assert link.split()[2] == moved
    assert not repository.ran.exists()
