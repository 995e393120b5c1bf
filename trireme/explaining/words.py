"""An explanation as lines of a terminal."""

from collections.abc import Iterator

from trireme.answers.explanations import Explanation, Tried
from trireme.plain import in_a_line, plain
from trireme.terminal.tables import lines as table


def lines(answer: Explanation) -> Iterator[str]:
    """Yields one page."""
    yield in_a_line(answer.summary)
    if answer.progress:
        yield f"progress: {in_a_line(answer.progress.words)}"
    yield from _part("Waits for", [_about(wait.what, wait.reason) for wait in answer.waits])
    if cause := answer.cause:
        facts = {
            "Kind": f"{cause.kind}; it lies with: {cause.lies_with}",
            "Step": cause.step,
            "Replica": cause.replica,
            "Exit status": "" if cause.exit_status is None else str(cause.exit_status),
            "Raised": cause.exception,
            "At": cause.place,
        }
        cause_lines = [f"{name:<11} {in_a_line(value)}" for name, value in facts.items() if value]
        yield from _part("Cause", cause_lines)
    evidence = [f"{item.what}: {_about(item.about, item.sentence)}" for item in answer.evidence]
    yield from _part("Evidence", evidence)
    yield from _part("Last lines", list(map(plain, answer.last_lines)))
    rows = [[start.what, f"{start.began:%d %b %H:%M:%S}", _took(start)] for start in answer.tried]
    yield from _part("Tried", table(["WHAT", "BEGAN (UTC)", "RESULT"], rows))
    yield from _part("Advice", list(map(in_a_line, answer.advice)))
    remedies = [
        f"{remedy.what}{': ' if remedy.command else ''}{remedy.command}" for remedy in answer.next
    ]
    yield from _part("Next", remedies)
    yield from _part("Not known", list(map(in_a_line, answer.notes)))


def _part(title: str, page_lines: list[str]) -> Iterator[str]:
    if page_lines:
        yield ""
        yield title
        yield from (f"  {line}" for line in page_lines)


def _about(subject: str, sentence: str) -> str:
    return in_a_line(f"{subject}: {sentence}" if subject else sentence)


def _took(tried: Tried) -> str:
    if tried.seconds is None:
        return tried.result or "runs, or nobody has seen its end"
    return f"{tried.result or 'ended'} after {tried.seconds:.0f} s"
