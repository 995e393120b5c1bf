"""The same constructs on every engine there is: which steps ran, on what, and how it ended."""

import re

import pytest
from constructs import CONSTRUCTS
from engines import ENDED

from trireme.graph import writing
from trireme.graph.changing import changed

_SAID = re.compile(r"^\[[^]]+\] SAY (.*)$", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda one: one.name)
def test_a_construct_is_as_the_table_says(engine, construct, tmp_path, within):
    differs = {"argo": construct.argo, "kfp": construct.kubeflow}[engine.name]
    file = tmp_path / "construct.yaml"
    writing.write(changed(construct.graph, without_cache), file)
    if differs.startswith("refused"):
        engine.command("run", str(file), "--no-wait", status=2)
        return
    run = engine.begin(str(file), **construct.given)
    state = within(900, lambda: engine.state(run), ENDED.__contains__)
    found = state, sorted(_SAID.findall(engine.command("logs", run)))
    same = construct.ends, sorted(construct.said)
    assert found != same if differs else found == same


def without_cache(draft):
    """Has every task run: what Kubeflow takes from its cache says nothing."""
    for component in (draft.document["root"], *draft.document["components"].values()):
        for task in component.get("dag", {}).get("tasks", {}).values():
            task["cachingOptions"] = {}
