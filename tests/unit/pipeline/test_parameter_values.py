"""trireme/pipeline/values.py: what no place hands on as it is, whoever gave it."""

from datetime import date

import numpy as np
import pytest

from trireme.errors import InputError
from trireme.pipeline import catalog


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"seed": 2**53 + 1}, "parameter seed: 9007199254740993 would be rounded"),
        ({"job": {"env": {"A": [-(2**60)]}}}, "parameter job.env.A.0: -1152921504606846976 would"),
        ({"gate": {"x": float("inf")}}, "parameter gate.x: inf is not a JSON number"),
        ({"args": [float("nan")]}, "parameter args.0: nan is not a JSON number"),
        ({"job": {1: 2}}, "parameter job: the key 1 is not a text"),
        ({"code_url": "\ud800"}, "parameter code_url: '\\ud800' is not valid text"),
        ({"experiment": "a\udcff"}, "parameter experiment: 'a\\udcff' is not valid text"),
        ({"experiment": "x" * 501}, "experiment: its name has 501 characters; MLflow takes 500"),
        ({"args": ["--since", date(2026, 1, 1)]}, "parameter args.1: '2026-01-01' is a date, not"),
        ({"args": [np.float32(0.5)]}, "parameter args.0: '0.5' is a numpy.float32, not a JSON"),
    ],
)
def test_values_that_would_arrive_as_something_else_are_refused(value, said):
    pipeline = catalog.load("pytorch-training")
    with pytest.raises(InputError) as refusal:
        pipeline.complete(pipeline.accept(value))
    assert said in str(refusal.value)


def test_arguments_and_packages_may_be_written_as_words():
    pipeline = catalog.load("pytorch-training")
    pairs = ["args=--lr 0.01 --text 'a b'", "requirements=requirements.txt accelerate>=1.2"]
    assert pipeline.given(pairs, None) == {
        "args": ["--lr", "0.01", "--text", "a b"],
        "requirements": ["requirements.txt", "accelerate>=1.2"],
    }
    assert pipeline.given(['args=["--lr", 0.01]'], None) == {"args": ["--lr", 0.01]}
    with pytest.raises(InputError, match=r"parameter args: .*: No closing quotation"):
        pipeline.given(["args='a"], None)
