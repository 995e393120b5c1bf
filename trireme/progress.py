"""Progress of something that takes long, kept in a file for whoever asks."""

import json
import math
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from trireme.files.whole_file import write_whole


@dataclass(frozen=True)
class Progress:
    """How far a training is, and why it does not go on.

    Attributes:
        share: The part of it that is done, from 0 to 1; ``None`` where nothing, or only that of an
            epoch, is known.
        words: The same for a person, with speed and time left as far as they are known.
        left: Seconds that it will take from now on; ``None`` where that is not known.
        reason: Why it does not go on, which the words end with; empty where it does.
    """

    share: float | None
    words: str
    left: float | None = field(default=None, compare=False)
    reason: str = ""


def write(file: Path, progress: Progress) -> None:
    """Keeps how far it is now; a full disk is no reason to stop."""
    with suppress(OSError):
        write_whole(file, json.dumps(asdict(progress)), is_lasting=False)


def read(file: Path) -> Progress | None:
    """Returns how far it was last, if anything is known."""
    try:
        content = json.loads(file.read_text())
        numbers = content["share"], content.get("left")
        if all(number is None or math.isfinite(number) for number in numbers):
            share, left = numbers
            return Progress(share, str(content["words"]), left, str(content.get("reason", "")))
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None
