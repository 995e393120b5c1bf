"""What others have written, as a terminal may show it."""

import re

_CONTROL = re.compile(
    r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def plain(text: str) -> str:
    """Returns text without what would move the cursor or colour a reader's terminal."""
    return _CONTROL.sub("", text)


def in_a_line(text: str) -> str:
    """Returns text likewise, on one line."""
    return re.sub(r"[\t\n\u2028\u2029]", " ", plain(text))
