"""What several test files need."""

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"

# No database: a test run leaves nothing behind. No deadline: the machine may be busy.
settings.register_profile("trireme", database=None, deadline=None)
settings.load_profile("trireme")


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
def untracked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Takes the variables of a surrounding run away; returns a TRIREME_HOME not yet there."""
    for name in list(os.environ):
        if re.match(r"(MLFLOW|TRIREME|MASTER|PET|LOCAL|GROUP)_|(RANK|WORLD_SIZE)$", name):
            monkeypatch.delenv(name)
    home = tmp_path / "trireme-home"
    monkeypatch.setenv("TRIREME_HOME", str(home))
    return home


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
