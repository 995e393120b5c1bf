"""Position of a program, as one line of it tells: its epoch, and its steps of how many."""

import re
from typing import NamedTuple

from trireme.plain import plain

WIDTH = 1000  # characters of a line, or of the last state of a bar, that are looked at

_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?(?-i:[kMGTP])?)"  # of steps
_TELLS = re.compile(r"\d[kMGTP]?\s{0,3}/\s{0,8}\d|poch|POCH|\d\s{1,3}(?:of|OF)\s{1,3}\d|Train: \d")
_TQDM = re.compile(rf"\d{{1,3}}%\|[^|]*\|\s*{_NUMBER}/{_NUMBER} \[([^\]]*)")
_RICH = re.compile(rf"[━╸╺─]{{3,}}\s+{_NUMBER}/{_NUMBER}\s")
_KERAS = re.compile(rf"^\s*{_NUMBER}/{_NUMBER} (?:\[[=>.]+\]|[━╸╺]+|-) .*\d")
_BRACKETS = re.compile(rf"\[\s*{_NUMBER}\s*/\s*{_NUMBER}\s*(\(\s*\d+(?:\.\d+)?%\s*\))?\s*\]")
_STEPS = re.compile(
    rf"\b(?:global[ _])?(?:step|iter|iteration|batch|update|round)s?\b(?:\s{{1,12}}|\W{{0,3}})"
    rf"{_NUMBER}\s*(?:/|\bof\b)\s*{_NUMBER}",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    rf"{_NUMBER}\s*/\s*{_NUMBER}\s+(?:steps|iterations|iters|batches|updates)\b", re.IGNORECASE
)
_IN_EPOCH = re.compile(rf"\bepoch \d+:\s+{_NUMBER} / {_NUMBER} ")  # of fairseq
_EPOCH = re.compile(
    r"\bepochs?\b(?:\(train\)\s{0,8})?\W{0,4}(\d{1,9}(?:\.\d{1,6})?)"
    r"(?![\d.]*%)(?:\s*(?:/|\bof\b)\s*(\d{1,9})\b)?"
    r"|\bTrain: (\d{1,9}) (?=\[)",  # of timm
    re.IGNORECASE,
)
_BEGINS = re.compile(r"[ \[(#*=>|-]*(?:train(?:ing)?\b(?: results?)?[ :|-]*)?", re.IGNORECASE)
_TRAINS = re.compile(r"\b(?:train|fit|epoch(?!\((?:val|test)\)))", re.IGNORECASE)
_OTHER = re.compile(
    r"\b(?:val|valid|eval|test|predict|sanity|infer|generat|sampl|scor|comput|"
    r"scan|load|download|upload|sav|read|writ|fetch|extract|index|cach|compil|build|"
    r"map|filter|token|pack|convert|prepar|preprocess|process|shard|resolv|running tokenizer)",
    re.IGNORECASE,
)
_BYTES = re.compile(r"\d[kMGTP]?i?B/s")
_POWERS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


class Position(NamedTuple):
    """What a line says of how far the program is.

    Attributes:
        is_training: Whether it says that these are steps of training.
        is_over: Whether it tells figures of the epoch, which is over then.
        is_aside: Whether the epoch is only mentioned among figures, as by Hugging Face.
    """

    epoch: float | None = None
    epochs: int = 0
    done: float = 0.0
    total: float = 0.0
    unit: str = "step"
    is_training: bool = False
    is_over: bool = False
    is_aside: bool = False

    @property
    def share(self) -> float | None:
        """The part of its steps that is done, from 0 to 1; None where it tells none."""
        return min(1.0, self.done / self.total) if self.total else None


def position(line: str) -> Position | None:
    """Returns what a line says of how far the program is; ``None`` for nothing."""
    text = last_state(line)
    if not _TELLS.search(text):
        return None
    text = plain(text)
    epoch = _EPOCH.search(text)
    rest = text
    if epoch:
        rest = f"{text[: epoch.start()]}{' ' * len(epoch[0])}{text[epoch.end() :]}"
    bar = _TQDM.search(rest)
    if bar and _BYTES.search(bar[3]):
        return None
    steps = bar or _RICH.search(rest) or _KERAS.search(rest) or _IN_EPOCH.search(text)
    steps = steps or _STEPS.search(rest) or _BRACKETS.search(rest) or _COUNTED.search(rest)
    first = steps or epoch
    if not first:
        return None
    before = text[: first.start()][-60:]
    trains = bool(_TRAINS.search(before))
    if _OTHER.search(before) and not trains:
        return None
    parsed = Position()
    if steps:
        done, total = _value(steps[1]), _value(steps[2])
        if not total or done > total:
            return None
        trains = trains or bool(epoch and not _is_quoted(epoch))
        if bar and re.fullmatch(r"\W*epochs?\W*", text[: bar.start()], re.IGNORECASE):
            # A bar of epochs around that of each epoch.
            at = min(done + 1, total)
            return Position(at, int(total), done, is_training=trains, is_over=done == total)
        unit = "sample" if steps.re is _BRACKETS and steps[3] else "step"
        parsed = Position(done=done, total=total, unit=unit, is_training=trains)
    if epoch:
        parsed = _with_epoch(parsed, epoch)
    return parsed if parsed.total or parsed.epoch is not None else None


def _with_epoch(parsed: Position, epoch: re.Match[str]) -> Position:
    """Returns a position with the epoch that its line names, if the line is of that."""
    number, epochs = float(epoch[1] or epoch[3]), int(epoch[2] or 0)
    is_aside = _is_quoted(epoch) and not epochs
    is_first = bool(_BEGINS.fullmatch(epoch.string[: epoch.start()]))
    if not (number <= epochs if epochs else parsed.total or is_first or is_aside):
        return parsed
    is_over = not parsed.total and bool(re.search(r"\d", epoch.string[epoch.end() :]))
    return parsed._replace(epoch=number, epochs=epochs, is_over=is_over, is_aside=is_aside)


def _is_quoted(epoch: re.Match[str]) -> bool:
    return epoch.string[: epoch.start()].endswith(("'", '"'))


def telling(line: str) -> bool:
    """Tells at little cost whether a line may tell a position; most do not."""
    return bool(_TELLS.search(line, max(0, len(line) - 4 * WIDTH)))


def bar(text: str) -> tuple[float, float] | None:
    """Returns how many steps the bar on a line, one of rich or tqdm, has done, and of how many."""
    match = _RICH.search(text) or _TQDM.search(text)
    return (_value(match[1]), _value(match[2])) if match else None


def is_rich(text: str) -> bool:
    """Tells whether a line has a bar of rich."""
    return bool(_RICH.search(text))


def last_state(line: str) -> str:
    """Returns what a person sees of a line that was rewritten, as bars are."""
    text = line[-4 * WIDTH :].rstrip("\r\n ").rpartition("\r")[2]
    return (_overwritten(text) if "\b" in text else text)[:WIDTH]


def _overwritten(text: str) -> str:
    """Returns what a terminal shows of a text that moves the cursor back in it."""
    shown: list[str] = []
    at = 0
    for part in re.split("(\b+)", text):
        if part.startswith("\b"):
            at = max(0, at - len(part))
        else:
            shown[at : at + len(part)] = part
            at += len(part)
    return "".join(shown)


def _value(text: str) -> float:
    return float(text.rstrip("kMGTP")) * _POWERS.get(text[-1], 1.0)
