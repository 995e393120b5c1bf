"""The sets of parameters that a sweep tries."""

import json
from itertools import product
from typing import Any, NamedTuple, Self

from trireme.components.errors import InputError
from trireme.components.evaluation.trials import Value, in_words
from trireme.components.json_values import whole
from trireme.components.tracking.lineage import VARIED

MOST = 1000  # trials of one sweep

REFERENCE = {"--learning-rate": [0.0005, 0.002, 0.008]}
"""What is tried of the reference classifier."""

WHOLE = ("workers", "processes_per_worker", "seed")
"""Parameters of the job whose values are whole numbers."""


class Trial(NamedTuple):
    """One training of a sweep.

    Attributes:
        values: What is different about it: by name, options of the program such as ``--width``,
            and parameters of the job such as ``workers``.
    """

    number: int
    values: dict[str, Value]

    def as_json(self) -> str:
        """Returns it as a text, for ``of_json``."""
        return json.dumps(self._asdict())

    @classmethod
    def of_json(cls, text: str) -> Self:
        """Returns the trial that a text stands for."""
        return cls(**json.loads(text))

    @property
    def options(self) -> list[str]:
        """What the program gets as arguments, after all others: ``true`` is an option alone."""
        given: list[str] = []
        for name, value in self.values.items():
            if name.startswith("-") and value is not False:
                given += [name] if value is True else [name, str(value)]
        return given

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the job."""
        return {name: value for name, value in self.values.items() if not name.startswith("-")}

    @property
    def words(self) -> str:
        """What is different about it, for a person."""
        return in_words(self.values)


def trials(grid: dict[str, Any], listed: list[Any], entrypoint: str = "") -> list[Trial]:
    """Returns what a sweep tries: every combination of a grid, and what is listed one by one.

    Args:
        entrypoint: The training program; for Trireme's own, which is meant where this is empty,
            there is a grid for who gives neither.
    """
    if not grid and not listed and not entrypoint:
        grid = REFERENCE
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"grid.{name} {values!r}: must be a list of one value or more")
    for number, values in enumerate(listed):
        if not isinstance(values, dict):
            raise InputError(f"trials.{number} {values!r}: must map names to values")
    count = len(listed)
    if grid:
        combinations = 1
        for values in grid.values():
            combinations *= len(values)
        count += combinations
    if not 0 < count <= MOST:
        raise InputError(f"grid and trials: they give {count:,} trials; 1 to {MOST:,} are allowed")
    for name in grid:
        _check(name, grid[name][0])
    grid = dict(sorted(grid.items()))  # kfp hands on the names of an object in any order
    sets = [dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values()) if grid]
    for values in (every := sets + listed):
        for name, value in values.items():
            _check(name, value)
    return [
        Trial(number, {name: whole(value) for name, value in sorted(values.items())})
        for number, values in enumerate(every)
    ]


def _check(name: str, value: Any) -> None:
    if not isinstance(name, str):
        raise InputError(f"grid and trials: the name {name!r} is not a string")
    varied = [one for one in VARIED if one != "args"]
    if not name.startswith("-") and name not in varied:
        raise InputError(
            f"grid and trials: {name!r} must be an option of the program, such as --width, or one "
            f"of {', '.join(varied)}"
        )
    if name in WHOLE and (isinstance(value, bool) or not isinstance(whole(value), int)):
        raise InputError(f"grid and trials: {name} {value!r} must be a whole number")
    if not isinstance(value, Value):
        raise InputError(f"grid and trials: {name} {value!r} must be text, a number, true or false")
