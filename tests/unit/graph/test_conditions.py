"""Conditions: CEL over typed values, and what kfp's compiler meant."""

import pytest

from trireme.errors import InputError
from trireme.graph.conditions import holds, mended

A, B = "inputs.parameter_values['a']", "inputs.parameter_values['b']"


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        (f"{A} > 0", {"a": 0.9}, True),
        (f"{A} >= double(1)", {"a": 1.0}, True),
        (f"int({A}) < {B}", {"a": 2, "b": 0.5}, False),
        (f"double(int({A})) < {B}", {"a": 2, "b": 2.5}, True),
        (f"{A} == {B}", {"a": "' or ''=='", "b": ""}, False),
        (f"{A} == {B}", {"a": "a\n'\\", "b": "a\n'\\"}, True),
        (f"!({A} == 'x') && {B} == true", {"a": "y", "b": True}, True),
        (f"{A} == false", {"a": False}, True),
        (f"{A} == 1", {"a": 1}, True),
        (f"{A} == '1'", {"a": 1}, False),
        (f"string(int({A})) == '3'", {"a": 3}, True),
        (f"string({A}) == '0.5'", {"a": 0.5}, True),
        (f"string({A}) == 'true'", {"a": True}, True),
        (f'{A} == "it\'s"', {"a": "it's"}, True),
        (f"int({A}) == 9007199254740991", {"a": 2**53 - 1}, True),
    ],
)
def test_a_condition_holds(condition, values, expected):
    assert holds(condition, values, "t") is expected


@pytest.mark.parametrize(
    ("condition", "values", "why"),
    [
        (f"{A} > 0", {}, "the input 'a' has no value"),
        (f"{A} > 0", {"a": "text"}, ""),
        (f"{A} > double(0)", {"a": float("nan")}, "NaN compares with nothing"),
        (A, {"a": "text"}, "it is 'text', neither true nor false"),
        (f"int({A}) > 0", {"a": "x"}, ""),
        (f"int({A}) > 0", {"a": 1e300}, ""),
        ("1 / 0 > 0", {}, ""),
    ],
)
def test_what_has_no_value_is_said(condition, values, why):
    with pytest.raises(InputError) as caught:
        holds(condition, values, "t")
    assert str(caught.value).startswith(
        f"task t: the condition {condition!r} cannot be evaluated: "
    )
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (f"{A} == 'it's'", f'{A} == "it\'s"'),
        (f"{A} == 'a\nb'", f'{A} == "a\\nb"'),
        (f"{A} == 'C:\\new'", f'{A} == "C:\\\\new"'),
        (f"{A} == 'ends with \\'", f'{A} == "ends with \\\\"'),
        (f"!({A} == 'it's') && {B} != 'x'", f"!({A} == \"it's\") && {B} != 'x'"),
        (f"{A} == 'x' && y'", f'{A} == "x\' && y"'),
        (f"{A} == 'x' && 'y' == 'z'", f"{A} == \"x' && 'y' == 'z\""),
        (f"'{B}' == '3'", f"string({B}) == '3'"),
        (f"{A} == 'int({B})'", f"{A} == string(int({B}))"),
    ],
)
def test_what_kfp_meant_is_written(written, meant):
    assert mended(written, "t") == meant
    assert mended(meant, "t") == meant  # what was written is read again


@pytest.mark.parametrize(
    "condition",
    [
        *(f"{A} == 'heads'", f"double(int({A})) >= 0.5", f"!({A} == true)", f"{A} == ''"),
        *(f"{A} in ['a', 'b']", f"{A} == 'heads' || {B} == 'x'", f"{A}.size() > 3"),
    ],
)
def test_what_is_right_stays(condition):
    assert mended(condition, "t") == condition


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("nothing ==", "cannot be read"),
        (f"{A} == 'a' 'b", "cannot be read"),
        (f"{A} > inf", "asks for inf, which no task has"),
        ("__import__('os').system('true')", "__import__"),
    ],
)
def test_what_cannot_be_read_is_refused(condition, why):
    with pytest.raises(InputError) as caught:
        holds(mended(condition, "t"), {"a": 1}, "t")
    assert why in str(caught.value)


def test_a_long_condition_that_is_none_of_kfps_is_read_soon():
    condition = " && ".join([f"{A} == 'x'"] * 40) + f" && {A}.size() > 1"
    assert mended(condition, "t") == condition
