"""What Kubeflow Pipelines cannot run is refused before anything is made."""

from pathlib import Path

import pytest
from constructs import CONSTRUCTS, Construct

from trireme.errors import InputError
from trireme.graph import reading
from trireme.pipeline.pipeline import Pipeline
from trireme.targets.kubeflow import compiling


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda one: one.name)
def test_a_construct_is_written_or_refused_as_the_table_says(
    construct: Construct, tmp_path: Path
) -> None:
    pipeline = Pipeline(construct.graph.name, construct.graph)
    if construct.kubeflow.startswith("refused"):
        with pytest.raises(InputError, match=r"^task .*cannot run on Kubeflow Pipelines 2\.17$"):
            compiling.write(pipeline, tmp_path)
        return
    again = reading.of_yaml(compiling.write(pipeline, tmp_path).read_text())
    assert again.document == construct.graph.document
