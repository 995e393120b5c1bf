"""The cost of each step of a run, recorded by the step itself."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from trireme.cost import table
from trireme.errors import TriremeError
from trireme.files.home import in_a_pod
from trireme.tracking import journal

if TYPE_CHECKING:
    from trireme.cost.prices import Prices

PATIENCE = 15.0  # seconds that an API server may be away when a step asks it what it has


@contextmanager
def counted(workspace: Path, step: str, is_one_of_many: bool = False) -> Iterator[None]:
    """Records at the end of this process's step what it costs, and what the run costs so far.

    Nothing is recorded where there is no price table. A step that is one of many in its process is
    not charged for those before it.
    """
    if table.file() is None:
        yield
        return
    from trireme.cost import prices

    price_table = prices.read()
    assert price_table
    before = _cost(price_table) if is_one_of_many else 0.0
    try:
        yield
    finally:
        costs = _of_all(workspace)
        if step not in costs:  # training knows better: what counts are its replicas
            costs[step] = _cost(price_table) - before
            journal.log_metrics({"cost": costs[step]})
        journal.log_tags({"currency": price_table.currency})
        journal.log_total({"cost": sum(costs.values())})


def _of_all(workspace: Path) -> dict[str, float]:
    """Returns what the steps of a run have cost so far, by name."""
    return {
        step: record["metrics"]["cost"]
        for step in journal.steps(workspace)
        for record in journal.read(workspace, step)
        if "cost" in record.get("metrics", {})
    }


def _cost(price_table: "Prices") -> float:
    """Returns what this process costs, for as long as it has run.

    Of CPU and memory each: in a pod what its container requests, for that is set aside for it,
    used or not; where nothing is requested, and so here, what it has used: its CPU seconds, and
    the most memory that it or a process of it had, for all of its time.
    """
    seconds = _seconds()
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    worked = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    peak = max(own.ru_maxrss, children.ru_maxrss) * 1024
    used = {"cpu": Decimal(worked / seconds), "memory": Decimal(peak)}
    requested, selector = _requested() if in_a_pod() else ({}, {})
    return price_table.hour(used | requested, selector) * seconds / 3600


def _seconds() -> float:
    """Returns how long this process has run (https://man7.org/linux/man-pages/man5/proc.5.html)."""
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK")


def _requested() -> tuple[dict[str, Decimal], dict[str, str]]:
    """Returns what this container requests, and where its pod may run; nothing if not allowed."""
    from trireme.kubernetes.amounts import amounts
    from trireme.kubernetes.connection import Cluster
    from trireme.kubernetes.owner import this_pod

    with suppress(TriremeError):
        spec = this_pod(Cluster(patience=PATIENCE))["spec"]
        by_name = {container["name"]: container for container in spec["containers"]}
        container = by_name.get("main", spec["containers"][0])
        return amounts(container, "requests"), spec.get("nodeSelector") or {}
    return {}, {}
