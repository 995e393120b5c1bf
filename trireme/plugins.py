"""Plugins: what other packages add, by a group of entry points for each kind of thing."""

from collections.abc import Callable, Collection, Mapping
from functools import cache, wraps
from inspect import isfunction
from reprlib import repr
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from trireme.errors import InputError, TriremeError, first_line
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

_WORDS = {
    PIPELINES: "pipeline",
    TARGETS: "target",
    FRAMEWORKS: "framework",
    OBSERVERS: "observer",
    DATA_SOURCES: "data source",
    COMMANDS: "command",
}

T = TypeVar("T")


@cache
def _all() -> "list[EntryPoint]":
    from importlib.metadata import entry_points  # which few commands need

    everything = entry_points()  # it reads a file of each installed package
    return [entry for group in everything.groups for entry in everything.select(group=group)]


def found(group: str, ours: Collection[str] = ()) -> "dict[str, EntryPoint]":
    """Returns the entry points of a group, by name; says which are left out.

    Args:
        ours: The names that are Trireme's.
    """
    entries: dict[str, EntryPoint] = {}
    for entry in sorted(
        (candidate for candidate in _all() if candidate.group == group),
        key=lambda candidate: candidate.name,
    ):
        first = entries.get(entry.name)
        if entry.name not in ours and first is None:
            entries[entry.name] = entry
            continue
        holder = whose(first) if first else "Trireme"
        _warn(
            f"{entry.name}, an entry point of {whose(entry)}, is left out: the name is {holder}'s"
        )
    return entries


def whose(entry: "EntryPoint") -> str:
    """Returns the name of the package that an entry point is of."""
    return entry.dist.name if entry.dist else entry.module


def called(entry: "EntryPoint") -> str:
    """Returns what an entry point is called in a sentence, as in ``target slurm of acme``."""
    return f"{_WORDS[entry.group]} {entry.name} of {whose(entry)}"


def in_words(error: BaseException) -> str:
    """Returns the type of an error of somebody's code, and the first line of what it says."""
    kind = type(error).__name__
    return f"{kind}: {first_line(error)}" if str(error).strip() else kind


def load(entry: "EntryPoint") -> Any:
    """Returns what an entry point names.

    Raises:
        InputError: It cannot be loaded; the sentence names the package.
    """
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        raise InputError(f"{called(entry)} cannot be loaded: {in_words(error)}") from None


def leave_out(entry: "EntryPoint", why: str | BaseException) -> None:
    """Says once that what an entry point names is left out."""
    words = why if isinstance(why, str) else in_words(why)
    _warn(f"{called(entry)} is left out: {words}")


@cache
def _warn(sentence: str) -> None:
    say(f"warning: {sentence}")


def every(
    group: str, kind: type[T], ours: Collection[str], fault: Callable[[str, T], str]
) -> dict[str, T]:
    """Returns what a group of entry points holds, by name; says what is left out, and why.

    Args:
        ours: The names that are Trireme's.
        fault: Returns what is wrong with what an entry point of a name holds; empty for nothing.
    """
    values = {}
    for name, entry in found(group, ours).items():
        try:
            value = entry.load()
            if isinstance(value, kind):
                why = fault(name, value)
            else:
                type_name = "class" if isinstance(value, type) else type(value).__name__
                why = f"{entry.value} is a {type_name}, no {kind.__name__}"
        except (Exception, SystemExit) as error:
            leave_out(entry, error)
            continue
        if why:
            leave_out(entry, why)
        else:
            values[name] = value
    return values


class Result(NamedTuple):
    """What a method has to return: whether something is that, and what it is called."""

    is_one: Callable[[Any], bool]
    words: str


def guard(
    instance: object,
    protocol: type,
    entry: "EntryPoint",
    results: Mapping[str, Result],
    passing: Mapping[str, type[Exception]] | None = None,
) -> None:
    """Has the methods of what another package brings fail in one sentence that says whose it is.

    Args:
        instance: What it brings, an instance of the protocol.
        results: What methods have to return, by their names.
        passing: What a method may raise besides a ``TriremeError``, by its name.
    """
    for name, method in vars(protocol).items():
        if isfunction(method) and not name.startswith("_"):
            # A reader of the output that goes away is no fault of the package's.
            kinds = (TriremeError, BrokenPipeError, (passing or {}).get(name, TriremeError))
            guarded = _guarded(getattr(instance, name), name, entry, results.get(name), kinds)
            object.__setattr__(instance, name, guarded)  # it may be a frozen dataclass


def ends_a_command(error: Exception) -> bool:
    """Tells whether an exception is how a command ends with Typer, which is no failure."""
    import typer

    return isinstance(error, typer.Exit | typer.Abort | typer.BadParameter)


def _guarded(
    method: Callable[..., Any],
    name: str,
    entry: "EntryPoint",
    result: Result | None,
    passing: tuple[type[Exception], ...],
) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            returned = method(*arguments, **named)
            if result and not result.is_one(returned):
                raise TypeError(f"it returned {repr(returned)}, no {result.words}")
        except passing:
            raise
        except Exception as error:
            if ends_a_command(error):
                raise
            raise TriremeError(f"{called(entry)} failed in {name}: {in_words(error)}") from error
        return returned

    return call
