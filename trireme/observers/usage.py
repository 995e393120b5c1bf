"""The use that a replica makes, beside what it has asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trireme.kubernetes.amounts import Amounts, amounts, is_gpu


@dataclass(frozen=True)
class Usage:
    """A replica as it is now.

    Attributes:
        state: As in ``trireme job status``.
        place: Its node, or here its process id.
        container: What describes it, with ``resources``.
        cpu: CPUs that it uses; None where that is not known.
        memory: Bytes, likewise.
        gpu: Which GPUs it uses how much, in words; empty where that is not known.
    """

    name: str
    state: str
    place: str
    container: Mapping[str, Any]
    cpu: float | None = None
    memory: float | None = None
    gpu: str = ""

    @property
    def requests(self) -> Amounts:
        """What its node sets aside for it."""
        return amounts(self.container, "requests")

    @property
    def limits(self) -> Amounts:
        """What it may use at most."""
        return amounts(self.container, "limits")

    @property
    def gpus(self) -> int:
        """How many GPUs it has asked for."""
        return int(sum(count for name, count in self.requests.items() if is_gpu(name)))
