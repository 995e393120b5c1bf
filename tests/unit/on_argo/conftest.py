"""Pipelines on Argo, walked here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import compiler

from trireme.pipelines.targets.argo.compiling import workflow_template
from trireme.pipelines.targets.argo.reading import read


@pytest.fixture
def on_argo(tmp_path: Path) -> Callable[[Any], dict[str, Any]]:
    """Makes the manifest of a WorkflowTemplate of a pipeline, or of what kfp has compiled."""

    def make(pipeline: Any) -> dict[str, Any]:
        file = tmp_path / "pipeline.yaml"
        if isinstance(pipeline, str):
            file.write_text(pipeline)
        else:
            compiler.Compiler().compile(pipeline, str(file))
        made: dict[str, Any] = yaml.safe_load(workflow_template(read(file)).to_yaml())
        return made

    return make
