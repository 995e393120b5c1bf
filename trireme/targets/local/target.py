"""This machine as a place where pipelines run."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.errors import InputError, TriremeError
from trireme.files.home import home
from trireme.process.processes import cpus
from trireme.targets.base import OnLine, Prunable, Step, Target
from trireme.targets.local import runs
from trireme.targets.local.runs import LocalRun

if TYPE_CHECKING:
    from trireme.observers.goodput.ledger import Ledger
    from trireme.pipeline.pipeline import Pipeline
    from trireme.planning import Plan
    from trireme.targets.local.result import Result
    from trireme.terminal.console import Console


class Local(Target[LocalRun]):
    """This machine: every step is a process; see ``Target``."""

    name = "local"
    title = "this machine"

    def run(
        self,
        pipeline: "Pipeline",
        arguments: dict[str, Any],
        name: str,
        console: "Console",
        *,
        wait: bool,
    ) -> int:
        from trireme.targets.local import checking, running

        if not wait:
            run, _ = self.start(pipeline, arguments, name, console)
            console.heading(f"{run.name} started")
            console.facts(run.facts | {"Status": f"trireme status {run.name}"})
            return 0
        checking.check(pipeline.graph)
        return _ended(running.run(pipeline, _absolute(arguments), name, console), console)

    def start(
        self, pipeline: "Pipeline", arguments: dict[str, Any], name: str, console: "Console"
    ) -> tuple[LocalRun, str]:
        """Starts a run in a process of its own; see ``Target``."""
        from trireme.targets.local import checking, running

        checking.check(pipeline.graph)
        runs.start(running.prepare(pipeline, _absolute(arguments), name))
        return runs.find(name), ""

    def latest(self) -> list[LocalRun]:
        return runs.latest()

    def find(self, name: str) -> LocalRun:
        return runs.find(name)

    def steps(self, run: LocalRun) -> list[Step]:
        ended = [
            Step(name, step["state"], step["seconds"], step["result"])
            for name, step in run.ended.items()
        ]
        return ended + [
            Step(name, run.state, result=run.how_far(name) if run.state == "running" else "")
            for name in run.logs
            if name not in run.ended
        ]

    def given(self, run: LocalRun) -> "tuple[Pipeline, dict[str, Any]] | None":
        from trireme.targets.local import running

        try:
            return running.prepared(run.directory)
        except InputError:  # another version's
            return None

    def outcome(self, run: LocalRun) -> dict[str, str]:
        from trireme.finish import outcome

        return outcome.facts(run.workspace)

    def goodput(self, run: LocalRun) -> "Ledger | None":
        from trireme.observers.goodput.kept import read_all
        from trireme.observers.goodput.ledger import Ledger

        found = read_all(run.workspace)
        return sum(found, Ledger()) if found else None

    def goodput_before(self, pipeline: str) -> "Ledger | None":
        from trireme.observers.goodput.ledger import Ledger

        found = [self.goodput(run) for run in runs.latest() if run.pipeline == pipeline]
        return sum(filter(None, found), Ledger())

    def error(self, run: LocalRun) -> TriremeError | None:
        """Returns what the run itself has failed with; see ``Target``."""
        if run.state == "lost":
            return TriremeError(
                f"run {run.name} was killed, or this machine went down; 'trireme resume "
                f"{run.name}' goes on with it"
            )
        return run.error or super().error(run)

    def last_lines(self, run: LocalRun) -> str:
        return run.error.detail if run.error else ""

    def logs(self, name: str, step: str, on_line: OnLine, *, follow: bool) -> None:
        runs.logs(name, step, on_line, follow=follow)

    def event_files(self, name: str, folder: Path) -> bool:
        run = runs.find(name)
        runs.link_event_files(run, folder)
        return run.state == "running"

    def cancel(self, name: str) -> str:
        runs.cancel(name)
        return f"{name} cancelled"

    def resume(self, name: str, console: "Console", pairs: Sequence[str] = ()) -> int:
        run = runs.find(name)
        from trireme.targets.local import running

        return _ended(running.resume(run, console, pairs), console)

    def prunable(
        self, before: float, keep: int, cache_limit: float | None = None, records: bool = False
    ) -> list[Prunable]:
        from trireme.targets.local import pruning

        return pruning.prunable(before, keep, cache_limit, records)

    def catch_up(self, runs: Sequence[LocalRun]) -> bool:
        """Brings to MLflow what it lacks of any run; see ``Target``."""
        if not any(home().glob("unsent/*")):  # mostly, and then there is nothing to be loaded
            return True
        from trireme.targets.local import unsent

        return unsent.bring_all()

    def plan(self, plan: "Plan", pipeline: "Pipeline") -> "Plan":
        from trireme.targets.local import checking

        checking.check(pipeline.graph)
        return replace(plan, at_once=min(plan.at_once, pipeline.at_once or cpus()))


def _absolute(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns arguments by which data are found from any folder, as ``reproduce`` has to."""
    from trireme.data import uri

    return arguments | {
        name: uri.absolute(arguments[name])
        for name in ("dataset_uri", "base_model")
        if isinstance(arguments.get(name), str)
    }


def _ended(result: "Result", console: "Console") -> int:
    """Shows how a run ended; returns the exit status."""
    result.show(console)
    if result.error:
        sys.stdout.flush()
        raise result.error
    return result.exit_status
