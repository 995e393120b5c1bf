"""An explanation as lines of a terminal."""

from collections.abc import Iterator

from trireme.answers.explanations import Explanation, Tried
from trireme.plain import in_a_line, plain
from trireme.terminal.tables import lines as table


def lines(told: Explanation) -> Iterator[str]:
    """Yields one page."""
    yield in_a_line(told.summary)
    if told.progress:
        yield f"progress: {in_a_line(told.progress.words)}"
    yield from _part("Waits for", [_about(each.what, each.reason) for each in told.waits])
    if cause := told.cause:
        facts = {
            "Kind": f"{cause.kind}; it lies with: {cause.lies_with}",
            "Step": cause.step,
            "Replica": cause.replica,
            "Exit status": "" if cause.exit_status is None else str(cause.exit_status),
            "Raised": cause.exception,
            "At": cause.place,
        }
        shown = [f"{name:<11} {in_a_line(value)}" for name, value in facts.items() if value]
        yield from _part("Cause", shown)
    evidence = [f"{each.what}: {_about(each.about, each.sentence)}" for each in told.evidence]
    yield from _part("Evidence", evidence)
    yield from _part("Last lines", list(map(plain, told.last_lines)))
    rows = [[each.what, f"{each.began:%d %b %H:%M:%S}", _took(each)] for each in told.tried]
    yield from _part("Tried", table(["WHAT", "BEGAN (UTC)", "RESULT"], rows))
    yield from _part("Advice", list(map(in_a_line, told.advice)))
    remedies = [f"{each.what}{': ' if each.command else ''}{each.command}" for each in told.next]
    yield from _part("Next", remedies)
    yield from _part("Not known", list(map(in_a_line, told.notes)))


def _part(title: str, shown: list[str]) -> Iterator[str]:
    if shown:
        yield ""
        yield title
        yield from (f"  {line}" for line in shown)


def _about(what: str, said: str) -> str:
    return in_a_line(f"{what}: {said}" if what else said)


def _took(tried: Tried) -> str:
    if tried.seconds is None:
        return tried.result or "runs, or nobody has seen its end"
    return f"{tried.result or 'ended'} after {tried.seconds:.0f} s"
