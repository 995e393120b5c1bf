"""Checkout from real servers: http with passwords, ssh with keys, LFS, submodules, faults."""

import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from faulty_server import faulty
from git_servers import (
    FCGIWRAP,
    NGINX,
    PASSWORD,
    SSHD,
    USER,
    http_server,
    ssh_server,
)

from trireme.code import command
from trireme.code.git import checkout
from trireme.credentials import secrets
from trireme.errors import InputError, TriremeError
from trireme.tracking import journal

pytestmark = [
    pytest.mark.usefixtures("unaided_git"),
    pytest.mark.skipif(not (NGINX and FCGIWRAP), reason="needs nginx-light and fcgiwrap"),
]
needs_ssh = pytest.mark.skipif(not SSHD, reason="needs openssh-server")
needs_lfs = pytest.mark.skipif(not shutil.which("git-lfs"), reason="needs git-lfs")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Another server, which would like to have the password as well."""
    with http_server(tmp_path_factory.mktemp("elsewhere")) as server:
        yield server


@pytest.fixture(scope="module")
def http(tmp_path_factory, elsewhere):
    """The server."""
    moved = f"{elsewhere.url}/private"
    with http_server(tmp_path_factory.mktemp("http"), moved) as server:
        yield server


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    with ssh_server(tmp_path_factory.mktemp("ssh")) as server:
        yield server


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(command, "PAUSES", (0.0,) * 3)


@pytest.fixture
def destination(tmp_path):
    return tmp_path / "workspace" / "code"


@pytest.fixture
def secret(untracked, monkeypatch, tmp_path):
    """Keeps a secret on this machine; returns its name."""
    monkeypatch.setattr(secrets, "MOUNTS", tmp_path / "mounts")

    def keep(**keys):
        directory = untracked / "secrets" / "team"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for key, value in keys.items():
            name = "ssh-privatekey" if key == "key" else key
            (directory / name).write_text(value)
        return "team"

    return keep


@pytest.fixture
def publish(make_repository, tmp_path):
    """Makes a repository with one commit and puts a copy on a server; returns path and commit."""
    count = iter(range(100))

    def put(server, area="private", prepare=lambda repository: None):
        name = f"{tmp_path.name}-{next(count)}"
        repository = make_repository(name)
        prepare(repository)
        commit = repository.commit(f"content of {name}")
        target = server.root / area / f"{name}.git"
        repository.git("clone", "--quiet", "--bare", ".", str(target))
        return f"{area}/{name}.git", commit

    return put


def with_submodules(**urls):
    """Returns what gives a repository these submodules; a URL and its commit each."""

    def prepare(repository):
        lines = []
        for name, (url, commit) in urls.items():
            lines.append(f'[submodule "{name}"]\n\tpath = {name}\n\turl = {url}\n')
            entry = f"160000,{commit},{name}"
            (repository.directory / name).mkdir()
            repository.git("update-index", "--add", "--cacheinfo", entry)
        (repository.directory / ".gitmodules").write_text("".join(lines))

    return prepare


def files_below(directory):
    return [file for file in directory.rglob("*") if file.is_file()]


def test_a_password_opens_a_private_repository(http, publish, secret, destination):
    path, commit = publish(http)
    name = secret(username=USER, password=PASSWORD)
    assert checkout(f"{http.url}/{path}", "main", destination, secret=name).commit == commit
    assert (destination / "file.txt").read_text().startswith("content of")


def test_a_token_needs_no_user_name(http, publish, secret, destination):
    path, commit = publish(http)
    name = secret(password=PASSWORD)
    assert checkout(f"{http.url}/{path}", "", destination, secret=name).commit == commit


def test_without_the_password_it_is_said_what_is_needed(http, publish, destination, untracked):
    path, _ = publish(http)
    with pytest.raises(InputError, match="needs code_secret, the name of a Secret"):
        checkout(f"{http.url}/{path}", "", destination)
    assert list(destination.parent.iterdir()) == []


def test_a_wrong_password_is_an_answer(http, publish, secret, destination):
    path, _ = publish(http)
    name = secret(username=USER, password="not-this-one")
    with pytest.raises(InputError, match="check the username and password") as caught:
        checkout(f"{http.url}/{path}", "", destination, secret=name)
    assert "not-this-one" not in str(caught.value)
    assert len([line for line in http.seen() if path in line]) == 2  # asked, and answered once


def test_a_repository_that_is_not_there_is_an_answer(http, secret, destination):
    name = secret(username=USER, password=PASSWORD)
    with pytest.raises(InputError, match="not found; check the URL"):
        checkout(f"{http.url}/private/nothing.git", "", destination, secret=name)
    assert len([line for line in http.seen() if "nothing.git" in line]) == 2


def test_a_secret_of_another_kind_is_refused(http, secret, destination):
    with pytest.raises(InputError, match="'team' has no password"):
        checkout(f"{http.url}/private/x.git", "", destination, secret=secret(key="x"))
    with pytest.raises(InputError, match="'team' has no ssh-privatekey"):
        checkout("git@127.0.0.1:x.git", "", destination, secret=secret(password="x"))
    with pytest.raises(InputError, match="'others': there is no such Secret"):
        checkout(f"{http.url}/private/x.git", "", destination, secret="others")
    with pytest.raises(InputError, match="its password must be one line"):
        checkout(f"{http.url}/private/x.git", "", destination, secret=secret(password="x\ny=1"))


def test_submodules_get_the_password_on_the_same_server_only(
    http, elsewhere, publish, secret, destination
):
    inner, inner_commit = publish(http)
    lib, lib_commit = publish(
        http, prepare=with_submodules(inner=(f"{http.url}/{inner}", inner_commit))
    )
    other, other_commit = publish(elsewhere, "public")
    submodules = with_submodules(
        lib=(f"../{Path(lib).name}", lib_commit), other=(f"{elsewhere.url}/{other}", other_commit)
    )
    path, _ = publish(http, prepare=submodules)
    name = secret(username=USER, password=PASSWORD)
    checkout(f"{http.url}/{path}", "main", destination, secret=name)
    for place in ("lib", "lib/inner", "other"):
        assert (destination / place / "file.txt").read_text().startswith("content of")
    git = ["git", "-C", str(destination), "status", "--porcelain"]
    assert subprocess.run(git, check=True, capture_output=True).stdout == b""
    seen = [line for line in elsewhere.seen() if other in line]
    assert seen and all(line.endswith("user=-") for line in seen)


def test_a_submodule_elsewhere_that_asks_for_a_password_does_not_get_it(
    http, elsewhere, publish, secret, destination
):
    greedy, commit = publish(elsewhere)
    path, _ = publish(http, prepare=with_submodules(x=(f"{elsewhere.url}/{greedy}", commit)))
    name = secret(username=USER, password=PASSWORD)
    with pytest.raises(InputError, match=r"the submodule x: .* cannot be read"):
        checkout(f"{http.url}/{path}", "main", destination, secret=name)
    seen = [line for line in elsewhere.seen() if greedy in line]
    assert seen and all(line.endswith("user=-") for line in seen)
    assert list(destination.parent.iterdir()) == []


def test_a_redirect_to_another_host_does_not_take_the_password_along(
    http, elsewhere, publish, secret, destination
):
    path, _ = publish(elsewhere)
    name = secret(username=USER, password=PASSWORD)
    moved = path.replace("private/", "moved/")
    with pytest.raises(InputError, match="cannot be read"):
        checkout(f"{http.url}/{moved}", "", destination, secret=name)
    seen = [line for line in elsewhere.seen() if path in line]
    assert seen and all(line.endswith("user=-") for line in seen)


@pytest.mark.parametrize(
    "url", ["ext::sh -c touch% ran", "file:///etc", "/etc", "--upload-pack=x", "https://a:b@c/d"]
)
def test_a_submodule_from_a_server_cannot_be_just_anything(
    url, http, publish, destination, tmp_path, monkeypatch, untracked
):
    monkeypatch.chdir(tmp_path)
    path, _ = publish(http, "public", with_submodules(x=(url, "1" * 40)))
    with pytest.raises(InputError, match="the submodule x: its URL"):
        checkout(f"{http.url}/{path}", "", destination)
    assert not (tmp_path / "ran").exists()
    assert list(destination.parent.iterdir()) == []


@needs_lfs
def test_lfs_files_come_with_the_password(http, publish, secret, destination):
    name = secret(username=USER, password=PASSWORD)
    path, _ = publish(http, prepare=with_lfs(http))
    checkout(f"{http.url}/{path}", "main", destination, secret=name)
    assert (destination / "weights.bin").read_text() == "weights" * 1000


@needs_lfs
def test_an_lfs_file_that_the_server_lost_is_said(http, publish, secret, destination):
    name = secret(username=USER, password=PASSWORD)
    path, _ = publish(http, prepare=with_lfs(http, "lost", keep=False))
    with pytest.raises(InputError, match=r"cannot be read: .*weights\.bin"):
        checkout(f"{http.url}/{path}", "main", destination, secret=name)
    assert list(destination.parent.iterdir()) == []


@needs_lfs
def test_without_git_lfs_it_is_said_that_files_are_missing(
    http, publish, destination, tmp_path, monkeypatch, capsys, untracked
):
    path, _ = publish(http, "public", with_lfs(http))
    few = tmp_path / "bin"
    few.mkdir()
    for program in ("git", "sh"):
        (few / program).symlink_to(shutil.which(program))
    monkeypatch.setenv("PATH", str(few))
    with journal.opened(tmp_path / "workspace", "checkout"):
        checkout(f"{http.url}/{path}", "main", destination)
    assert "without the files in LFS, because git-lfs is not inst" in capsys.readouterr().err
    assert (
        "git-lfs is not installed"
        in (tmp_path / "workspace/steps/checkout/journal.jsonl").read_text()
    )
    assert (destination / "weights.bin").read_text().startswith("version https://git-lfs")


def with_lfs(server, text="weights", keep=True):
    """Returns what gives a repository a file that is in LFS, and the server its content."""

    def prepare(repository):
        (repository.directory / ".gitattributes").write_text("*.bin filter=lfs -text\n")
        (repository.directory / "weights.bin").write_text(text * 1000)
        repository.git("config", "filter.lfs.clean", "git-lfs clean -- %f")
        if keep:
            repository.git("add", "weights.bin")
            objects = files_below(repository.directory / ".git" / "lfs" / "objects")
            (server.root / "lfs").mkdir(exist_ok=True)
            for file in objects:
                shutil.copy(file, server.root / "lfs")

    return prepare


def test_a_plain_web_server_will_do(http, publish, destination, untracked):
    path, first = publish(http, "plain")
    bare = ["git", "-C", str(http.root / path)]
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    tree = [*bare, *identity, "commit-tree", "-p", "main", "-m", "next", "main^{tree}"]
    second = subprocess.run(tree, check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run([*bare, "update-ref", "refs/heads/main", second], check=True)
    subprocess.run([*bare, "update-server-info"], check=True)
    url = f"{http.url}/{path}"
    assert checkout(url, "main", destination).commit == second
    assert checkout(url, first, destination).commit == first
    assert checkout(url, first[:9], destination).commit == first


@pytest.mark.parametrize("filters", ["true", "false"])
def test_a_short_commit_is_found_on_a_server(filters, http, publish, destination, untracked):
    path, commit = publish(http, "public")
    bare = ["git", "-C", str(http.root / path)]
    subprocess.run([*bare, "config", "uploadpack.allowFilter", filters], check=True)
    url = f"{http.url}/{path}"
    assert checkout(url, commit[:7], destination).commit == commit
    assert files_below(destination / ".git" / "commits") == []


def test_the_commit_that_is_there_is_not_asked_for(http, publish, destination, untracked):
    path, commit = publish(http, "public")
    url = f"{http.url}/{path}"
    checkout(url, commit, destination)
    before = len(http.seen())
    assert checkout(url, commit, destination).commit == commit
    assert len(http.seen()) == before
    assert checkout(url, "main", destination).commit == commit
    assert len(http.seen()) == before + 2  # what the branch is: one question in two requests


@pytest.mark.parametrize(
    "faults", [["503", "503"], ["reset"], ["429", "reset", "503"], ["cut 500"], ["cut 1500"]]
)
def test_faults_are_tried_again(faults, http, publish, destination, capsys, untracked):
    path, commit = publish(http, "public")
    with faulty(http.url, *faults) as (url, met):
        assert checkout(f"{url}/{path}", "main", destination).commit == commit
    assert met[: len(faults)] == faults
    assert "trying again" in capsys.readouterr().err


def test_a_server_that_stays_faulty_is_no_fault_of_the_input(http, publish, destination, untracked):
    path, _ = publish(http, "public")
    with faulty(http.url, *["503"] * 9) as (url, met), pytest.raises(TriremeError) as caught:
        checkout(f"{url}/{path}", "main", destination)
    assert "503" in str(caught.value)
    assert caught.value.exit_status == 1
    assert len(met) == 4
    assert list(destination.parent.iterdir()) == []


@pytest.mark.slow
def test_a_killed_checkout_leaves_nothing_that_matters(
    http, publish, destination, eventually, untracked, runs
):
    path, commit = publish(http, "public")
    module = [sys.executable, "-m", "trireme.code"]
    with faulty(http.url, "stall") as (url, met):
        process = subprocess.Popen([*module, f"{url}/{path}", "main", str(destination)])
        assert eventually(lambda: met and (destination.with_name("code.partial")).exists())
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert checkout(f"{url}/{path}", "main", destination).commit == commit
    assert [path.name for path in destination.parent.iterdir()] == ["code"]


@needs_ssh
def test_a_key_opens_a_repository_over_ssh(http, ssh, publish, secret, destination):
    lib, lib_commit = publish(http)
    submodule = with_submodules(lib=(f"../{Path(lib).name}", lib_commit))
    path, commit = publish(http, prepare=submodule)
    url = f"{ssh.url}{http.root}/{path}"
    name = secret(key=ssh.key.strip(), known_hosts=ssh.known_hosts)
    assert checkout(url, "main", destination, secret=name).commit == commit
    assert (destination / "lib" / "file.txt").exists()


@needs_ssh
def test_host_keys_are_checked(http, ssh, publish, secret, destination):
    path, _ = publish(http)
    url = f"{ssh.url}{http.root}/{path}"
    with pytest.raises(InputError, match=r"key is unknown.* add it as known_hosts to the Secret"):
        checkout(url, "", destination, secret=secret(key=ssh.key))
    another = f"{ssh.host} {Path(http_key(http.root)).read_text()}"
    with pytest.raises(InputError, match="is unknown or has changed"):
        checkout(url, "", destination, secret=secret(key=ssh.key, known_hosts=another))


@needs_ssh
def test_keys_that_do_not_fit_are_said(http, ssh, publish, secret, destination, tmp_path):
    path, _ = publish(http)
    url = f"{ssh.url}{http.root}/{path}"
    with pytest.raises(InputError, match="is not a private key"):
        checkout(url, "", destination, secret=secret(key="x", known_hosts=ssh.known_hosts))
    key = Path(http_key(tmp_path)).with_suffix("").read_text()
    with pytest.raises(InputError, match="check the ssh-privatekey of the Secret 'team'"):
        checkout(url, "", destination, secret=secret(key=key, known_hosts=ssh.known_hosts))


def http_key(directory):
    """Makes a pair of keys; returns the public one's file."""
    file = directory / "another"
    file.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return f"{file}.pub"


def test_the_password_is_kept_nowhere(
    http, publish, secret, destination, tmp_path, untracked, capfd, monkeypatch
):
    # This person's git would remember passwords that worked.
    configuration = tmp_path / "gitconfig"
    configuration.write_text(f"[credential]\n\thelper = store --file={tmp_path}/remembered\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    lib, lib_commit = publish(http)
    submodule = with_submodules(lib=(f"../{Path(lib).name}", lib_commit))
    path, commit = publish(http, prepare=submodule)
    name = secret(username=USER, password=PASSWORD)
    with watched() as lines, journal.opened(destination.parent, "checkout"):
        checkout(f"{http.url}/{path}", "main", destination, secret=name)
    assert any("remote-http" in line or "credential." in line for line in lines)
    shown = capfd.readouterr()
    texts = [*lines, shown.out, shown.err]
    secret_itself = untracked / "secrets" / "team" / "password"
    kept = [file for file in files_below(tmp_path) if file != secret_itself]
    assert destination / ".git" / "config" in kept
    texts += [file.read_bytes().decode(errors="replace") for file in kept]
    assert not [text for text in texts if PASSWORD in text]
    recorded = [json.dumps(one) for one in journal.read(destination.parent, "checkout")]
    assert commit in "".join(recorded)


class watched:  # noqa: N801
    """Collects the command lines of all processes for as long as it is entered."""

    def __enter__(self):
        self.lines, self.over = set(), threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self.lines

    def watch(self):
        while not self.over.is_set():
            for entry in Path("/proc").iterdir():
                try:
                    self.lines.add((entry / "cmdline").read_bytes().decode(errors="replace"))
                except OSError:
                    continue

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
