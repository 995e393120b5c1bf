"""A pipeline does on Argo what it does here: the steps are given the same, and leave the same."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import argo_pipelines
import pytest
from argo_walker import Walker
from kfp import local
from kfp.local import pipeline_orchestrator

OnArgo = Callable[[Any], dict[str, Any]]


def notes(workspace: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (workspace / "notes").glob("*")}


def run_here(pipeline: Any, directory: Path) -> dict[str, bytes]:
    """Runs a pipeline with kfp.local, whatever comes of it; returns what its steps have noted."""
    workspace = directory / "here"
    workspace.mkdir()
    keep = SimpleNamespace(rmtree=lambda path: None)
    with (
        patch.object(pipeline_orchestrator, "shutil", keep),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        local.init(
            local.SubprocessRunner(use_venv=False),
            pipeline_root=str(directory / "artifacts"),
            workspace_root=str(workspace),
            raise_on_error=False,
        )
        pipeline()
    return notes(workspace)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("values", "Succeeded"),
        ("choices", "Succeeded"),
        ("loops", "Succeeded"),
        ("artifacts", "Succeeded"),
        ("failing", "Failed"),
        ("retried", "Succeeded"),
    ],
)
def test_steps_note_the_same(name: str, phase: str, on_argo: OnArgo, tmp_path: Path) -> None:
    pipeline = getattr(argo_pipelines, name)
    walker = Walker(on_argo(pipeline), tmp_path / "argo")
    assert walker.run().phase == phase
    assert notes(walker.workspace) == run_here(pipeline, tmp_path)


@pytest.mark.slow
def test_loops_in_loops_and_over_nothing(on_argo: OnArgo, tmp_path: Path) -> None:
    walker = Walker(on_argo(argo_pipelines.deeper), tmp_path / "argo")
    assert walker.run().phase == "Succeeded"
    noted = notes(walker.workspace)
    assert (noted["1"], noted["2"]) == (b"ab", b"ab")
    assert b'"a model of 2"' in noted["b"]
    assert noted["of nothing"] == b'["", 0, 0.0, false, [], {}]'
    assert "never" not in noted
