"""``-o json|yaml``: how a command shows its answer."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from trireme.answers.answer import Part
from trireme.answers.plans import CheckedFact
from trireme.errors import TriremeError
from trireme.text.say import say

if TYPE_CHECKING:
    from trireme.doctor import Fact
    from trireme.runner.cluster.checks import Finding

A = TypeVar("A", bound=Part)


class Form(StrEnum):
    """The form of an answer."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[
    Form,
    typer.Option(
        "-o",
        "--output",
        help="json or yaml: the answer for scripts, see 'trireme schema'.",
        show_default=False,
    ),
]


def show(answer: A, form: Form, draw: Callable[[A], None] | None = None) -> None:
    """Shows an answer: as text by ``draw``, unless that has been drawn already."""
    if form is Form.TEXT:
        if draw:
            draw(answer)
        return
    from trireme.answers import writing

    typer.echo(writing.as_json(answer) if form is Form.JSON else writing.as_yaml(answer))


def checked(
    findings: Iterable["Fact | Finding"], form: Form, draw: Callable[[CheckedFact], None]
) -> list[CheckedFact]:
    """Returns what checks find; each is drawn as it comes where text is wanted."""
    every = []
    for fact in findings:
        every.append(CheckedFact(verdict=str(fact.verdict), sentence=fact.sentence))
        if form is Form.TEXT:
            draw(every[-1])
    return every


def draw_fact(fact: CheckedFact) -> None:
    """Draws what a check has found."""
    typer.echo(f"  {fact.verdict:<8} {fact.sentence}")


def line_by_line(form: Form, make: Callable[[str, str], Part]) -> Callable[[str, str], str] | None:
    """Returns what writes lines as answers, one after the other; None where text is wanted.

    Args:
        made: Returns the answer for a line of a step or replica.
    """
    if form is Form.TEXT:
        return None
    from trireme.answers import writing

    write = writing.in_a_line if form is Form.JSON else writing.as_yaml
    return lambda name, line: write(make(name, line))


def tell_problem(error: TriremeError) -> None:
    """Says on stderr what went wrong, as JSON in one line: stdout holds the answer, or nothing."""
    from trireme.answers import problem, writing

    say(writing.in_a_line(problem.of(error)))
