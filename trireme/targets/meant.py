"""The run that a person means: the newest, one by the beginning of its name, or that of a model."""

import re
from typing import Any

from trireme.errors import InputError
from trireme.targets.base import NoSuchRun, Target

LATEST = "latest"

_WHOLE = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}-.+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What we and Kubeflow give: a name or an id, which the place is not asked for its runs for."""

FEW = 5  # names that an error lists


def meant(target: Target[Any], word: str) -> str:
    """Returns what a run is found by.

    Args:
        word: A name, an id, or the beginning of either; MODEL@ALIAS for the run that a registered
            model comes from; empty or ``latest`` for the newest.
    """
    if "@" in word:
        return _of_model(word)
    if _WHOLE.fullmatch(word):
        return word
    if word in ("", LATEST):
        if not (runs := target.latest()):
            raise InputError(target.no_runs())
        return str(runs[0].key)
    try:
        target.find(word)
    except NoSuchRun:
        runs = target.latest()
    else:
        return word
    matches = [run for run in runs if run.name.startswith(word) or run.id.startswith(word)]
    if len(matches) > 1:
        names = ", ".join(run.name for run in matches[:FEW])
        more = f" and {len(matches) - FEW} more" if len(matches) > FEW else ""
        raise InputError(f"{word!r} is the beginning of {len(matches)} runs: {names}{more}")
    return str(matches[0].key) if matches else word


def _of_model(word: str) -> str:
    from trireme.tracking import lineage, model_versions

    version = model_versions.find(word)
    return lineage.name_of_whole(version.run_id)
