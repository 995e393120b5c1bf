"""Pruning of what is on this machine: runs, jobs, datasets and packages."""

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from trireme.data.cache_entry import forget_tree, last_used
from trireme.data.holdout import SUFFIX
from trireme.files.home import home
from trireme.runner.local import jobs
from trireme.targets.base import Prunable
from trireme.targets.local import runs, unsent

LATELY = 3600.0  # seconds after its last use in which a run may be about to use something


def prunable(
    before: float, keep: int, cache_limit: float | None = None, records: bool = False
) -> list[Prunable]:
    """Returns what may be removed; see ``Target``."""
    waiting = {run.name for run in unsent.read()}
    latest = runs.latest()
    old = [
        run
        for run in latest[keep:]
        if run.state != "running" and run.name not in waiting and run.ended_at < before
    ]
    prunables = [
        Prunable(f"run {run.name}", run.ended_at, _size(run.directory), partial(_remove, run))
        for run in old
    ]
    jobs_home = home() / "jobs"
    old_jobs = [
        job
        for job in jobs.all_jobs(jobs_home)[keep:]
        if job.state != "running" and job.ended_at < before
    ]
    for job in old_jobs:
        remove = partial(jobs.delete, jobs_home, job.name)
        prunables.append(Prunable(f"job {job.name}", job.ended_at, _size(job.directory), remove))
    removed = {*(run.directory for run in old), *(job.directory for job in old_jobs)}
    # Also of runs whose records another version has written.
    remaining = (folder for folder in _folders(home() / "runs") if folder not in removed)
    used = set(_used(folder / "workspace" for folder in remaining))
    used |= set(_used(folder for folder in jobs_home.glob("*") if folder not in removed))
    prunables += _unused(used, before, cache_limit)
    return prunables + (_records(before, removed) if records else [])


def _records(before: float, removed: set[Path]) -> list[Prunable]:
    """Returns MLflow's records of runs that are gone, or about to go."""
    from trireme.tracking import old_records

    remaining = {folder.name for folder in _folders(home() / "runs") if folder not in removed}
    return [
        Prunable(
            f"record {record.name}",
            record.ended,
            sum(map(_size, record.artifacts)),
            partial(old_records.remove, record),
        )
        for record in old_records.find(before, remaining)
    ]


def _unused(used: set[Path], before: float, limit: float | None) -> list[Prunable]:
    """Returns the datasets and packages that none uses and that are old or too much."""
    cached = sorted(_cached(), key=lambda item: item[1].since)
    total = sum(item.bytes for _, item in cached)
    prunables = []
    for folder, item in cached:
        is_too_much = limit is not None and total > limit and item.since < time.time() - LATELY
        if folder.resolve() not in used and (item.since < before or is_too_much):
            prunables.append(item)
            total -= item.bytes
    return prunables


def _cached() -> Iterator[tuple[Path, Prunable]]:
    """Returns each dataset and each run's packages here, and how it is removed."""
    cache = home() / "cache"
    for tree in _folders(cache / "trees"):
        name, at = f"dataset sha256:{tree.name[:12]}", last_used(cache, tree)
        yield tree, Prunable(name, at, _size(tree), partial(forget_tree, cache, tree, at))
    for folder in _folders(home() / "packages"):
        remove = partial(shutil.rmtree, folder, ignore_errors=True)
        at = folder.stat().st_mtime
        yield folder, Prunable(f"packages {folder.name}", at, _size(folder), remove)


def _folders(parent: Path) -> list[Path]:
    return [folder for folder in sorted(parent.glob("*/")) if not folder.is_symlink()]


def _remove(run: runs.LocalRun) -> None:
    # It may have been resumed just now, or removed by another.
    with suppress(TimeoutError, FileNotFoundError), runs.held(run.name):
        # Its record first: half a run would be none.
        (run.directory / "run.json").unlink(missing_ok=True)
        shutil.rmtree(run.directory, ignore_errors=True)


def _used(workspaces: Iterable[Path]) -> Iterator[Path]:
    """Returns what runs and jobs have links to."""
    for workspace in workspaces:
        for name in ("data", f"data{SUFFIX}", "base_model", "packages"):
            link = workspace / name
            if link.is_symlink():
                yield link.resolve()


def _size(folder: Path) -> int:
    """Returns the bytes that a folder takes; files that it shares with others count for it."""
    total = 0
    for directory, _, files in os.walk(folder):
        for name in files:
            total += os.lstat(f"{directory}/{name}").st_blocks * 512
    return total
