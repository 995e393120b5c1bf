"""Checkpoints of a model whose parts are on several processes; to be copied along with programs.

They are torch.distributed.checkpoint's, which takes seconds to import: a model that every process
has whole does better with ``helpers.Checkpoints``.
https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

import shutil
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import helpers
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_saver import AsyncSaveResponse


class Checkpoints:
    """The last few states of a training, each in a folder ``step-00000020`` of CHECKPOINT_DIR.

    They hold model and optimizer, whole, however many processes share them: any number can go on,
    with any other strategy. Parameters must not change between ``save`` and ``copied``.

    Args:
        model: The network, as its strategy has wrapped or divided it.
        optimizer: Of its parameters.
        keep: How many are kept.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, keep: int = 2) -> None:
        # By name, not by number: fit for any strategy.
        self.options = StateDictOptions(flatten_optimizer_state_dict=True)
        self.model, self.optimizer, self.keep = model, optimizer, keep
        self.directory = helpers.directory("CHECKPOINT_DIR")
        # A group of its own: what the thread that writes has to say must not get in between.
        self.group = dist.new_group(backend="gloo")
        on_gpu = torch.cuda.is_available()
        self.stager = DefaultStager(StagingOptions(on_gpu, False, True, on_gpu))
        self.writer = ThreadPoolExecutor(1)
        self.copying: Future[None] | None = None
        self.writing: Future[None] | None = None
        if dist.get_rank() == 0:
            for partial in self.directory.glob(f"{helpers.WHOLE}.partial"):
                shutil.rmtree(partial)  # its writer has been killed

    def load(self, progress: dict[str, int]) -> dict[str, int]:
        """Resumes from the newest checkpoint; returns its progress, or the given one."""
        newest = [max(self.directory.glob(helpers.WHOLE), default=None)]
        dist.broadcast_object_list(newest, group=self.group)  # not every disk shows it at once
        if not newest[0]:
            return progress
        state = self._state(progress)
        dcp.load(state, checkpoint_id=newest[0], process_group=self.group)
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=self.options,
        )
        return state["progress"]

    def save(self, step: int, progress: dict[str, int]) -> None:
        """Starts to save; waits for nothing but the save before, which is long done as a rule."""
        self.wait()
        final = self.directory / f"step-{step:08}"
        partial = final.with_name(final.name + ".partial")
        response = dcp.async_save(
            self._state(progress),
            checkpoint_id=partial,
            process_group=self.group,
            async_stager=self.stager,
        )
        assert isinstance(response, AsyncSaveResponse)  # with a stager that copies in a thread
        self.copying = response.staging_completion
        self.writing = self.writer.submit(self._publish, response.upload_completion, final)

    def copied(self) -> None:
        """Waits until parameters may change again."""
        if self.copying:
            self.copying.result()

    def wait(self) -> None:
        """Waits until the last save is on the disk."""
        if self.writing:
            self.writing.result()

    def fill(self, network: nn.Module) -> None:
        """Gives a whole network, in this process alone, the weights of the newest checkpoint."""
        newest = max(self.directory.glob(helpers.WHOLE))
        with warnings.catch_warnings(action="ignore"):  # that it is in this process alone
            dcp.load({"model": network.state_dict()}, checkpoint_id=newest, no_dist=True)

    def _state(self, progress: dict[str, int]) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer, options=self.options)
        return {"model": model, "optimizer": optimizer, "progress": progress}

    def _publish(self, upload: Future[Any], final: Path) -> None:
        upload.result()  # of rank 0 it ends when all have written
        if dist.get_rank() == 0:
            final.with_name(final.name + ".partial").rename(final)
            for old in sorted(self.directory.glob(helpers.WHOLE))[: -self.keep]:
                shutil.rmtree(old)
