"""kfp.local as pipelines run in it here."""

import builtins
import logging
import threading

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


class Overlapping:
    """Two steps, of which the one that starts last ends last."""

    run_id = "1"

    def __init__(self, eventually):
        self._both, self._print, self._eventually = threading.Barrier(2), print, eventually

    def run(self, command, variables):
        if self._both.wait(timeout=60) == 0:
            return status.Status.SUCCESS
        # Where the other has put print back, this one would put back the other's.
        assert self._eventually(lambda: builtins.print is self._print)
        return status.Status.SUCCESS


def test_steps_at_the_same_time_leave_print_and_logging_alone(tmp_path, eventually):
    before, handlers = builtins.print, logging.getLogger().handlers[:]
    local.init(
        local.SubprocessRunner(use_venv=False),
        pipeline_root=str(tmp_path / "artifacts"),
        workspace_root=str(tmp_path / "workspace"),
        raise_on_error=True,
    )
    with tamed(Overlapping(eventually)):
        two_at_once()
    assert builtins.print is before
    assert logging.getLogger().handlers == handlers
