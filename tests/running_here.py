"""Runs of a graph by the engine here, without a record in MLflow: each step is a process."""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trireme.errors import TriremeError
from trireme.graph.graph import Graph
from trireme.targets.local import commands
from trireme.targets.local.engine import Call, Engine, Place, Values


class Ran(NamedTuple):
    """How a run has ended: what failed, the steps in the order in which they began, their words."""

    error: TriremeError | None
    calls: list[Call]
    said: dict[str, list[str]]

    @property
    def lines(self) -> list[str]:
        """All that steps have said."""
        return [line for lines in self.said.values() for line in lines]

    @property
    def steps(self) -> list[str]:
        """The names of the steps that have begun, with their turns, sorted."""
        return sorted("-".join([call.task, *map(str, call.turns)]) for call in self.calls)


def said_in(output: str) -> list[str]:
    """Returns the lines of a step's output that say what it was given."""
    lines = output.splitlines()
    return [line.removeprefix("SAY ") for line in lines if line.startswith("SAY ")]


def place_in(directory: Path) -> Place:
    """Returns a place below a folder."""
    workspace = directory / "workspace"
    workspace.mkdir(exist_ok=True)
    return Place("a-run", "17", "2026-11-28T01:02:03Z", directory / "artifacts", workspace)


def run(
    graph: Graph,
    directory: Path,
    at_once: int = 2,
    variables: dict[str, str] | None = None,
    **arguments: Any,
) -> Ran:
    """Runs a graph; ``said`` has what each step has printed after the word SAY, by its task."""
    place = place_in(directory)
    calls: list[Call] = []
    said: dict[str, list[str]] = {}
    one_at_a_time = threading.Lock()

    def run_step(call: Call) -> tuple[Values, TriremeError | None]:
        with one_at_a_time:
            calls.append(call)
        commands.prepare(call)
        done = subprocess.run(
            commands.command_line(call, place),
            env=os.environ | call.step.variables | (variables or {}),
            cwd=directory,
            capture_output=True,
            text=True,
        )
        with one_at_a_time:
            said.setdefault(call.task, []).extend(said_in(done.stdout))
        if done.returncode:
            return {}, TriremeError(done.stderr.strip().rpartition("\n")[2])
        return commands.outputs(call), None

    given = {
        name: one.default
        for name, one in graph.root.input_parameters.items()
        if name not in arguments and one.default not in (None,)
    }
    known = {name: value for name, value in given.items() if repr(value) != "ABSENT"}
    error = Engine(graph, place, run_step, at_once).run(known | arguments)
    return Ran(error, calls, said)


def played(
    graph: Graph, directory: Path, play: Callable[[Call], Any], at_once: int = 2, **arguments: Any
) -> Ran:
    """Runs a graph whose steps are played: a function returns their outputs, or raises."""
    calls: list[Call] = []

    def run_step(call: Call) -> tuple[Values, TriremeError | None]:
        calls.append(call)
        try:
            return play(call) or {}, None
        except TriremeError as error:
            return {}, error

    error = Engine(graph, place_in(directory), run_step, at_once).run(arguments)
    return Ran(error, calls, {})
