"""The same constructs on every engine there is: which steps ran, on what, and how it ended."""

import re

import pytest
from constructs import CONSTRUCTS
from engines import ENDED

from trireme.graph import writing
from trireme.graph.changing import changed

_SAID = re.compile(r"^\[[^]]+\] SAY (.*)$", re.MULTILINE)


@pytest.mark.slow
def test_every_construct_is_as_the_table_says(engine, tmp_path, within):
    begun = {}
    for number, one in enumerate(CONSTRUCTS):
        file = tmp_path / f"construct-{number}.yaml"
        writing.write(changed(one.graph, without_cache), file)
        if differs(engine, one).startswith("refused"):
            engine.command("run", str(file), "--no-wait", status=2)
        else:
            begun[one.name] = engine.begin(str(file), **one.given)
    found, expected = {}, {}
    for one in CONSTRUCTS:
        if one.name not in begun:
            continue
        run = begun[one.name]
        state = within(1500, lambda run=run: engine.state(run), ENDED.__contains__)
        if not differs(engine, one):
            said = _SAID.findall(engine.command("logs", run))
            found[one.name] = (state, sorted(said))
            expected[one.name] = (one.ends, sorted(one.said))
    assert found == expected


def without_cache(draft):
    """Has every task run: what Kubeflow takes from its cache says nothing."""
    for component in (draft.document["root"], *draft.document["components"].values()):
        for task in component.get("dag", {}).get("tasks", {}).values():
            task["cachingOptions"] = {}


def differs(engine, construct):
    """Returns how a construct is different there."""
    return {"argo": construct.argo, "kfp": construct.kubeflow}[engine.name]
