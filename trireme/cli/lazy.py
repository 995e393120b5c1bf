"""Commands whose files are loaded when they are called: to load all takes longer than most work."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

application = partial(
    typer.Typer,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # halves the time that --help takes
)
"""A command or a group, as all of ours are."""


class Lazy(NamedTuple):
    """A command that is not loaded."""

    where: str
    """Its file in this folder, and in it the function or the typer.Typer: ``job.look:status``."""
    help: str
    """What the help of its group says of it, in one line."""
    is_hidden: bool = False

    def load(self) -> Any:
        """Returns the command."""
        module, _, name = self.where.partition(":")
        return command_of(getattr(import_module(f"{__package__}.{module}"), name))


def command_of(added: Any) -> Any:
    """Returns the command that a function or a ``typer.Typer`` is."""
    if not isinstance(added, typer.Typer):
        alone = application()
        alone.command()(added)
        added = alone
    return get_command(added)


class LazyGroup(TyperGroup):
    """A group, for ``typer.Typer(cls=)``, whose help loads none of its commands, and a call one."""

    lazy: ClassVar[Mapping[str, Lazy]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, short_help=command.help, hidden=command.is_hidden)
            for name, command in self.lazy.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the name, the command, loaded, and the arguments for it."""
        name, command, rest = super().resolve_command(ctx, args)
        lazy = self.lazy.get(name or "")
        return name, lazy.load() if lazy else command, rest
