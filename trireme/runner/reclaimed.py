"""Note on a program that does not save when its node is reclaimed, as far as its code tells."""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from trireme.code import url as urls
from trireme.job.job import TrainingJob

MOST = 200  # files that are looked at; of more, nothing is said to be lacking
SIZE_LIMIT = 1 << 20  # bytes of each

_SAVES = re.compile(
    r"SIGTERM|enable_jit_checkpoint|save_on_exception|OnExceptionCheckpoint"
    r"|PreemptionCheckpointHandler|reached_preemption|received_sigterm"
)
"""What programs have that save then: a handler, or a switch of their library."""

_OFF = re.compile(r"enable_jit_checkpoint[\s=]+(?:false|0|no)\b", re.IGNORECASE)

_LIGHTNING = "ModelCheckpoint(save_on_exception=True, save_last=True) among its callbacks"

_SWITCHES = {
    "transformers": "enable_jit_checkpoint=True in its TrainingArguments, or as an option",
    "trl": "enable_jit_checkpoint=True in its configuration",
    "lightning": _LIGHTNING,
    "pytorch_lightning": _LIGHTNING,
    "tensorflow": "tf.distribute.experimental.PreemptionCheckpointHandler",
    "accelerate": "accelerate has no switch: handle SIGTERM, and call save_state",
}
"""How programs of a library save then; no variable does it."""

_OTHERWISE = "handle SIGTERM, save in CHECKPOINT_DIR, and end with status 143"


def note(job: TrainingJob, code_url: str | None, directory: str = "") -> str:
    """Says that a job on spot nodes loses what it did since its last checkpoint, if it may.

    Args:
        code_url: Where its code is; empty for the reference trainers, which save; None where it is
            in the image.
        directory: The folder there that becomes CODE_DIR.
    """
    if not job.scheduling.spot or (code_url == "" and not (job.command or job.module)):
        return ""
    words = " ".join([*(job.command or ()), *job.args])
    if _SAVES.search(words) and not _OFF.search(words):
        return ""
    program = job.entrypoint or job.module or shlex.join(job.command or ())
    about = f"scheduling.spot {job.scheduling.spot}:"
    lost = "it repeats what it did since its last checkpoint"
    is_here = bool(code_url and urls.is_directory(code_url))
    texts = list(_texts(urls.directory(code_url) / directory)) if code_url and is_here else []
    if any(_SAVES.search(text) and not _OFF.search(text) for text in texts):
        return ""
    if not is_here or len(texts) == MOST:
        return (
            f"{about} whether {program!r} saves when its node is reclaimed (SIGTERM) cannot be "
            f"seen from here; if not, {lost}"
        )
    used = (how for name, how in _SWITCHES.items() if any(_imports(name, text) for text in texts))
    return (
        f"{about} nothing in the code of {program!r} saves when its node is reclaimed (SIGTERM), "
        f"so {lost}: {next(used, _OTHERWISE)}"
    )


def _imports(library: str, text: str) -> bool:
    return bool(re.search(rf"^\s*(?:import|from)\s+{library}\b", text, re.MULTILINE))


def _texts(folder: Path) -> Iterator[str]:
    for file in islice(_programs(folder), MOST):
        with suppress(OSError):
            yield file.read_text(errors="replace") if file.stat().st_size <= SIZE_LIMIT else ""


def _programs(folder: Path) -> Iterator[Path]:
    """Yields Python files, but for hidden ones and those of a virtual environment."""
    for place, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = (name for name in sorted(files) if name.endswith(".py"))
        yield from (Path(place, name) for name in names if not name.startswith("."))
