"""Decide whether there is anything to train again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trireme.job.job import TrainingJob
from trireme.retraining import history
from trireme.runner.inputs import TAG, inputs_of, short
from trireme.tracking import journal, lineage

_COMPARED = {
    "git.commit": "commit",
    "dataset.fingerprint": "data",
    "base_model.fingerprint": "base model",
}
"""Tags that say what a model was trained from, and what a person calls it."""

SHORT = 12  # characters of an id that tell a person which it is


class Decision(NamedTuple):
    """What came of the comparison.

    Attributes:
        start: What training starts from: what the champion's training left in MODEL_DIR; empty
            for nothing.
        champion: The version of the champion; empty for none.
    """

    changed: bool
    reason: str
    start: str
    champion: str


def compare(
    job: TrainingJob,
    commit: str,
    fingerprint: str,
    base_model: str,
    model_name: str,
    judged: list[Any],
    workspace: Path,
    *,
    warm_start: bool,
    force: bool,
) -> Decision:
    """Compares what a model would be trained from with what the champion was trained from.

    There is nothing to train, either, where a run since the champion's has tried the same and was
    not good enough: it would not be better the next night.

    Args:
        judged: What else decides whether the model becomes the champion.
    """
    earlier = history.load(model_name, workspace, trained=warm_start)
    now = {"git.commit": commit, "dataset.fingerprint": fingerprint, TAG: inputs_of(job)}
    now |= {"base_model.fingerprint": base_model} if base_model else {}
    tried = {history.TAG: model_name, history.JUDGED: short(json.dumps(judged, sort_keys=True))}
    changed, reason = _verdict(now, tried, earlier, force)
    journal.log_tags(tried)
    if not changed:
        journal.log_tags({"verdict": reason})
    champion = earlier.champion
    start = str(champion.trained) if champion and champion.trained and changed else ""
    if warm_start and changed and not start:
        reason = f"{reason}; there is nothing to start from"
    journal.summarize(reason)
    if warm_start and changed:
        run = champion.tags.get("pipeline_run", "") if champion and start else lineage.NOTHING
        journal.log_tags({lineage.START: run} if run else {})
    journal.log_params({"warm_start": bool(start), "force": force})
    return Decision(changed, reason, start, champion.version if champion else "")


def _verdict(
    now: dict[str, str], tried: dict[str, str], earlier: history.History, force: bool
) -> tuple[bool, str]:
    if force:
        return True, "force is set"
    champion = earlier.champion
    differences = list(_differences(champion.tags, now)) if champion else []
    if champion and not differences:
        return False, (
            f"nothing to train: champion version {champion.version} was trained from this commit, "
            "data and parameters"
        )
    # An attempt with a base model, or without one, is another.
    same = dict.fromkeys(_COMPARED) | now | tried
    attempt = next(
        (
            attempt
            for attempt in earlier.attempts
            if all(attempt.tags.get(tag) == value for tag, value in same.items())
        ),
        None,
    )
    if attempt:
        return False, (
            f"nothing to train: run {attempt.name} has tried this commit, data and parameters, "
            f"but its model is not the champion: {attempt.why}"
        )
    if champion is None:
        return True, "there is no champion yet"
    return True, f"changed since champion version {champion.version}: {'; '.join(differences)}"


def _differences(then: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    for tag, label in _COMPARED.items():
        if then.get(tag) != now.get(tag):
            yield f"{label} {_short(now.get(tag, 'none'))} was {_short(then.get(tag, 'none'))}"
    if TAG not in then:
        yield "its parameters are not known"
    elif then[TAG] != now[TAG]:
        were, are = json.loads(then[TAG]), json.loads(now[TAG])
        for name in sorted(were.keys() | are.keys()):
            if were.get(name) != are.get(name):
                yield f"{name} {_shown(are.get(name))} was {_shown(were.get(name))}"


def _short(text: str) -> str:
    return text.rpartition(":")[2][:SHORT]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
