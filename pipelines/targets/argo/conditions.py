"""Conditions of tasks: from the CEL that kfp compiles them to, to Argo's expressions.

The SDK writes a small part of CEL, which the two languages share but for how inputs are named:
https://github.com/kubeflow/pipelines/blob/master/sdk/python/kfp/compiler/pipeline_spec_builder.py
"""

import ast
import re
from collections.abc import Mapping

from trireme.pipelines.targets.argo.expressions import Value, quoted
from trireme.pipelines.targets.argo.reading import NotOnArgo

_TOKEN = re.compile(
    r"\s*(?:"
    r"inputs\.parameter_values\['(?P<input>[^']+)'\]"
    r"|(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<operator>&&|\|\||==|!=|<=|>=|<|>)"
    r"|(?P<same>!|\(|\)|-?\d+(?:\.\d+)?|int\b|float\b|double\b|string\b"
    r"|true\b|false\b)"
    r")\s*"
)


def condition(cel: str, inputs: Mapping[str, Value], task: str) -> str:
    """Returns an expression that evaluates to whether a task is to run."""
    made = []
    position = 0
    while position < len(cel):
        token = _TOKEN.match(cel, position)
        if token is None:
            raise NotOnArgo(f"task {task}", f"the condition {cel!r}")
        position = token.end()
        if token["input"]:
            made.append(inputs[token["input"]].native)
        elif token["string"]:
            made.append(quoted(ast.literal_eval(token["string"])))
        elif token["operator"]:
            made.append(f" {token['operator']} ")
        else:
            made.append({"double": "float"}.get(token["same"], token["same"]))
    return "".join(made)
