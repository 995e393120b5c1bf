r"""The conditions of tasks: CEL over their inputs, evaluated as Kubeflow's driver does.

https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/v2/expression/expression.go

kfp's compiler puts a comparison together as text, and escapes nothing: ``== 'it's'``. ``mended``
writes what is meant, with such texts in double quotes, which kfp never uses.
https://github.com/kubeflow/pipelines/blob/2.17.0/sdk/python/kfp/compiler/pipeline_spec_builder.py
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from trireme.errors import InputError

_INPUT = r"inputs\.parameter_values\['[^'\\]+'\]"
_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_CAST = rf"(?:double\(|int\(|string\()*(?:{_INPUT}|{_NUMBER})\)*"
_QUOTED = rf"'(?:int\()?{_INPUT}\)?'"
"""An input that is no text, compared with one: kfp puts quotes around the expression."""

_OPERAND = rf"(?:{_CAST}|true|false|{_QUOTED}|\"(?:[^\"\\]|\\.)*\"|'.*?')"
_COMPARISON = rf"(?P<left>{_OPERAND})(?P<operator> (?:==|!=|<=|>=|<|>) )(?P<right>{_OPERAND})"
_TERM = re.compile(rf"(?P<not>!\()?{_COMPARISON}(?(not)\))", re.DOTALL)
_AND = " && "
_IN_NEED = re.compile(r"['\\\x00-\x1f]")


def mended(condition: str, task: str) -> str:
    """Returns a condition as kfp's compiler meant it, or as it is where nothing is wrong with it.

    Raises:
        InputError: It is no CEL over the task's inputs.
    """
    terms = _terms(condition)
    result = _AND.join(map(_mended_term, terms)) if terms else condition
    try:
        program = _compiled(result)
    except ValueError:
        raise InputError(f"task {task}: the condition {condition!r} cannot be read") from None
    if unknown := sorted(set(program.variables()) - {"inputs"}):
        raise InputError(
            f"task {task}: the condition {condition!r} asks for {unknown[0]}, which no task has"
        )
    return result


def holds(condition: str, values: Mapping[str, Any], task: str) -> bool:
    """Tells whether a task is to run.

    Args:
        values: The task's inputs that are values, by name.

    Raises:
        InputError: The condition has no value.
    """
    why: object
    try:
        result = _evaluated(condition, values)
    except KeyError as error:
        why = f"the input {str(error.args[0]).removeprefix('pipelinechannel--')!r} has no value"
    except (ValueError, RuntimeError, TypeError, ArithmeticError) as error:
        why = str(error).partition("\n")[0]
        if any(value != value for value in values.values()):
            why = "NaN compares with nothing"
    else:
        if isinstance(result, bool):
            return result
        why = f"it is {result!r}, neither true nor false"
    raise InputError(f"task {task}: the condition {condition!r} cannot be evaluated: {why}")


def inputs_of(condition: str) -> set[str]:
    """Returns the inputs that a condition asks for."""
    pattern = r"""inputs\.parameter_values\[(?:'([^'\\]+)'|"([^"\\]+)")\]"""
    return {one or other for one, other in re.findall(pattern, condition)}


def _compiled(condition: str) -> Any:
    import cel  # takes half a second, and most pipelines have no condition

    return cel.compile(condition)


def _evaluated(condition: str, values: Mapping[str, Any]) -> Any:
    import cel

    context = cel.Context({"inputs": {"parameter_values": _doubles(values)}})
    context.add_function("string", lambda value: str(value).lower())  # of a truth value, as cel-go
    return _compiled(condition).execute(context)


def _doubles(value: Any) -> Any:
    """Returns a value all of whose numbers are floats, as those of kfp's driver are doubles."""
    if isinstance(value, Mapping):
        return {key: _doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_doubles(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@lru_cache(maxsize=1_000)  # else what cannot be matched to its end is tried in every way
def _terms(condition: str) -> list[re.Match[str]]:
    """Returns the comparisons that kfp has joined; none where it cannot have written this."""
    ends = [*(match.start() for match in re.finditer(_AND, condition)), len(condition)]
    for end in ends:
        term = _TERM.fullmatch(condition[:end])
        if term and re.search(_INPUT, term[0]):  # of two texts there is none
            rest = condition[end + len(_AND) :]
            if not rest:
                return [term]
            if others := _terms(rest):
                return [term, *others]
    return []


def _mended_term(term: re.Match[str]) -> str:
    left, right = _mended_operand(term["left"]), _mended_operand(term["right"])
    comparison = f"{left}{term['operator']}{right}"
    return f"!({comparison})" if term["not"] else comparison


def _mended_operand(operand: str) -> str:
    if re.fullmatch(_QUOTED, operand):
        return f"string({operand[1:-1]})"
    is_certain = "inputs.parameter_values[" not in operand  # else it may be several operands
    if is_certain and operand.startswith("'") and _IN_NEED.search(operand[1:-1]):
        return json.dumps(operand[1:-1], ensure_ascii=False)
    return operand
