"""Plain text of what others have written, as a terminal may show it, and a file be called."""

import re

_CONTROL = re.compile(
    r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\n\x07\x1b]*(\x07|\x1b\\)?)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    # Those that turn the direction of what follows, so that it reads otherwise than it is
    # (https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters).
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)

_UNUSUAL = re.compile(r"[^\w.-]+")
LONGEST = 200  # bytes of a file's name, which may have 255 with its ending

_LOW = bytes({*range(0x20), 0x7F} - set(b"\t\n"))
_HIGH = (b"\xc2", b"\xd8\x9c", b"\xe2\x80", b"\xe2\x81")
"""What those of Unicode begin with in UTF-8, and few other letters."""


def plain(text: str) -> str:
    """Returns text without what would move the cursor or colour a reader's terminal."""
    encoded = text.encode(errors="replace")
    # Nearly all text has none of these, which is seen so ten times as fast as by the expression.
    if len(encoded.translate(None, _LOW)) == len(encoded) and not any(
        map(encoded.__contains__, _HIGH)
    ):
        return text
    return _CONTROL.sub("", text)


def in_a_line(text: str) -> str:
    """Returns text likewise, on one line."""
    return re.sub(r"[\t\n\u2028\u2029]", " ", plain(text))


def as_file_name(text: str, otherwise: str) -> str:
    """Returns a name for a file that is called as something elsewhere, in the folder it is put in.

    Args:
        otherwise: The name of what has none that a file could have.
    """
    name = _UNUSUAL.sub("-", text).encode()[:LONGEST].decode(errors="ignore")
    return name.strip(".-") or otherwise
