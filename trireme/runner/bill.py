"""The bill of a training job: what it may cost, and what it has cost."""

import math
from collections.abc import Mapping
from typing import Any

from trireme.cost import prices, table
from trireme.cost.prices import GIB, Prices
from trireme.errors import InputError, JobFailed
from trireme.kubernetes.amounts import is_gpu, requests
from trireme.manifests.roles import Role, roles
from trireme.manifests.time_limit import set_time_limit
from trireme.runner.failed_replica import TimeLimitReached
from trireme.tracking import journal

HOUR = 3600  # seconds
MOST = 2**31 - 1  # seconds that a job's time limit can be


class Bill:
    """What one training job costs: what its replicas request, for as long as they run."""

    def __init__(self, budget: float, price_table: Prices | None) -> None:
        self._budget, self._prices = budget, price_table
        self._roles: dict[str, Role] = {}
        self._limit = 0
        self._spent = 0.0

    def open(self, manifest: dict[str, Any]) -> None:
        """Opens the bill of a job, which is made to end when it has used up the budget."""
        self._roles = {role.name.lower(): role for role in roles(manifest)}
        if not self._budget:
            return
        policy = manifest["spec"].get("runPolicy", manifest["spec"])
        seconds = seconds_for(self._budget, self._prices, manifest)
        if seconds < policy.get("activeDeadlineSeconds", math.inf):
            self._limit = seconds
            set_time_limit(manifest, seconds)
        # No parameter: prices may be others when the run is resumed, and MLflow changes none.
        journal.log_metrics({"effective_time_limit": policy["activeDeadlineSeconds"]})

    def charge(self, seconds: Mapping[str, float]) -> None:
        """Records what the replicas had, and what that costs."""
        hours = {"cpu": 0.0, "gib": 0.0, "gpu": 0.0}
        for replica, ran in seconds.items():
            role = self._roles.get(replica.rpartition("-")[0])
            if role is None:  # its pod has lost its labels; the model is worth more than the sum
                continue
            requested = requests(role.pod)
            hours["cpu"] += float(requested.get("cpu", 0)) * ran / HOUR
            hours["gib"] += float(requested.get("memory", 0)) / GIB * ran / HOUR
            hours["gpu"] += (
                sum(float(requested[name]) for name in filter(is_gpu, requested)) * ran / HOUR
            )
            if self._prices:
                self._spent += self._prices.hour(requested, role.selector) * ran / HOUR
        journal.log_metrics(
            {"replica_seconds": sum(seconds.values())}
            | {f"requested_{name}_hours": amount for name, amount in hours.items()}
            | ({"cost": self._spent} if self._prices else {})
        )

    def explained(self, error: JobFailed) -> JobFailed:
        """Returns why the job failed, in terms of the budget where that has ended it."""
        if not (self._prices and self._limit and isinstance(error, TimeLimitReached)):
            return error
        spent, budget = map(self._prices.in_words, (self._spent, self._budget))
        return JobFailed(
            f"the budget of {budget}, enough for {self._limit:,} s of this job, is used up: "
            f"it has cost {spent}",
            error.detail,
        )


def check(budget: float, manifest: Mapping[str, Any] | None) -> None:
    """Refuses a budget that could not work; with a manifest, also by this machine's prices."""
    if not 0 <= budget < math.inf:
        raise InputError(f"budget {budget}: must be an amount of money, or 0 for no limit")
    if manifest is None:
        return
    price_table = prices.read()
    if budget:
        seconds_for(budget, price_table, manifest)


def job_hour(price_table: Prices, manifest: Mapping[str, Any]) -> float:
    """Returns what an hour of a training job costs, all its replicas running."""
    return sum(
        role.count * price_table.hour(requests(role.pod), role.selector) for role in roles(manifest)
    )


def seconds_for(budget: float, price_table: Prices | None, manifest: Mapping[str, Any]) -> int:
    """Returns how long a job can run, all its replicas at once, for some money."""
    if price_table is None:
        raise InputError(f"budget {budget:g}: needs a price table, {table.WHERE}")
    hour = job_hour(price_table, manifest)
    if not hour:
        raise InputError(
            f"budget {budget:g}: by the price table this job costs nothing; leave the budget out"
        )
    seconds = int(budget / hour * HOUR)
    if seconds < 1:
        raise InputError(
            f"budget {budget:g}: is not enough for a second of this job, which costs "
            f"{price_table.in_words(hour)} an hour"
        )
    return min(seconds, MOST)
