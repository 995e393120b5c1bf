"""What several test files need."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tracking_uri
from hypothesis import settings

from trireme.frameworks import KINDS
from trireme.tracking.client import PATIENCE

GOLDEN = Path(__file__).parent / "golden"

# Other tests use the other cores, and threads that wait for a core take it from those that work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What Python keeps back before it writes is part of what is tested.
os.environ.pop("PYTHONUNBUFFERED", None)

# torch loads triton where it is installed, and its LLVM and that of TensorFlow end a process that
# has loaded both. Nothing here needs it.
sys.modules["triton"] = None  # type: ignore[assignment]

# Under nohup SIGHUP is ignored, by all that the tests start, too. What is handled is not.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
# So is SIGINT in what a shell's script starts in the background, and Python then raises nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Of what hypothesis keeps, such as its tables of letters, nothing is left in the repository.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", f"{tempfile.gettempdir()}/hypothesis")

# No database: a test run leaves nothing behind. No deadline: the machine may be busy.
settings.register_profile("trireme", database=None, deadline=None)
settings.load_profile("trireme")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts files with slow tests first: one that started last would leave the other cores idle."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Handles signals after each test as before: the command line ignores them as it ends."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with tests/golden/NAME, or writes that file where UPDATE_GOLDEN=1."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN") == "1":
            file.write_text(text)
        assert file.exists(), f"there is no {file}; make it with UPDATE_GOLDEN=1"
        assert text == file.read_text(), f"{name} has changed; if it should, set UPDATE_GOLDEN=1"

    return compare


@pytest.fixture
def replicas() -> Callable[..., dict[str, Any]]:
    """Makes the replicas of one role, as a person writes them in a manifest."""

    def make(
        command: list[str] | None,
        count: int = 1,
        restart: str = "Never",
        env: dict[str, str] | None = None,
        pod: dict[str, Any] | None = None,
        **container: Any,
    ) -> dict[str, Any]:
        main = {"image": "example.org/trainer:1", **container}
        if command:
            main["command"] = command
        if env:
            main["env"] = [{"name": name, "value": value} for name, value in env.items()]
        spec = {"containers": [main], **(pod or {})}
        return {"replicas": count, "restartPolicy": restart, "template": {"spec": spec}}

    return make


ALWAYS = {"PyTorchJob": {"nprocPerNode": "1"}, "MPIJob": {"slotsPerWorker": 1}}
"""What every job of a kind that is made from a description has."""


@pytest.fixture
def job() -> Callable[..., dict[str, Any]]:
    """Makes the manifest of a training job from the replicas of its roles."""

    def make(
        kind: str,
        policy: dict[str, Any] | None = None,
        spec: dict[str, Any] | None = None,
        **roles: dict[str, Any],
    ) -> dict[str, Any]:
        of = KINDS[kind]
        for role in roles.values():
            for container in role["template"]["spec"]["containers"]:
                container.setdefault("name", of.container)
        return {
            "apiVersion": of.api_version,
            "kind": kind,
            "metadata": {"name": "job"},
            "spec": {
                "runPolicy": {"cleanPodPolicy": "Running"} | (policy or {}),
                of.replicas: roles,
            }
            | ALWAYS.get(kind, {})
            | (spec or {}),
        }

    return make


class Repository:
    """A git repository to check out from."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        """Runs git in the repository; returns what it prints."""
        identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
        return subprocess.run(
            ["git", *identity, "-C", str(self.directory), *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self, content: str) -> str:
        """Commits a file.txt with this content; returns the commit."""
        (self.directory / "file.txt").write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", content)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[[str], Repository]:
    """Makes empty git repositories by name."""
    return lambda name: Repository(tmp_path / name)


@pytest.fixture
def unaided_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps git from reading the configuration of whoever runs the tests."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def untracked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Takes the variables of a surrounding run away; gives a TRIREME_HOME not yet there.

    What a command of the test tells MLflow is not told to the next test.
    """
    for name in list(os.environ):
        if re.match(r"(_?MLFLOW|TRIREME|MASTER|PET|LOCAL|GROUP)_|(RANK|WORLD_SIZE)$", name):
            monkeypatch.delenv(name)
    home = tmp_path / "trireme-home"
    monkeypatch.setenv("TRIREME_HOME", str(home))
    # A command that hurries does so to its process's end.
    monkeypatch.setattr("trireme.tracking.client._patience", PATIENCE)
    before = tracking_uri.told()
    yield home
    if tracking_uri.told() != before:
        import mlflow

        mlflow.set_tracking_uri(before)


@pytest.fixture(scope="session")
def mlflow_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with MLflow's tables, to be copied; making one takes seconds."""
    import mlflow

    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    mlflow.MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b") ")[2][:1] != b"Z"


def _eventually(condition: Callable[[], object], seconds: float = 60) -> bool:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def runs() -> Callable[[int], bool]:
    """Tells whether a process still runs; a zombie does not."""
    return _runs


@pytest.fixture
def eventually() -> Callable[..., bool]:
    """Waits until a condition holds; tells whether it did in a generous time."""
    return _eventually


@pytest.fixture
def mount() -> Callable[..., None]:
    """Fills a directory with the keys of a Secret or ConfigMap as a kubelet (1.36) does.

    One that is optional and not there has no keys
    (https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/volume/util/atomic_writer.go).
    """

    def fill(directory: Path, **keys: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        current = Path(tempfile.mkdtemp(prefix="..2026_01_31_", dir=directory))
        (directory / "..data_tmp").symlink_to(current.name)
        (directory / "..data_tmp").rename(directory / "..data")
        for key, text in keys.items():
            (current / key).write_text(text)
            (directory / key).symlink_to(f"..data/{key}")

    return fill
