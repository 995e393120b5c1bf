"""What the step NAME does: plain Python, with no kfp in it."""

from trireme.components.errors import InputError
from trireme.components.tracking import journal


def work(text: str) -> str:
    """Returns what has come of a text; a mistake in it is one sentence."""
    if not text:
        raise InputError("text: must not be empty")
    journal.summarize(f"{len(text)} letters")
    return text.upper()
