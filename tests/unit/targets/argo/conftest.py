"""Pipelines on Argo, walked here."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from trireme.graph import reading
from trireme.targets.argo.compiling import workflow_template


@pytest.fixture
def on_argo() -> Callable[[Any], dict[str, Any]]:
    """Makes the manifest of a WorkflowTemplate of a pipeline, or of what kfp has compiled."""

    def make(pipeline: Any) -> dict[str, Any]:
        is_text = isinstance(pipeline, str)
        graph = reading.of_yaml(pipeline) if is_text else reading.of_pipeline(pipeline)
        made: dict[str, Any] = yaml.safe_load(workflow_template(graph).to_yaml())
        return made

    return make
