"""Each construct of kfp's: what comes of what is rendered for Argo."""

from pathlib import Path

import pytest
import running_here
import yaml
from argo_walker import Walker
from constructs import CONSTRUCTS, Construct

from trireme.errors import InputError
from trireme.targets.argo.compiling import as_given, workflow_template


@pytest.mark.slow
@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda one: one.name)
def test_rendered_for_argo(construct: Construct, tmp_path: Path) -> None:
    if construct.argo.startswith("refused"):
        with pytest.raises(InputError):
            workflow_template(construct.graph)
        return
    manifest = yaml.safe_load(workflow_template(construct.graph).to_yaml())
    kinds = {name: one.type for name, one in construct.graph.root.input_parameters.items()}
    given = {name: as_given(value, kinds[name]) for name, value in construct.given.items()}
    walker = Walker(manifest, tmp_path / "argo", given)
    phase = walker.run().phase
    logs = sorted((tmp_path / "argo").glob("pod-*/log"))
    said = [line for log in logs for line in running_here.said_in(log.read_text())]
    if construct.argo:  # it differs there, and that is no secret
        assert phase == "Failed"
        return
    assert (phase == "Failed") == (construct.ends == "FAILED")
    assert sorted(said) == sorted(construct.said)
