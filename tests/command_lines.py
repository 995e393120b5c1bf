"""Command lines of trireme that are parsed and not carried out."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from markdown_it import MarkdownIt
from typer import Context
from typer.main import get_command

from trireme.cli.app import app

OF_A_SHELL = {"|", "||", "&&", ">", ">>", "<", ";"}


def parsed(line: str) -> Any:
    """Returns the context of a command line; ``line`` begins after ``trireme``.

    Errors:
        click's, where the command does not take these words.
    """
    words = list(takewhile(lambda word: word not in OF_A_SHELL, shlex.split(line, comments=True)))
    command: Any = get_command(app)
    context = None
    while hasattr(command, "commands"):
        context = Context(command, parent=context, info_name="trireme")
        _, command, words = command.resolve_command(context, words)
    return command.make_context(command.name, words, parent=context)


def in_blocks(page: str) -> Iterator[str]:
    """Yields the command lines in the blocks of a page, each from after ``trireme``."""
    for token in MarkdownIt().parse(page):
        if token.type != "fence" or token.info not in ("", "bash", "sh"):
            continue
        whole = token.content.replace("\\\n", " ")
        for quoted in re.findall(r"'[^']*'", whole):
            whole = whole.replace(quoted, " ".join(quoted.split()))
        for line in whole.splitlines():
            words = line.strip().removeprefix("$ ")
            if words.startswith("trireme ") and not words.startswith("trireme --"):
                yield words.removeprefix("trireme ")
