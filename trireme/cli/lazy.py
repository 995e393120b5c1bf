"""Commands whose files are loaded when they are called: to load all takes longer than most work."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

CLUSTER = "Cluster options"
"""The section of a command's help with what is said of a cluster: ``rich_help_panel`` of these."""

PLACEHOLDERS = {"int": "N", "float": "X", "path": "PATH", "str": "TEXT"}
"""What stands for the value of an option that names nothing of its own, by Typer's word for it."""


class Command(TyperCommand):
    """A command whose help has sections, placeholders in capitals, and examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments, options, and those that are about a cluster."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], CLUSTER: []}
        for each in self.get_params(ctx):
            is_argument = each.param_type_name == "argument"
            title = "Arguments" if is_argument else getattr(each, "rich_help_panel", None)
            if row := help_row(each, ctx):
                sections[title or "Options"].append(row)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples, each in a line that can be copied."""
        from trireme.cli.examples import EXAMPLES

        names: list[str] = []
        while ctx.parent:
            names, ctx = [ctx.info_name, *names], ctx.parent
        if examples := EXAMPLES.get(" ".join(names)):
            with formatter.section("Examples"):
                for example in examples:
                    formatter.write(f"  trireme {example}\n")


def help_row(parameter: Any, ctx: Any) -> tuple[str, str] | None:
    """Returns what help shows of an argument or option, and says of it; None for a hidden one."""
    record: tuple[str, str] | None = parameter.get_help_record(ctx)
    if not record:
        return None
    shown, text = record
    if parameter.param_type_name == "argument":
        return shown.partition(" <")[0], text
    return re.sub("<([^>]+)>", _placeholder, shown), text


def _placeholder(match: re.Match[str]) -> str:
    kind = match[1]  # as in int range or text|json
    return PLACEHOLDERS.get(kind.split()[0], kind)


class Application(typer.Typer):
    """A command line whose commands are ``Command`` unless they say otherwise."""

    def command(self, name: str | None = None, **given: Any) -> Any:
        """Returns what makes a command of a function."""
        return super().command(name, **{"cls": Command, **given})


application = partial(
    Application,
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
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The names of commands by the headings of the help; others come last."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, short_help=command.help, hidden=command.is_hidden)
            for name, command in self.lazy.items()
        }

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes what each command is in a line, by sections."""
        left = dict.fromkeys(self.list_commands(ctx))
        shown = {
            title: [name for name in names if name in left]
            for title, names in self.sections.items()
        }
        for names in shown.values():
            for name in names:
                del left[name]
        shown["More commands" if shown else "Commands"] = list(left)
        width = max(map(len, self.list_commands(ctx)))
        for title, names in shown.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [
                (name.ljust(width), command.get_short_help_str(formatter.width - width - 6))
                for name, command in commands
                if command and not command.hidden
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the name, the command, loaded, and the arguments for it."""
        name, command, rest = super().resolve_command(ctx, args)
        lazy = self.lazy.get(name or "")
        return name, lazy.load() if lazy else command, rest
