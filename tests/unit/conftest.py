"""What several unit tests need."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trireme.cli import app as cli
from trireme.data import volumes


@pytest.fixture
def trireme(
    untracked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line; returns exit status, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["trireme", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Makes this a pod of a pipeline; returns the directory that claims are mounted below."""
    shared = tmp_path / "shared"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(volumes, "DATASETS", shared / "datasets")
    monkeypatch.setattr(volumes, "CACHE", shared / "cache")
    return shared
