"""The job that a command is about, from a file, options and a workspace."""

import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trireme.errors import InputError, TriremeError

if TYPE_CHECKING:
    from trireme.job.job import TrainingJob
    from trireme.pipeline.logins import Connect


def described(
    file: Path | None,
    workspace: str = "",
    *,
    here: bool = False,
    connect: "Connect | None" = None,
    **flags: Any,
) -> "TrainingJob":
    """Returns the job of a file and flags, which win, and of what a workspace says of all jobs.

    Args:
        here: Whether it is to run on this machine.
        connect: Returns the cluster that is to run it.
    """
    from trireme.job import reading
    from trireme.job.job import TrainingJob
    from trireme.pipeline import logins, saved

    from_flags = {field: value for field, value in flags.items() if value not in (None, "", [], {})}
    fields = saved.expanded_job(reading.from_yaml(_read(file) if file else ""), connect)
    of_all = saved.of_all_jobs(saved.workspace(workspace)) if workspace else {}
    fields = reading.merged(of_all, fields)
    if (here or connect) and "MLFLOW_TRACKING_URI" not in from_flags.get("env", {}):
        is_theirs = bool(workspace) and saved.is_mlflow_of_the_repository(workspace)
        logins.check_tracking(fields, connect, is_theirs)
    job = TrainingJob.create(**reading.merged(fields, from_flags))
    if job.data_at and not job.code:
        raise InputError(f"data_at {job.data_at!r}: needs code, a copy of which has the link")
    if "name" in job.model_fields_set:
        return job
    # Two jobs that nobody named are two jobs.
    return job.model_copy(update={"name": f"{job.name}-{secrets.token_hex(2)}"})


def words_of(option: str, text: str) -> list[str]:
    """Returns the words of an option, as a shell splits them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option} {text!r}: cannot be split into words: {error}") from None


def at_one_commit(job: "TrainingJob") -> "TrainingJob":
    """Returns a job whose replicas all check out the same commit, whatever its branch does."""
    from trireme.code import credentials, git
    from trireme.credentials.secrets import read

    if not job.code:
        return job
    code = job.code
    # The Secret is the cluster's; this machine may know one of that name, or have its own ways.
    login = read(code.secret, "code", credentials.KEYS)
    try:
        commit = git.resolve(code.url, code.revision, code.secret if login else "")
    except TriremeError as error:
        typer.echo(f"note: each replica resolves code.revision itself: {error}", err=True)
        return job
    return job.model_copy(update={"code": code.model_copy(update={"revision": commit})})


def _read(file: Path) -> str:
    from trireme.text import yaml_text

    if file.suffix == ".py":
        raise InputError(f"{file} is a program, not a job; give it with --entrypoint")
    return yaml_text.text_of(file, str(file))
