"""Runs on a cluster, whichever engine makes them: start, stay, tell the end."""

import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trireme.errors import InputError, TriremeError, first_line
from trireme.last_words import LAST_STEP, LastWords
from trireme.pipeline.pipeline import Pipeline
from trireme.process.signals import Interrupted, from_a_terminal, handled, interrupt
from trireme.progress import Progress
from trireme.targets.base import ENDED, Prunable, R, Run, Step, Target
from trireme.text.say import say
from trireme.tracking import store

if TYPE_CHECKING:
    from trireme.kubernetes.connection import Cluster
    from trireme.observers.goodput.ledger import Ledger
    from trireme.terminal.console import Console

PAUSE = 2.0  # seconds between two looks at a run
CANCEL_LIMIT = 60.0  # seconds that a run that is cancelled may take to end, and likewise its jobs
PROGRESS_PAUSE = 10.0  # seconds between two looks at how far its training is

GOODPUT_SINCE = 90 * 86400.0  # seconds in which trainings tell how often to save

TRAIN = "train"  # the step that trains

WHOLE = "(the run)"  # in place of a step's name

SAYING = ("FINISHED", "FAILED")
"""The states of a step that says what has come of it."""

UNDER_WAY = ("running", "stopping", "paused")
"""The states of a step that has begun, and has not ended."""


class Remote(Target[R]):
    """A place that runs pipelines by itself; servers may be away for longer if a command stays."""

    def reached_by(self) -> str:
        """Returns the words that lead a further command there."""
        return f"--target {self.name}"

    def run(
        self,
        pipeline: Pipeline,
        arguments: dict[str, Any],
        name: str,
        console: "Console",
        *,
        wait: bool,
    ) -> int:
        """Starts a run, and stays with it if that is wanted; returns the exit status."""
        self.stays = wait
        run, note = self.start(pipeline, arguments, name, console)
        console.heading(f"{run.name} started")
        console.facts(run.facts | {"Status": f"trireme status {run.key} {self.reached_by()}"})
        if note:
            console.print(f"note: {note}")
        return _stay(self, run, pipeline.graph.step_names, console) if wait else 0

    def every_run(self) -> Sequence[R]:
        """Returns all runs, the newest first."""
        raise NotImplementedError

    def remove(self, run: R) -> None:
        """Removes a run that has ended, with its volume."""
        raise NotImplementedError

    def prunable(
        self, before: float, keep: int, cache_limit: float | None = None, records: bool = False
    ) -> list[Prunable]:
        """Returns runs, each with its volume; see ``Target``."""
        if records:
            raise self._cannot("remove MLflow's records, which its server keeps: see 'mlflow gc'")
        if cache_limit is not None:
            raise self._cannot("keep a cache within a limit")
        return [
            Prunable(f"run {run.name}", run.ended_at, 0, partial(self.remove, run))
            for run in self.every_run()[keep:]
            if run.state in ENDED and run.ended_at < before
        ]

    def catch_up(self, runs: Sequence[R]) -> bool:
        """Ends in MLflow what has ended without its last step; see ``Target``."""
        from trireme.tracking import abandoned_runs

        self._delete_jobs_of_ended(runs)
        # Of several of one name it could not be told which MLflow's run is.
        go_on = {run.name for run in runs if run.state not in ENDED}
        abandoned_runs.end({run.name: run.state for run in runs if run.name not in go_on})
        return True

    def stop(self, run: R) -> None:
        """Asks for a run to be ended; it takes its place a while."""
        raise NotImplementedError

    def cancel(self, name: str) -> str:
        """Ends a run, and waits until it has ended and its training jobs are gone."""
        run = self.find(name)
        self.stop(run)
        limit = time.monotonic() + CANCEL_LIMIT
        while run.state not in ENDED and time.monotonic() < limit:
            time.sleep(PAUSE)
            run = self.find(run.key)
        state = "was cancelled" if run.state in ENDED else "is being cancelled, which takes long"
        return f"{run.name} {state}{self.delete_jobs(run)}"

    def delete_jobs(self, run: R) -> str:
        """Deletes what is left of a run's training jobs; returns what a person should know of it.

        Their step deletes them, unless it is killed before it can: on Kubeflow Pipelines it has a
        second.
        """
        from trireme.job import names
        from trireme.runner.cluster import jobs

        deleted: dict[str, str] = {}
        limit = time.monotonic() + CANCEL_LIMIT
        try:
            cluster, owner = self.training_jobs(run)
            while left := jobs.delete_running(cluster, {names.of_run(owner): math.inf}):
                deleted |= left
                if time.monotonic() > limit:
                    return f"; its training job {', '.join(left)} is being deleted"
                time.sleep(PAUSE)
        except TriremeError as error:
            return f"; whether its training job has ended is not known: {first_line(error)}"
        return f"; deleted its training job {', '.join(deleted)}" if deleted else ""

    def _delete_jobs_of_ended(self, runs: Sequence[R]) -> None:
        """Deletes training jobs that go on though their run has ended, and says so."""
        from trireme.job import names
        from trireme.runner.cluster import jobs
        from trireme.runner.cluster.status import State

        ended = [run for run in runs if run.state in ("FAILED", "KILLED")]
        if not ended:
            return
        with suppress(TriremeError):  # this user may not see jobs
            cluster, _ = self.training_jobs(ended[0])
            by_name = {names.of_run(self.owner_of(run)): run for run in ended}

            def is_left(owner: str, state: State) -> bool:
                if state in (State.CANCELLED, State.DELETING):  # by a person, or going already
                    return False
                return self.find(by_name[owner].key).state in ENDED  # nobody has resumed it

            until = {name: run.ended_at for name, run in by_name.items()}
            for job, owner in jobs.delete_running(cluster, until, is_left).items():
                say(f"the training job {job} of {by_name[owner].name} still ran, and is deleted")

    def last_words(self, run: R) -> dict[str, LastWords]:
        """Returns what the steps' pods have left, by step; none where they cannot be asked for."""
        raise NotImplementedError

    def left(self, run: R) -> LastWords:
        """Returns what the step that ended a run has left of it, with MLflow as it is seen here.

        That is the last one or, on Kubeflow, one that has failed.
        """
        by_step = self.last_words(run)
        ends = [by_step.get(LAST_STEP), *by_step.values(), LastWords("")]
        left = next(
            (words for words in ends if words and (words.facts or words.last_lines)), LastWords("")
        )
        facts = {name: store.seen_from_here(text) for name, text in left.facts.items()}
        return left._replace(facts=facts)

    def outcome(self, run: R) -> dict[str, str]:
        """Returns what came of a run; see ``Target``."""
        return self.left(run).facts

    def last_lines(self, run: R) -> str:
        """Returns what the last step has left of them; see ``Target``."""
        return self.left(run).last_lines

    def goodput_before(self, pipeline: str) -> "Ledger | None":
        """Returns what MLflow knows of it, where that is named here; see ``Target``."""
        from trireme.observers.goodput.ledger import Ledger
        from trireme.report import ledgers
        from trireme.tracking.client import hurry

        if "MLFLOW_TRACKING_URI" not in os.environ:
            return None
        hurry()
        with suppress(TriremeError):  # a plan can do without
            found = ledgers.kept(time.time() - GOODPUT_SINCE, pipeline)
            return sum((each.ledger for each in found), Ledger())
        return None

    def owner_of(self, run: R) -> str:
        """Returns the id that a run's training jobs are named after."""
        raise NotImplementedError

    def training_jobs(self, run: R) -> tuple["Cluster", str]:
        """Returns the cluster of a run's training jobs, and the id that they are named after."""
        raise NotImplementedError

    def progress(self, run: R, steps: Sequence[Step]) -> Progress | None:
        """Returns how far the step train is and why it waits, while it runs and can be asked."""
        from trireme.runner.cluster import jobs

        if not any(step.name == TRAIN and step.state == "running" for step in steps):
            return None
        with suppress(TriremeError):  # there is no job yet, or this user may not see it
            return jobs.progress_of_run(*self.training_jobs(run))
        return None

    def progress_in_words(self, run: R, steps: Sequence[Step]) -> dict[str, str]:
        """Returns the same as the result of that step, to be among those of the others."""
        now = self.progress(run, steps)
        return {TRAIN: now.words} if now and now.words else {}

    def waits(self, run: R) -> dict[str, str]:
        """Returns why pods of a run do not start, by step; by ``waiting.RUN`` of the whole run."""
        raise NotImplementedError

    def told(self, run: R) -> list[Step]:
        """Returns the steps that have begun, and what waits or has failed before its step has."""
        steps, waits = super().told(run), self.waits(run)
        state = "FAILED" if run.state in ENDED else "pending"
        for number, step in enumerate(steps):
            if reason := waits.pop(step.name, ""):
                steps[number] = replace(
                    step, state=step.state or state, result=step.result or reason
                )
        return steps + [Step(name or WHOLE, state, result=reason) for name, reason in waits.items()]

    def event_files(self, name: str, folder: Path) -> bool:
        """Reads them from the replicas that run, else from MLflow; see ``Target``."""
        from trireme.runner.cluster import jobs
        from trireme.tracking import event_files

        run = self.find(name)
        has_ended = run.state in ENDED
        if not has_ended:
            jobs.event_files_of_run(*self.training_jobs(run), folder)
        if not any(folder.iterdir()):
            event_files.download(run.name, folder)
        return not has_ended

    def retry(self, name: str) -> tuple[str, str]:
        """Has a run tried again; returns its name, and what a person should know."""
        raise NotImplementedError

    def resume(self, name: str, console: "Console", pairs: Sequence[str] = ()) -> int:
        """Has the engine retry a run, which keeps the steps that are done; see ``Target``."""
        if pairs:
            raise InputError(
                "-p: a run on a cluster is resumed with the parameters that it has; resume changes "
                "them of a run on this machine, so start a new run"
            )
        resumed, note = self.retry(name)
        console.print(f"{resumed} is being resumed")
        if note:
            sys.stdout.flush()
            say(f"note: {note}")
        return 0


def _stay(target: Remote[Any], run: Run, names: list[str], console: "Console") -> int:
    """Follows a run until it ends, or until a person has had enough; returns the exit status."""
    stopped_by = 0
    while True:
        try:
            with handled(interrupt, from_a_terminal()):
                run, steps = _follow(target, run, names, console)
            break
        except TriremeError:  # nothing is known of the run any more
            _say_it_goes_on(target, run, console)
            raise
        except Interrupted as interruption:
            if stopped_by or not _wants_it_cancelled(run):
                _say_it_goes_on(target, run, console)
                return 128 + interruption.number
            stopped_by = 128 + interruption.number
            if target.find(run.key).state not in ENDED:
                with suppress(InputError):  # it has ended just now
                    target.stop(run)
                console.print(f"{run.name} is being cancelled")
    if stopped_by and (note := target.delete_jobs(run)):
        console.print(note.removeprefix("; "))
    if stopped_by and run.state == "FAILED":  # as a server may call what was terminated
        run = replace(run, state="KILLED")
    console.print()
    console.heading(f"{run.name} {run.state}")
    left = target.left(run)
    console.facts(left.facts | run.facts | target.what_helps(run, steps))
    if stopped_by and run.state == "KILLED":
        return stopped_by
    if error := target.error(run):
        error.detail = left.last_lines
        sys.stdout.flush()
        raise error
    return 0


def _follow(
    target: Remote[Any], run: Run, names: list[str], console: "Console"
) -> tuple[Run, Sequence[Step]]:
    """Shows a run's steps as they start and end; returns it and them as they have ended."""
    states: dict[str, str] = {}
    results: dict[str, str] = {}
    waits: set[tuple[str, str]] = set()
    last_progress = 0.0
    with console.showing(names):
        while True:
            run = target.find(run.key)
            steps = target.steps(run)
            if run.state == "FAILED" and any(step.state in UNDER_WAY for step in steps):
                # Kubeflow may tell of the run before it tells of the step that failed.
                time.sleep(PAUSE)
                run = target.find(run.key)
                steps = target.steps(run)
            if any(step.state in SAYING and states.get(step.name) != step.state for step in steps):
                results = target.results(run, steps)
            for step in steps:
                before, words = states.get(step.name, ""), results.get(step.name, "")
                states[step.name] = _show(step, before, run.state, words, console)
            if run.state in ENDED:
                return run, steps
            if time.monotonic() >= last_progress + PROGRESS_PAUSE:
                if now := target.progress(run, steps):
                    console.progress(TRAIN, now)
                for name, reason in target.waits(run).items():
                    if (name, reason) not in waits:
                        waits.add((name, reason))
                        console.print(f"{name or 'the run':<9} waits: {reason}")
                last_progress = time.monotonic()
            time.sleep(PAUSE)


def _show(step: Step, before: str, state_of_run: str, result: str, console: "Console") -> str:
    """Shows what is new about a step; returns what is known of it now."""
    state = step.state
    if state_of_run in ENDED and state and state not in ENDED:
        # It ended with the run, before that was known of it; in a run that has failed, unasked.
        state = state_of_run if state_of_run == "FINISHED" else "KILLED"
    if state in ("", "pending", "skipped") or state == before:
        return before
    if not before:
        console.started(step.name, step.loop)
    if state in ENDED:
        console.ended(step.name, state, result, step.seconds)
    return state


def _say_it_goes_on(target: Remote[Any], run: Run, console: "Console") -> None:
    end_it = f"trireme cancel {run.key} {target.reached_by()}"
    console.print(f"{run.name} goes on; cancel it with: {end_it}")


def _wants_it_cancelled(run: Run) -> bool:
    """Asks the person at the terminal, if there is one."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    with handled(interrupt, from_a_terminal()):
        try:
            return typer.confirm(f"\nCancel {run.name}?", default=False)
        except (Interrupted, typer.Abort):
            return False
