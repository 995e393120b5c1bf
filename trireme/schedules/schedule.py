"""Schedules of pipelines, whatever runs them: their fields, and how a file of them is read."""

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from trireme.errors import InputError
from trireme.schedules import cron
from trireme.strict_model import StrictModel
from trireme.text import yaml_text

PINNED, LATEST = "pinned", "latest"

YEARS = range(1970, 3000)

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")


def _is_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("it must be at most 52 small letters, digits and -")
    return name


def _is_cron(text: str) -> str:
    try:
        return cron.parse(text).text
    except InputError as error:
        raise ValueError(str(error).removeprefix(f"cron {text!r}: ")) from None


def _is_zone(name: str) -> str:
    try:
        return cron.zone(name).key
    except InputError as error:
        raise ValueError(str(error).removeprefix(f"time zone {name!r}: ")) from None


def _moment(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("it must be a time such as 2027-01-01T00:00") from None


Moment = Annotated[datetime, BeforeValidator(_moment)]


class Schedule(StrictModel):
    """When a pipeline is run, and with what."""

    name: Annotated[str, AfterValidator(_is_name)]
    """What it is known by: the same name is the same schedule."""

    pipeline: str
    """The pipeline."""

    cron: Annotated[str, AfterValidator(_is_cron)]
    """When: minute, hour, day of month, month, day of week."""

    time_zone: Annotated[str, AfterValidator(_is_zone)] = "UTC"
    """Where these hours are."""

    params: dict[str, Any] = {}
    """Parameters of the pipeline, those that are not its defaults."""

    version: Annotated[str, Field(min_length=1)] = PINNED
    """The pipeline's version: ``pinned``, the one that is compiled now; ``latest``, the one that is
    the latest when it runs; or the name of another."""

    catch_up: bool = False
    """Run later what was missed, one time after the other."""

    concurrency: Annotated[int, Field(ge=1, le=10)] = 1
    """Runs of it that may be under way at once."""

    paused: bool | None = None
    """Whether it rests; by default a new one does not, and one that is there stays as it is."""

    starts: Moment | None = None
    """When it begins; without an offset in its time zone."""

    ends: Moment | None = None
    """When it is over."""

    dataset_claims: list[str] = []
    """Claims with datasets that all pods have mounted."""

    cache_claim: str = ""
    """A claim with a cache of datasets."""

    storage_class: str = ""
    """The StorageClass of each run's workspace."""

    shape: str = ""
    """A file with what the pods of steps get."""

    @field_validator("starts", "ends")
    @classmethod
    def _in_its_zone(cls, moment: datetime | None, info: ValidationInfo) -> datetime | None:
        if moment and moment.year not in YEARS:  # Python's calendar ends with 9999
            raise ValueError(f"its year must be from {YEARS[0]} to {YEARS[-1]}")
        if "time_zone" not in info.data:  # which is refused, and so is this
            return moment
        if moment and moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(info.data["time_zone"]))
        moment = moment and moment.replace(microsecond=0)  # which nobody keeps
        starts = info.data.get("starts")
        if moment and starts and moment.astimezone(UTC) <= starts.astimezone(UTC):
            raise ValueError("it must be later than starts")
        return moment

    @property
    def zone(self) -> ZoneInfo:
        """The time zone itself."""
        return ZoneInfo(self.time_zone)

    @property
    def facts(self) -> dict[str, Any]:
        """All in which it can differ from another of its name, in a person's words."""
        return {
            "pipeline": self.pipeline,
            "version": self.version,
            "cron": f"{self.cron} {self.time_zone}",
            "starts": self.starts,
            "ends": self.ends,
            "catch_up": self.catch_up,
            "concurrency": self.concurrency,
        } | {f"params.{name}": value for name, value in sorted(self.params.items())}

    def next_times(self, count: int) -> list[datetime]:
        """Returns when it runs next."""
        return cron.upcoming(cron.parse(self.cron), self.zone, count, self.starts, self.ends)

    @classmethod
    def read_file(cls, file: Path) -> list[Self]:
        """Returns the schedules of a YAML file, which holds one or a list of them."""
        content = yaml_text.read(file, str(file))
        described = content if isinstance(content, list) else [content]
        if not described or not all(isinstance(item, dict) for item in described):
            raise InputError(f"{file}: must hold a schedule, or a list of them")
        schedules = [
            cls.read(f"schedule {item.get('name', '')}".strip(), item) for item in described
        ]
        names = [schedule.name for schedule in schedules]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"{file}: there are two schedules called {twice!r}")
        return schedules
