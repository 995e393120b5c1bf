"""The work of the step NAME: plain Python, without kfp."""

from trireme.errors import InputError
from trireme.tracking import journal


def work(text: str) -> str:
    """Returns the text in capitals; an InputError is one sentence."""
    if not text:
        raise InputError("text: must not be empty")
    journal.summarize(f"{len(text)} letters")
    return text.upper()
