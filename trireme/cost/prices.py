"""The price table: what an hour of CPU, memory and GPU costs."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from trireme.cost import table
from trireme.errors import InputError
from trireme.kubernetes.amounts import is_gpu
from trireme.kubernetes.spot import is_spot
from trireme.strict_model import StrictModel
from trireme.text import yaml_text

GIB = 2**30

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(StrictModel):
    """Prices of an hour, in one currency."""

    currency: Annotated[str, Field(min_length=1, max_length=12)]
    """What they are in, as in EUR."""

    cpu_hour: Price
    """A CPU."""

    gib_hour: Price
    """A GiB of memory."""

    gpu_hour: Price
    """A GPU of a type that is not in gpu_hour_by_type."""

    gpu_hour_by_type: dict[str, Price] = {}
    """GPUs by type: a value of the pods' node selector, as in NVIDIA-A100-SXM4-80GB, or the
    resource's name, as in amd.com/gpu."""

    spot: Annotated[float, Field(gt=0, le=1)] = 1.0
    """What everything is multiplied with on nodes that may be reclaimed."""

    def hour(self, amounts: Mapping[str, Decimal], selector: Mapping[str, str]) -> float:
        """Returns what an hour of a pod costs.

        Args:
            amounts: What is set aside for it, by resource.
        """
        cost = float(amounts.get("cpu", 0)) * self.cpu_hour
        cost += float(amounts.get("memory", 0)) / GIB * self.gib_hour
        for resource, count in amounts.items():
            if is_gpu(resource) or resource in self.gpu_hour_by_type:
                cost += float(count) * self._gpu(resource, selector)
        return cost * (self.spot if is_spot(selector) else 1)

    def in_words(self, amount: float) -> str:
        """Returns an amount of money in the table's currency."""
        return table.in_words(amount, self.currency)

    def _gpu(self, resource: str, selector: Mapping[str, str]) -> float:
        named = [name for name in (*selector.values(), resource) if name in self.gpu_hour_by_type]
        return self.gpu_hour_by_type[named[0]] if named else self.gpu_hour


def read() -> Prices | None:
    """Returns the price table of this machine or, in a pod, of the cluster; None without one."""
    file = table.file()
    return parse(yaml_text.text_of(file, f"price table {file}"), str(file)) if file else None


def parse(text: str, origin: str) -> Prices:
    """Returns a price table."""
    content = yaml_text.parse(text, f"price table {origin}")
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise InputError(
            f"price table {origin}: must map {', '.join(Prices.model_fields)} to values"
        )
    try:
        return Prices.read("prices", content)
    except InputError as error:
        raise InputError(f"price table {origin}: {error}") from None
