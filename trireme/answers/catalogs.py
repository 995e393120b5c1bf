"""Answers that list what there is: pipelines, models, schedules."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trireme.answers.answer import Answer, Part


@dataclass(frozen=True, kw_only=True)
class ListedPipeline(Part):
    """A pipeline."""

    name: str
    description: str


@dataclass(frozen=True, kw_only=True)
class PipelineList(Answer):
    """Pipelines that can be run by name."""

    kind: Literal["pipeline-list"] = "pipeline-list"
    pipelines: list[ListedPipeline]


@dataclass(frozen=True, kw_only=True)
class ModelVersion(Part):
    """A version of a registered model."""

    model: str
    number: int
    aliases: list[str]
    """Such as champion and challenger."""
    metric: str
    """What it was judged by, as in accuracy 0.9722; empty where that is not known."""
    created: datetime
    champion_since: datetime | None
    """Null where it is no champion, or nobody wrote it down."""
    run: str
    """The run that it comes from."""


@dataclass(frozen=True, kw_only=True)
class ModelList(Answer):
    """Versions of registered models, of each the newest first."""

    kind: Literal["model-list"] = "model-list"
    versions: list[ModelVersion]


@dataclass(frozen=True, kw_only=True)
class ListedSchedule(Part):
    """A schedule of a pipeline."""

    name: str
    pipeline: str
    cron: str
    time_zone: str
    version: str
    is_enabled: bool
    next: list[datetime]
    """Its next times; none of one that is paused."""
    facts: dict[str, str]
    """All that there is to say of it, in a person's words."""


@dataclass(frozen=True, kw_only=True)
class ScheduleList(Answer):
    """Schedules that Trireme has made."""

    kind: Literal["schedule-list"] = "schedule-list"
    target: str
    schedules: list[ListedSchedule]


@dataclass(frozen=True, kw_only=True)
class SavedEntry(Part):
    """What is kept by a name in trireme.yaml."""

    entry_kind: str
    """code, datasets or workspaces."""
    name: str
    where: str
    """Where it leads; empty where it says none."""
    file: str


@dataclass(frozen=True, kw_only=True)
class SavedList(Answer):
    """What is kept by name, the nearer file's where two have a name."""

    kind: Literal["saved-list"] = "saved-list"
    entries: list[SavedEntry]


@dataclass(frozen=True, kw_only=True)
class OldThing(Part):
    """Something that old runs have left."""

    what: str
    since: datetime
    """When it was last of use."""
    bytes: int
    """What it takes; 0 where that is not known."""


@dataclass(frozen=True, kw_only=True)
class PrunedList(Answer):
    """What was removed, or with --dry-run would be."""

    kind: Literal["pruned-list"] = "pruned-list"
    dry_run: bool
    things: list[OldThing]
