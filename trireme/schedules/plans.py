"""Plans of schedules: what is there, and what is to be changed, whatever runs them."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from trireme.code import url as urls
from trireme.compiling import images
from trireme.compiling.loading import loaded
from trireme.errors import InputError
from trireme.pipeline import catalog
from trireme.pipeline.pipeline import Pipeline
from trireme.schedules.schedule import PINNED, Schedule


@dataclass(frozen=True)
class CheckedSchedule:
    """A schedule that fits its pipeline.

    Attributes:
        notes: What cannot be had as it was asked for, a sentence each.
    """

    schedule: Schedule
    pipeline: Pipeline
    arguments: dict[str, Any]
    notes: list[str] = field(default_factory=list, kw_only=True)


class Kept(Protocol):
    """A schedule that is there."""

    @property
    def schedule(self) -> Schedule:
        """What was asked for."""

    @property
    def is_enabled(self) -> bool:
        """Whether it runs."""

    @property
    def facts(self) -> dict[str, Any]:
        """All that there is to say of it, in a person's words."""


@dataclass(frozen=True)
class Plan:
    """What is to be done about a schedule.

    Attributes:
        found: The existing schedules of its name, the oldest first.
        runs: Whether it is to run in the end.
        notes: What cannot be had as it was asked for, a sentence each.
    """

    schedule: Schedule
    found: Sequence[Kept]
    differences: list[str]
    runs: bool
    notes: list[str] = field(default_factory=list, kw_only=True)

    @property
    def verb(self) -> str:
        """What happens to the schedule: created, changed or unchanged."""
        if not self.found:
            return "created"
        return "changed" if self.differences else "unchanged"


C = TypeVar("C", bound=CheckedSchedule)
P = TypeVar("P", bound=Plan)
K = TypeVar("K", bound=Kept)


class Schedules(ABC, Generic[C, P, K]):
    """What keeps schedules and runs them, as ``listed_by`` shows.

    Methods raise ``InputError`` for a user's mistake, ``Refused`` and ``Unavailable`` for servers.
    """

    listed_by: ClassVar[str] = "trireme schedule list"

    @property
    @abstractmethod
    def place(self) -> str:
        """Where they are, as in ``in namespace team``."""

    @abstractmethod
    def check(self, described: list[Schedule], pins: dict[str, str]) -> list[C]:
        """Returns schedules that fit their pipelines, with images pinned; asks no server."""

    @abstractmethod
    def compare(self, checked: C) -> P:
        """Returns what is to be done about a schedule; nothing is changed."""

    @abstractmethod
    def render(self, checked: C) -> tuple[str, str]:
        """Returns what would be sent to create a schedule, and how a file with it ends."""

    @abstractmethod
    def carry_out(self, plan: P) -> dict[str, Any]:
        """Does what is to be done; returns how to find the schedule."""

    @abstractmethod
    def everything(self) -> list[K]:
        """Returns all schedules that Trireme has made."""

    @abstractmethod
    def named(self, name: str) -> list[K]:
        """Returns what is there of a name, the oldest first; refused if Trireme did not make it."""

    @abstractmethod
    def enable(self, kept: K, enabled: bool) -> None:
        """Has a schedule run, or rest."""

    @abstractmethod
    def remove(self, kept: K) -> None:
        """Removes a schedule, and none of its runs."""

    def plan(self, described: list[Schedule], pins: dict[str, str]) -> list[P]:
        """Returns what is to be done about schedules; all are checked before a server is asked."""
        return [self.compare(checked) for checked in self.check(described, pins)]

    def listing(self) -> list[K]:
        """Returns all schedules that Trireme has made, by name."""
        return sorted(self.everything(), key=lambda entry: entry.schedule.name)

    def find(self, name: str) -> list[K]:
        """Returns what is there of a schedule: more than one in a change that was broken off."""
        if not (entries := self.named(name)):
            raise InputError(
                f"there is no schedule {name!r} {self.place}; '{self.listed_by}' lists the "
                "schedules"
            )
        return entries

    def pause(self, name: str) -> None:
        """Has a schedule rest."""
        for entry in self.find(name):
            self.enable(entry, False)

    def resume(self, name: str) -> None:
        """Has a schedule run again."""
        entries = self.find(name)
        if len(entries) > 1:
            raise InputError(f"schedule {name!r}: a change of it was interrupted; apply it again")
        self.enable(entries[0], True)

    def delete(self, name: str) -> None:
        """Removes a schedule; its runs go on."""
        for entry in self.find(name):
            self.remove(entry)


def check(schedule: Schedule, pins: dict[str, str]) -> CheckedSchedule:
    """Refuses a schedule that could not work, before anything is asked or created."""
    if pins and schedule.version != PINNED:
        raise InputError(
            f"schedule {schedule.name}: --images goes with version {PINNED}; "
            f"{schedule.version!r} keeps the images that it was uploaded with"
        )
    for option, value in (("storage_class", schedule.storage_class), ("shape", schedule.shape)):
        if value and schedule.version != PINNED:
            raise InputError(
                f"schedule {schedule.name}: {option} goes with version {PINNED}; "
                f"{schedule.version!r} runs as it was uploaded, which 'trireme upload' can be told"
            )
    (pipeline,) = loaded(
        [images.pinned(catalog.load(schedule.pipeline), pins)],
        dataset_claims=schedule.dataset_claims,
        cache_claim=schedule.cache_claim,
        storage_class=schedule.storage_class,
        shape=Path(schedule.shape) if schedule.shape else None,
    )
    accepted = pipeline.accept(schedule.params)
    urls.check_there(accepted.get("code_url", ""))
    arguments = pipeline.complete(accepted, set(pipeline.claims))
    if not schedule.next_times(1):
        raise InputError(f"schedule {schedule.name}: it ends before its first run")
    checked = schedule.model_copy(update={"params": accepted, "pipeline": pipeline.name})
    return CheckedSchedule(checked, pipeline, arguments)


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Says in what a schedule differs from what is there."""
    changed = [name for name in old | new if _told(old.get(name)) != _told(new.get(name))]
    return [f"{name}: {shown(old.get(name))} -> {shown(new.get(name))}" for name in changed]


def _told(value: Any) -> Any:
    """Returns a moment as that of UTC: in two zones those of an hour that comes twice differ."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def shown(value: Any) -> str:
    """Returns one of a schedule's facts for a person."""
    if isinstance(value, datetime):
        return value.isoformat()
    return "unset" if value is None else value if isinstance(value, str) else json.dumps(value)
