"""A parameter's value arrives in the steps as it was given, whatever is in it."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import argo_pipelines
import yaml
from argo_walker import Node, Walker, expanded
from hypothesis import given
from hypothesis import strategies as st

from trireme.graph import reading
from trireme.targets.argo.compiling import as_given, workflow_template

PARTS = [
    "{{workflow.name}}",
    "{{=1+1}}",
    "{{",
    "}}",
    "{",
    "}",
    "$(HOME)",
    "$$",
    "$",
    "'",
    '"',
    "\\",
]
MORE = [
    "\\u007b",
    "\n",
    "\t",
    "\x00",
    "\x7f",
    "\u200b",
    "\u2028",
    "é",
    "😀",
    "\U000e0001",
    "<",
    "null",
]
TEXTS = st.lists(
    st.sampled_from(PARTS + MORE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    max_size=6,
).map("".join)
WHOLE = st.integers(-(2**53), 2**53)
# Whole numbers beyond these are rounded on the way from step to step, as on Kubeflow.
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: abs(number) <= 2**53 or not number.is_integer() or abs(number) > 1e21
)
JSON = st.recursive(
    TEXTS | WHOLE | FLOATS | st.booleans() | st.none(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=8,
)


class Echo(Walker):
    """Walks with steps that return what they are given, and are no processes."""

    def pod(self, template: dict[str, Any]) -> Node:
        container = template["container"]
        words = [expanded(word, {"KFP_NOTHING": ""}) for word in container["args"]]
        given = json.loads(words[words.index("--executor_input") + 1])
        values = given["inputs"]["parameterValues"]
        self.pods.append(values)
        left = values if "number" in values else {"Output": values["text"]}
        return Node("Succeeded", {"executor-output": json.dumps({"parameterValues": left})})


@cache
def manifest() -> dict[str, Any]:
    graph = reading.of_pipeline(argo_pipelines.values)
    made: dict[str, Any] = yaml.safe_load(workflow_template(graph).to_yaml())
    return made


@given(
    TEXTS,
    WHOLE,
    FLOATS,
    st.booleans(),
    st.lists(JSON, max_size=3),
    st.dictionaries(TEXTS, JSON, max_size=3),
)
def test_values_arrive_unchanged(
    text: str,
    number: int,
    share: float,
    flag: bool,
    things: list[Any],
    table: dict[str, Any],
) -> None:
    values = {"text": text, "number": number, "share": share, "flag": flag}
    values |= {"things": things, "table": table}
    kinds = dict(zip(values, ["STRING", "NUMBER_INTEGER", "NUMBER_DOUBLE"], strict=False))
    written = {name: as_given(value, kinds.get(name, "")) for name, value in values.items()}
    with tempfile.TemporaryDirectory() as directory:
        walker = Echo(manifest(), Path(directory), written)
        assert walker.run().phase == "Succeeded"
    steps = {pod["who"]: pod for pod in walker.pods}
    for who in ("first", "second"):
        assert {name: steps[who][name] for name in values} == values
    assert steps["fourth"]["text"] == f"{text} and {text}, {json.dumps(flag)}"
    assert steps["third"]["text"] == "a {{constant}} of $(HOME)"


@given(TEXTS)
def test_people_type_text_as_it_is(text: str) -> None:
    """Unless it begins with a quote, or Argo itself would take a part of it for a tag."""
    written = as_given(text, "STRING")
    if text.isprintable() and not text.startswith('"') and "{{" not in text and text != "null":
        assert written == text
    else:
        assert json.loads(written) == text
        assert "{{" not in written
