"""What a workflow's steps have come to, as ``trireme status --target argo`` shows it."""

import json

import pytest

from trireme.targets.argo.workflows import _steps


def node(**values):
    output = {"name": "executor-output", "value": json.dumps({"parameterValues": values})}
    return {
        "type": "Pod",
        "name": "flow.evaluate",
        "templateName": "evaluate",
        "phase": "Succeeded",
        "outputs": {"parameters": [output], "exitCode": "0"},
    }


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ({"passed": False, "reason": "too bad"}, "not exported: too bad"),
        ({"passed": True, "reason": "good"}, ""),
        ({"path": "/x"}, ""),
    ],
)
def test_a_gate_that_refuses_is_the_result_of_its_step(values, result):
    (step,) = _steps({"nodes": {"a": node(**values)}})
    assert (step.name, step.result) == ("evaluate", result)


def test_a_step_without_outputs_has_none():
    bare = {key: value for key, value in node().items() if key != "outputs"}
    (step,) = _steps({"nodes": {"a": bare}})
    assert step.result == ""
