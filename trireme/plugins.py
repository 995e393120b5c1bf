"""Plugins: what other packages add, by a group of entry points for each kind of thing."""

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from trireme.errors import InputError, first_line
from trireme.text.say import say

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PIPELINES = "trireme.pipelines"
"""Functions with ``@dsl.pipeline``, or modules with one."""

TARGETS = "trireme.targets"
"""Places to run: each a ``trireme.targets.registry.TargetEntry``, by the name that ``--target``
takes."""

FRAMEWORKS = "trireme.frameworks"
"""Frameworks: each an instance of ``trireme.frameworks.base.Framework``, in a module that imports
nothing of ours but ``trireme.frameworks``, which loads it."""

OBSERVERS = "trireme.observers"
"""What looks at a training: each is called with the ``TrainingJob``, and returns a
``trireme.observers.base.Observer``, or None where it has nothing to look at."""

DATA_SOURCES = "trireme.data_sources"
"""Kinds of datasets: each a class like ``trireme.data.sources.Source``, by the scheme of its URIs;
it is called with the ``trireme.data.description.Dataset``."""

COMMANDS = "trireme.commands"
"""Commands: each a function that Typer makes a command of, or a ``typer.Typer``."""

T = TypeVar("T")


@cache
def _all() -> "list[EntryPoint]":
    from importlib.metadata import entry_points  # which few commands need

    everything = entry_points()  # it reads a file of each installed package
    return [each for group in everything.groups for each in everything.select(group=group)]


def found(group: str) -> "dict[str, EntryPoint]":
    """Returns the entry points of a group, by name."""
    of_it = (entry for entry in _all() if entry.group == group)
    return {entry.name: entry for entry in sorted(of_it, key=lambda each: each.name)}


def load(entry: "EntryPoint") -> Any:
    """Returns what an entry point names.

    Raises:
        InputError: It cannot be loaded; the sentence names the package.
    """
    try:
        return entry.load()
    except Exception as error:
        of = entry.dist.name if entry.dist else entry.module
        raise InputError(
            f"{entry.name}, an entry point of {of}, cannot be loaded: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from None


def every(group: str, kind: type[T]) -> dict[str, T]:
    """Returns what a group of entry points holds, by name; says what is left out, and why."""
    things = {}
    for name, entry in found(group).items():
        try:
            thing = load(entry)
        except InputError as error:
            say(f"warning: {error}")
            continue
        if isinstance(thing, kind):
            things[name] = thing
        else:
            say(f"warning: {entry.value}, an entry point of {group}, is no {kind.__name__}")
    return things
