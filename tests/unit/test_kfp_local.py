"""kfp.local as pipelines run in it here."""

import builtins
import json
import logging
import threading
from typing import Optional

import pytest
from kfp import dsl, local
from kfp.local import status

from trireme.pipelines.targets.local.kfp import tamed


@dsl.component(base_image="python:3.11")
def nothing(item: int):
    pass


@dsl.pipeline
def two_at_once():
    with dsl.ParallelFor([1, 2]) as item:
        nothing(item=item)


@dsl.component(base_image="python:3.11")
def takes(job: dict, words: list, text: str):
    pass


@dsl.pipeline
def numbers_in_others(workers: int, rate: float):
    takes(job={"workers": workers, "env": {"RATE": rate}}, words=[workers], text=f"on {workers}")


@dsl.component(base_image="python:3.11")
def both(outer: int, inner: str):
    pass


@dsl.pipeline
def a_loop_in_a_loop(words: list):
    with dsl.ParallelFor([1, 2]) as outer, dsl.ParallelFor(words) as inner:
        both(outer=outer, inner=inner)


@dsl.component(base_image="python:3.11")
def may_be(count: Optional[int] = None, text: Optional[str] = None):  # noqa: UP045
    pass


@dsl.pipeline
def nothing_given(text: Optional[str] = None):  # noqa: UP045
    may_be(text=text)


@dsl.pipeline
def numbers_as_they_are(settings: dict):
    takes(job=settings, words=[3, 0.5], text="")


class Reading:
    """Keeps what steps are given, and what the last one was."""

    run_id = "1"

    def __init__(self):
        self.all = []

    def run(self, command, variables, image):
        (given,) = (json.loads(word) for word in command if word.startswith('{"inputs"'))
        self.given = given["inputs"].get("parameterValues", {})
        self.all.append(self.given)
        return status.Status.SUCCESS


class Overlapping:
    """Two steps, of which the one that starts last ends last."""

    run_id = "1"

    def __init__(self, eventually):
        self._both, self._print, self._eventually = threading.Barrier(2), print, eventually

    def run(self, command, variables, image):
        if self._both.wait(timeout=60) == 0:
            return status.Status.SUCCESS
        # Where the other has put print back, this one would put back the other's.
        assert self._eventually(lambda: builtins.print is self._print)
        return status.Status.SUCCESS


@pytest.fixture
def here(tmp_path):
    """Has kfp.local run pipelines in a folder."""
    local.init(
        local.SubprocessRunner(use_venv=False),
        pipeline_root=str(tmp_path / "artifacts"),
        workspace_root=str(tmp_path / "workspace"),
        raise_on_error=True,
    )


def test_whole_numbers_stay_whole_in_texts_lists_and_objects(here):
    reading = Reading()
    with tamed(reading):
        numbers_in_others(workers=2, rate=0.5)
    assert reading.given["job"] == {"workers": "2", "env": {"RATE": "0.5"}}
    assert (reading.given["words"], reading.given["text"]) == (["2"], "on 2")


def test_whole_numbers_of_parameters_and_constants_stay_whole(here):
    reading = Reading()
    with tamed(reading):
        numbers_as_they_are(settings={"n": 2, "of": [{"rate": 0.5, "k": 1}]})
    given = json.dumps([reading.given["job"], reading.given["words"]], sort_keys=True)
    assert given == '[{"n": 2, "of": [{"k": 1, "rate": 0.5}]}, [3, 0.5]]'


def test_a_loop_in_a_loop_has_both_items(here):
    reading = Reading()
    with tamed(reading):
        a_loop_in_a_loop(words=["a", "b"])
    found = sorted((given["outer"], given["inner"]) for given in reading.all)
    assert found == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_an_input_that_is_left_out_is_none(here):
    reading = Reading()
    with tamed(reading):
        nothing_given()
    assert reading.given == {}


def test_steps_at_the_same_time_leave_print_and_logging_alone(here, eventually):
    before, handlers = builtins.print, logging.getLogger().handlers[:]
    with tamed(Overlapping(eventually)):
        two_at_once()
    assert builtins.print is before
    assert logging.getLogger().handlers == handlers
