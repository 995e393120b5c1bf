"""kfp.local as pipelines run in it here."""

import builtins
import json
import logging
import threading

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


class Reading:
    """Keeps what a step is given."""

    run_id = "1"

    def run(self, command, variables, image):
        (given,) = (json.loads(word) for word in command if word.startswith('{"inputs"'))
        self.given = given["inputs"]["parameterValues"]
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


def test_steps_at_the_same_time_leave_print_and_logging_alone(here, eventually):
    before, handlers = builtins.print, logging.getLogger().handlers[:]
    with tamed(Overlapping(eventually)):
        two_at_once()
    assert builtins.print is before
    assert logging.getLogger().handlers == handlers
