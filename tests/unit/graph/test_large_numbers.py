"""trireme/graph/checking.py: whole numbers that kfp's compiler writes as doubles."""

import re

import odd_pipelines
import pytest
from kfp import compiler, dsl

from trireme.errors import InputError
from trireme.graph import reading

LARGE = 2**53 + 1
SAID = f"is {LARGE - 1}, or was until kfp's compiler rounded it"


@odd_pipelines.component
def take(row: list, fields: dict):
    """Takes what has numbers in it."""


@odd_pipelines.component
def by_default(n: int = LARGE):
    """Takes a number."""


@dsl.pipeline
def of_a_parameter(big: int = LARGE):
    odd_pipelines.number(n=big)


@dsl.pipeline
def of_a_list(rows: list = [[1, -LARGE]]):  # noqa: B006
    take(row=rows, fields={})


@dsl.pipeline
def constant():
    odd_pipelines.number(n=LARGE)


@dsl.pipeline
def within():
    take(row=[], fields={"a": [{"b": LARGE}]})


@dsl.pipeline
def default_of_a_step():
    by_default()


@dsl.pipeline
def part(n: int):
    odd_pipelines.number(n=n)


@dsl.pipeline
def whole():
    part(n=LARGE)


@dsl.pipeline
def loop():
    with dsl.ParallelFor([1, LARGE]) as n:
        odd_pipelines.number(n=n)


@dsl.pipeline
def importer():
    dsl.importer(artifact_uri="file:///a", artifact_class=dsl.Model, metadata={"id": LARGE})
    odd_pipelines.number(n=1)


@dsl.pipeline
def taken(big: int = 2**53 - 1, share: float = 1e300, text: str = str(LARGE)):
    odd_pipelines.number(n=big)
    odd_pipelines.number(n=2**53 - 1)
    odd_pipelines.share(x=2.0**60)
    odd_pipelines.say(message=text)
    take(row=[True, 0.5, 2**53 - 1], fields={"a": str(LARGE)})


@pytest.mark.parametrize(
    ("pipeline", "where"),
    [
        (of_a_parameter, "of-a-parameter: its parameter big"),
        (of_a_list, "of-a-list: its parameter rows"),
        (constant, "task number: its input n"),
        (within, "task take: its input fields"),
        (default_of_a_step, "task by-default: its input n"),
        (whole, "task part: its input n"),
        (loop, "task for-loop-2: an item of its loop"),
        (importer, "task importer: metadata of what it imports"),
    ],
)
def test_a_number_that_may_be_rounded_is_refused(tmp_path, pipeline, where):
    compiler.Compiler().compile(pipeline, str(tmp_path / "a.yaml"))
    for read in (
        lambda: reading.of_pipeline(pipeline),
        lambda: reading.of_yaml((tmp_path / "a.yaml").read_text()),
    ):
        with pytest.raises(InputError) as refusal:
            read()
        assert str(refusal.value).startswith(where)
        assert SAID.replace(str(LARGE - 1), "") in re.sub(r"-?\d{16}", "", str(refusal.value))


def test_other_numbers_are_taken():
    assert reading.of_pipeline(taken).root.input_parameters["big"].default == 2**53 - 1
