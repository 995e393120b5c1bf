"""Checkpoints of a model that every process has whole; to be copied along with programs."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import helpers
import torch
from torch import nn

FILES = f"{helpers.WHOLE}.pt"


def on_cpu(state: Any) -> Any:
    """Returns a copy of a state, in lists and mappings of any depth, that is in no GPU's memory."""
    if isinstance(state, dict):
        return {name: on_cpu(value) for name, value in state.items()}
    if isinstance(state, list):
        return [on_cpu(value) for value in state]
    return state.detach().to("cpu", copy=True) if isinstance(state, torch.Tensor) else state


class Checkpoints:
    """The last few states of a training, each a file ``step-00000020.pt`` of CHECKPOINT_DIR.

    They hold model and optimizer, which every process has whole, so any number of processes can go
    on. Training does not wait for the disk.

    Args:
        model: The network, without what makes it parallel.
        optimizer: Of its parameters.
        leads: Whether this process is the one that reads and writes them.
        from_leader: Returns to all processes what that one gives it.
        keep: How many are kept.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        leads: bool,
        from_leader: Callable[[Any], Any],
        keep: int = 2,
    ) -> None:
        self.model, self.optimizer, self.keep = model, optimizer, keep
        self.leads, self.from_leader = leads, from_leader
        self.directory = helpers.directory("CHECKPOINT_DIR")
        self.writer = ThreadPoolExecutor(1)
        self.writing: Future[None] | None = None

    def load(self, progress: dict[str, Any]) -> dict[str, Any]:
        """Goes on from the newest, if there is one.

        Args:
            progress: How far training is without one.

        Returns:
            How far it is.
        """
        newest = max(self.directory.glob(FILES), default=None) if self.leads else None
        # One reads it for all: not every machine's disk shows it at once.
        state = self.from_leader(torch.load(newest, "cpu", weights_only=True) if newest else None)
        if not state:
            return progress
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return state["progress"]

    def save(self, step: int, progress: dict[str, Any]) -> None:
        """Starts to save; waits for nothing but the save before, which is long done as a rule."""
        self.wait()
        if self.leads:
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            copied = on_cpu(state) | {"progress": progress}
            self.writing = self.writer.submit(self._write, copied, step)

    def wait(self) -> None:
        """Waits until the last save is on the disk."""
        if self.writing:
            self.writing.result()

    def _write(self, state: dict[str, Any], step: int) -> None:
        helpers.save(state, self.directory / f"step-{step:08}.pt")
        for old in sorted(self.directory.glob(FILES))[: -self.keep]:
            old.unlink()
