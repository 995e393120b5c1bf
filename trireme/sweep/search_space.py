"""The sets of parameters that a sweep tries."""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from trireme.errors import InputError
from trireme.evaluation.trials import Value, in_words
from trireme.files.whole_file import write_whole
from trireme.text.json_values import whole
from trireme.tracking.lineage import VARIED

MOST = 5000  # trials of one sweep; so many have been tried

MOST_STEPS = 2**54  # from low to high: those of 1 between the ends that kfp hands on

GRID, RANDOM, TPE = "grid", "random", "tpe"
SEARCHES = (GRID, RANDOM, TPE)
"""How a sweep comes to what it tries: all combinations, by chance, by what was good so far."""

REFERENCE = {"--learning-rate": [0.0005, 0.002, 0.008]}
"""What is tried of the reference classifier."""

REFERENCE_RANGE = {"--learning-rate": {"low": 0.0005, "high": 0.008, "log": True}}
"""Where it is searched."""

SEARCH = "search.json"
"""The file in the run workspace that says how its trials are searched, and where."""

WHOLE = ("workers", "processes_per_worker", "seed")
"""Parameters of the job whose values are whole numbers."""


class Range(NamedTuple):
    """The numbers from one to another, both included."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all its numbers are whole."""
        return isinstance(self.low, int) and isinstance(self.step, int)


Space: TypeAlias = dict[str, list[Value] | Range]
"""What a sweep chooses from, by name."""


class Trial(NamedTuple):
    """One training of a sweep.

    Attributes:
        values: What is different about it: by name, options of the program such as ``--width``,
            and parameters of the job such as ``workers``.
        is_searched: Whether its values are chosen when it begins.
    """

    number: int
    values: dict[str, Value]
    is_searched: bool = False

    @property
    def options(self) -> list[str]:
        """What the program gets as arguments, after all others, in the form of the name.

        ``--width`` comes before its value, alone where that is true and not at all where it is
        false; ``--width=`` and Hydra's ``model.width`` and ``+width`` are one word with it.
        """
        arguments: list[str] = []
        for name, value in self.values.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if name.endswith("="):
                arguments.append(f"{name}{text}")
            elif not name.startswith("-") and is_option(name):
                arguments.append(f"{name}={text}")
            elif name.startswith("-") and value is not False:
                arguments += [name] if value is True else [name, text]
        return arguments

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the job."""
        return {name: value for name, value in self.values.items() if not is_option(name)}

    @property
    def words(self) -> str:
        """What is different about it, for a person."""
        return in_words(self.values)


def trials(
    grid: dict[str, Any],
    listed: list[Any],
    entrypoint: str = "",
    search: str = GRID,
    n_trials: int = 0,
) -> list[Trial]:
    """Returns what a sweep tries: what its search does, and what is listed one by one.

    Args:
        entrypoint: The training program; for Trireme's own, which is meant where this is empty,
            there is a grid for who gives neither.
        search: One of ``SEARCHES``.
        n_trials: How many trials the search makes; of a grid, 0.
    """
    parameters = space(grid, listed, entrypoint, search)
    ranges = [name for name, values in parameters.items() if isinstance(values, Range)]
    for number, values in enumerate(listed):
        if not isinstance(values, dict):
            raise InputError(f"trials.{number} {values!r}: must map names to values")
        for name, value in values.items():
            _check(name, value)
    if search == GRID:
        if ranges:
            raise InputError(
                f"grid.{ranges[0]} {grid[ranges[0]]!r}: must be a list of values, for search "
                f"{GRID!r} has no ranges; {RANDOM} and {TPE} do"
            )
        if n_trials:
            raise InputError(
                f"n_trials {n_trials}: must be 0 with search {GRID!r}, which tries every "
                "combination"
            )
        lists = [values for values in parameters.values() if isinstance(values, list)]
        count = math.prod(map(len, lists)) if lists else 0
        combinations = product(*lists) if lists else ()
        chosen = (dict(zip(parameters, values, strict=True)) for values in combinations)
        where = "grid and trials"
    else:
        if not 1 <= n_trials <= MOST:
            raise InputError(
                f"n_trials {n_trials}: must be 1 to {MOST:,}, the trials that search {search!r} "
                "makes"
            )
        if not parameters:
            raise InputError(f"grid {{}}: must say where search {search!r} looks")
        count = n_trials
        chosen = ({} for _ in range(count))
        where = "n_trials and trials"
    if not 0 < (total := count + len(listed)) <= MOST:
        raise InputError(f"{where}: they give {total:,} trials; 1 to {MOST:,} are allowed")
    numbered = [Trial(number, values, search != GRID) for number, values in enumerate(chosen)]
    return numbered + [
        Trial(number, {name: whole(value) for name, value in sorted(values.items())})
        for number, values in enumerate(listed, start=count)
    ]


def space(grid: dict[str, Any], listed: list[Any], entrypoint: str, search: str) -> Space:
    """Returns what a sweep chooses from, in the order of its names."""
    if search not in SEARCHES:
        raise InputError(f"search {search!r}: must be one of {', '.join(SEARCHES)}")
    if not grid and not entrypoint and (search != GRID or not listed):
        grid = REFERENCE if search == GRID else REFERENCE_RANGE
    for name in grid:
        _check_name(name)
    # kfp hands on the names of an object in any order, and whole numbers as floats.
    return {name: _choice(name, whole(values)) for name, values in sorted(grid.items())}


def extremes(parameters: Space) -> list[dict[str, Any]]:
    """Returns parameters of the job that a search may come to: each at least once, all largest."""
    ends = {
        name: [values.low, values.high] if isinstance(values, Range) else sorted(values, key=_size)
        for name, values in parameters.items()
        if not is_option(name)
    }
    most = max(map(len, ends.values()), default=1)
    return [
        {name: values[min(turn, len(values) - 1)] for name, values in ends.items()}
        for turn in range(most)
    ]


class Kept(NamedTuple):
    """What the trials of a sweep need to know of it, in the run workspace.

    Attributes:
        early_stopping: As the pipeline's parameter.
    """

    search: str
    space: Space
    early_stopping: dict[str, Any]


def save(
    search: str, parameters: Space, workspace: Path, early_stopping: dict[str, Any] | None = None
) -> None:
    """Keeps a search, for the trials."""
    spaces = {
        name: values._asdict() if isinstance(values, Range) else values
        for name, values in parameters.items()
    }
    content = {"search": search, "space": spaces, "early_stopping": early_stopping or {}}
    write_whole(workspace / SEARCH, json.dumps(content))


def saved(workspace: Path) -> Kept | None:
    """Returns the search that was kept; None where nothing is searched or stopped early."""
    if not (workspace / SEARCH).exists():
        return None
    content = Kept(**json.loads((workspace / SEARCH).read_text()))
    return content._replace(
        space={
            name: Range(**values) if isinstance(values, dict) else values
            for name, values in content.space.items()
        }
    )


def study_path(workspace: Path) -> Path:
    """Returns the file of the Optuna study."""
    return workspace / "optuna.log"


def _size(value: Value) -> float:
    return value if isinstance(value, int | float) else 0


def _choice(name: str, values: Any) -> list[Value] | Range:
    if isinstance(values, dict):
        if name == "entrypoint":
            raise InputError(f"grid.entrypoint {values!r}: must be a list of programs")
        bounds = _range(name, values)
        if name in WHOLE and not bounds.is_whole:
            raise InputError(
                f"grid.{name} {values!r}: must have a whole low and a whole step, for {name} is a "
                "whole number"
            )
        return bounds
    if not isinstance(values, list) or not values:
        raise InputError(
            f"grid.{name} {values!r}: must be a list of one value or more, or a range such as "
            '{"low": 0.001, "high": 0.1, "log": true}'
        )
    for value in values:
        _check(name, value)
    return values


def _range(name: str, described: dict[str, Any]) -> Range:
    where = f"grid.{name} {described!r}"
    if not {"low", "high"} <= described.keys() <= {"low", "high", "step", "log"}:
        raise InputError(f"{where}: a range has low and high, and may have step and log")
    for key in ("low", "high", "step"):
        value = described.get(key, 0)
        # kfp hands on whole numbers up to 2**53.
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2**53:
            raise InputError(f"{where}: {key} must be a number, at most 2**53 from 0")
    if not isinstance(described.get("log", False), bool):
        raise InputError(f"{where}: log must be true or false")
    bounds = Range(**described)
    if bounds.low >= bounds.high:
        raise InputError(f"{where}: low must be less than high")
    if bounds.step is not None and not 0 < bounds.step <= bounds.high - bounds.low:
        raise InputError(f"{where}: step must be more than 0, and at most high less low")
    if bounds.step is not None and (bounds.high - bounds.low) / bounds.step > MOST_STEPS:
        raise InputError(f"{where}: step must be greater, for at most 2**54 of them are told apart")
    if bounds.log and bounds.low <= 0:
        raise InputError(f"{where}: low must be more than 0 where log is true")
    if bounds.log and bounds.step is not None and not (bounds.is_whole and bounds.step == 1):
        raise InputError(
            f"{where}: where log is true, step must be 1, from a whole low, or left out"
        )
    if bounds.step and bounds.is_whole:
        bounds = bounds._replace(
            high=bounds.low + (bounds.high - bounds.low) // bounds.step * bounds.step
        )
    return bounds


def _check(name: str, value: Any) -> None:
    _check_name(name)
    if name in WHOLE and (isinstance(value, bool) or not isinstance(whole(value), int)):
        raise InputError(f"grid and trials: {name} {value!r} must be a whole number")
    if not isinstance(value, Value):
        raise InputError(f"grid and trials: {name} {value!r} must be text, a number, true or false")
    if name == "entrypoint" and not isinstance(value, str):
        raise InputError(f"grid and trials: entrypoint {value!r} must be the name of a program")
    if "\0" in f"{name}{value}":
        raise InputError(f"grid and trials: {name!r} {value!r} must not hold a NUL character")


def is_option(name: str) -> bool:
    """Tells whether a name is the program's own, and no parameter of the job."""
    return name.startswith(("-", "+")) or name.endswith("=") or "." in name


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise InputError(f"grid and trials: the name {name!r} is not a string")
    varied = [parameter for parameter in VARIED if parameter != "args"]
    if not is_option(name) and name not in varied:
        raise InputError(
            f"grid and trials: {name!r} must be an option of the program, such as --width, "
            f"--width= or model.width, or one of {', '.join(varied)}"
        )
