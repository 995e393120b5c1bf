"""Names of training jobs."""

import hashlib
import re

from trireme.frameworks import KINDS

LIMIT = 63 - max(len(kind.longest_end) for kind in KINDS.values())
"""Characters of a job's name, whatever kind it becomes."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def of_run(run: str, trial: int | None = None) -> str:
    """Returns the name of a run's training job, or of that of one of its trials.

    Those of the trials begin with the one for the run and a dash, by which the run's last step
    finds all of them.

    Args:
        run: Id of the run; empty where it has none. On a cluster a UUID, 36 characters of the 44.
        trial: Number of the trial, from 0; None where the run trains once.
    """
    end = "" if trial is None else f"-{trial:03}"
    if not run:
        return f"train{end}"
    short = run.replace("-", "") if _UUID.fullmatch(run) else run
    room = LIMIT - len("train-") - len("-999")
    if len(short) > room:
        short = hashlib.sha256(run.encode()).hexdigest()[:room]
    return f"train-{short}{end}"
