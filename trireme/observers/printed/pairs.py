"""Pairs of a name and a value on a line, and which of them are metrics."""

import re
from collections.abc import Collection

from trireme.observers.printed.names import (
    AMBIGUOUS,
    ANY_SIZE,
    PARAMETERS,
    PARTS,
    QUALIFIERS,
    RATE,
    has_known,
    is_known,
    is_other,
    whole_name,
    words_of,
)

VALUE = r"[-+]?(?>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))"
_MEAN = rf"\s{{0,8}}\(\s{{0,8}}(?P<mean>{VALUE})\s{{0,8}}%?\s{{0,8}}\)"
_SPEED = r"\s?[A-Za-z]+/(?:s|sec|second|step|it|iter|batch|epoch|sample)\b(?!\s*[:=]?\s*[-+.]?\d)"
_UNIT = r"\s(?:s|ms|us|sec|secs|seconds|min|mins|minutes|hours|[KMGT]i?B)\b"
_PAIR = re.compile(
    rf"(?<![\w./@\\-])(?P<name>[A-Za-z_][\w./@-]{{0,80}}(?:'s [\w./@-]{{1,40}})?)"
    r"(?P<quote>['\"]?)(?:\s{0,4}\([\w%]{1,8}\))?(?P<by>\s{0,40}[:=]\s{0,40}|\s{1,40})"
    rf"(?:tensor\(|np\.float\d+\(|['\"\[(])?\s{{0,4}}(?P<value>{VALUE})"
    rf"(?P<percent>\s?%)?(?!\w|[.,:]\d|-\d|\s?[━╸╺─|█]{{2}}|%?\||{_SPEED}|{_UNIT})"
    rf"(?:\s{{0,3}}/\s{{0,3}}(?P<of>\d{{1,12}})\b)?(?:{_MEAN})?"
)
_OF = re.compile(
    r"\b(?P<name>accuracy|acc|loss|error|f1|precision|recall|auc|rmse|mse|mae|r2) "
    r"(?:of|on|for|over) [^:=]{1,80}"
    rf"[:=]\s{{0,4}}(?P<value>{VALUE})(?P<percent>\s?%)?(?!\w|[.,:]\d|-\d)",
    re.IGNORECASE,
)
WORDS_OF_PARTS = "|".join(sorted(PARTS, key=len, reverse=True))
_PART = re.compile(
    rf"(?<![\w./-])(?P<first>{WORDS_OF_PARTS})['\"]?(?: (?:set|results?|metrics?|error))?"
    r"\s{0,4}(?:\(\w{1,8}\)\s?)?[:|\])](?!\s{0,20}['\"]?[-+.\d])",
    re.IGNORECASE,
)
_FIRST = re.compile(rf"[\W_]{{0,6}}(?:epoch\()?(?P<first>{WORDS_OF_PARTS})\b", re.IGNORECASE)


def metrics_of(text: str, has_position: bool, known: Collection[str]) -> dict[str, float]:
    """Returns the metrics of a line that is no row of a table.

    Args:
        has_position: Whether the line tells an epoch, a step or the like.
        known: Names that are metrics, whatever they are made of.
    """
    parts = [(match.start(), PARTS[match["first"].lower()]) for match in _PART.finditer(text)]
    parts = [(0, part_of(text)), *parts]
    metrics: dict[str, float] = {}
    if of := _OF.search(text):
        end = len(text[: of.start()].rstrip())
        name = whole_name(of["name"], text[:end], _part_at(parts, of.start()))
        metrics[name] = number(of["value"], of["percent"])
        text = f"{text[: of.start()]}{' ' * len(of[0])}{text[of.end() :]}"
    end = 0
    for pair in _PAIR.finditer(text):
        between, end = text[end : pair.start()], pair.end()
        name = whole_name(pair["name"], between, _part_at(parts, pair.start()))
        if name in known or _is_metric(name, pair, between, has_position):
            if not pair["of"]:
                metrics[name] = number(pair["mean"] or pair["value"], pair["percent"])
            elif float(pair["of"]):
                metrics[name] = number(pair["value"], pair["percent"]) / float(pair["of"])
    return metrics


def number(value: str, percent: str | None) -> float:
    """Returns a value as a number, that of a percentage as a share."""
    return float(value) / 100 if percent else float(value)


def part_of(text: str) -> str:
    """Returns what it gives the names on a line that it begins with the data that it is about."""
    first = _FIRST.match(text)
    part = PARTS[first["first"].lower()] if first else ""
    if first and not part and (pair := _PAIR.match(text, first.end() + 1)):
        # As the first name of the line says.
        return "train_" if has_known(pair["name"].lower()) else ""
    return part


def _part_at(parts: list[tuple[int, str]], at: int) -> str:
    return next(part for start, part in reversed(parts) if start <= at)


def _is_metric(name: str, pair: re.Match[str], between: str, has_position: bool) -> bool:
    if name == RATE:
        return has_position
    if is_other(name):
        return False
    words = words_of(name)
    is_fraction = bool(pair["percent"] or pair["of"] or not pair["value"].lstrip("+-").isdigit())
    is_told = not pair["by"].isspace()  # by a sign
    known = [word for word in words if is_known(word)]
    is_loss = has_position and words[-1].endswith("loss")  # of whatever: clip_val_loss
    is_parameter = not (is_loss or PARAMETERS.isdisjoint(words))
    if known and not is_parameter and not (pair["of"] and not _is_share(known)):
        if has_position:
            return is_told or is_fraction or not AMBIGUOUS.issuperset(known)
        if AMBIGUOUS.issuperset(known):
            return is_told and is_fraction
        return is_fraction or any(word.endswith(ANY_SIZE) for word in known)
    if not (has_position and is_told) or pair["of"] or is_parameter:
        return False
    word_before = re.search(r"([A-Za-z]{2,})\s+$", between)
    if word_before and word_before[1].lower() not in QUALIFIERS:
        return False  # a sentence
    return len(name) > 1 and (is_fraction or "=" in pair["by"] or bool(pair["quote"]))


def _is_share(known: list[str]) -> bool:
    return any(word.startswith(("acc", "top", "precision", "recall", "error")) for word in known)
