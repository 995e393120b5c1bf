"""The description of a distributed training job."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from components.errors import InputError

NAME_LIMIT = 63  # characters of a Kubernetes name
POD_SUFFIX = len("-worker-999")  # what the training operator appends for a replica's pod

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TrainingJob(BaseModel):
    """A distributed training job, wherever it runs.

    Attributes:
        name: Name of the job: lower-case letters, digits and dashes.
        framework: What the training program is written in.
        image: The container image of every replica.
        code_dir: Directory of the training code; the working directory of every replica.
        entrypoint: The training program, relative to ``code_dir``.
        args: Its arguments, passed on untouched.
        workers: Replicas besides the master.
        processes_per_worker: Processes in each replica, the master included.
        env: More environment variables for every replica.
        data_dir: Directory of the staged dataset.
        checkpoint_dir: Directory of the checkpoints, which survives restarts.
        model_dir: Directory that the program leaves its result in.
        time_limit: Seconds the job may run; ``None`` for no limit.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = "train"
    framework: Literal["pytorch"] = "pytorch"
    image: str
    code_dir: str = "/root/code"
    entrypoint: str
    args: list[str] = []
    workers: Annotated[int, Field(ge=0, le=999)] = 1
    processes_per_worker: Annotated[int, Field(ge=1, le=1024)] = 1
    env: dict[str, str] = {}
    data_dir: str
    checkpoint_dir: str
    model_dir: str
    time_limit: Annotated[int, Field(ge=1)] | None = None

    @classmethod
    def create(cls, **fields: Any) -> Self:
        """Makes a job from its fields.

        Args:
            **fields: The attributes of this class.

        Raises:
            InputError: One sentence on the first field that is wrong.
        """
        try:
            return cls(**fields)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "job"
            reason = first["msg"].removeprefix("Value error, ").replace("Input should", "must")
            raise InputError(f"{field} {first['input']!r}: {reason}") from None

    @field_validator("name")
    @classmethod
    def _is_a_dns_label(cls, name: str) -> str:
        limit = NAME_LIMIT - POD_SUFFIX
        if len(name) > limit or not _NAME.fullmatch(name):
            raise ValueError(
                f"must be at most {limit} lower-case letters, digits and dashes, because the "
                "names of the job's pods are made from it"
            )
        return name

    @field_validator("entrypoint")
    @classmethod
    def _stays_in_the_code(cls, entrypoint: str) -> str:
        path = PurePosixPath(entrypoint)
        outside = path.is_absolute() or ".." in path.parts
        if path.suffix != ".py" or outside or entrypoint.startswith("-") or "\0" in entrypoint:
            raise ValueError("must be the path of a .py file inside the repository")
        return entrypoint

    @field_validator("env")
    @classmethod
    def _has_variable_names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of an environment variable")
        return env

    @model_validator(mode="after")
    def _has_no_nul(self) -> Self:
        if any("\0" in text for text in [*self.args, *self.env.values()]):
            raise ValueError("args and env cannot hold NUL characters")
        return self

    @property
    def world_size(self) -> int:
        """Processes of the whole job."""
        return (1 + self.workers) * self.processes_per_worker
