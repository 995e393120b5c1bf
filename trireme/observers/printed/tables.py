"""Tables: the head that says what their columns are called, and the rows below it."""

import re
from typing import NamedTuple

from trireme.observers.printed.names import has_known, is_other, name_of
from trireme.observers.printed.pairs import VALUE, number
from trireme.observers.printed.position import Position, bar

_HEADER = re.compile(r"[\s|│┃]*(?:epoch|ep|e|iter|iteration|step|round|class)\b", re.IGNORECASE)
_RULER = re.compile(r"[\s|+:=─━┏┓┗┛┡┩┢┪┳┻╇┼├┤└┘┴┌┐┬╷╵-]*$")
_NO_COLUMN = re.compile(rf"[:,;!?]|^[-+.\d]|\s{VALUE}%?$")
_BARS = re.compile(r"[|│┃]")
_BAR_AFTER = re.compile(r"\)?:\s+\d{1,3}%.*|:$")
_OF_LIGHTNING = re.compile(r"[\s│┃|]*(?:Test|Validate|Runningstage\.\w+) metric\b")
_SECTION = re.compile(r"\s*\| ([a-z_]{1,30}/)\s+\|\s+\|\s*$")
_CELL = re.compile(rf"(?:{VALUE}%?|\d+/\d+|[\d:]+(?:\.\d+)?s?m?|[\d.]+[KMG]i?B?|all|-|\+|)")
_POSITIONS = {"e": "epoch", "ep": "epoch", "#": "step", "iter": "step", "iteration": "step"} | {
    name: name for name in ("epoch", "step")
}


class Row(NamedTuple):
    """What a row tells: metrics by name, and where the program is.

    Attributes:
        step: The number of a step, in a column of these.
    """

    metrics: dict[str, float]
    said: Position = Position()
    step: int | None = None


class Table(NamedTuple):
    """What the columns of a table are called; without any its rows are a name and values."""

    columns: tuple[str, ...] = ()
    section: str = ""

    def row(self, text: str) -> Row | None:
        """Returns what a row tells; None for a line that is no row."""
        cells = _split(_BAR_AFTER.sub("", text.strip()))
        if not self.columns:
            return self._named_row([cell for cell in cells if cell])
        if len(cells) != len(self.columns):
            cells = _BAR_AFTER.sub("", text.strip()).split()
        if len(cells) != len(self.columns) or not all(map(_CELL.fullmatch, cells)):
            return None
        metrics, row_position, step = {}, Position(), None
        for name, cell in zip(self.columns, cells, strict=True):
            value = re.fullmatch(rf"({VALUE})(%)?", cell)
            if name == "epoch" and (at := re.fullmatch(r"(\d+)(?:\.\d+)?(?:/(\d+))?", cell)):
                row_position = row_position._replace(
                    epoch=float(at[1]), epochs=int(at[2] or 0), is_over=True
                )
            elif name == "step" and cell.isdigit():
                step = int(cell)
            elif value and name and not is_other(name):
                metrics[name] = number(value[1], value[2])
        if row_position.epoch is not None and (steps := bar(text)) and steps[1]:
            row_position = row_position._replace(done=min(steps), total=steps[1], is_over=False)
        return Row(metrics, row_position, step)

    def _named_row(self, cells: list[str]) -> Row | None:
        """Returns what a row of a name and values tells."""
        name, *values = cells or [""]
        is_row = values and re.fullmatch(r"[A-Za-z_][^=:]{0,60}", name)
        if not is_row or not all(re.fullmatch(VALUE, value) for value in values):
            return None
        called = name_of(f"{self.section}{name}")
        names = [called, *(f"{called}_{column}" for column in range(1, len(values)))]
        pairs = zip(names, map(float, values), strict=True)
        return Row({name: value for name, value in pairs if not is_other(name)})

    def ends_at(self, text: str) -> bool:
        """Tells whether a line that is no row ends the table."""
        return not self.columns and not _RULER.match(text)


def table_from(text: str) -> Table | None:
    """Returns the table that a line begins, if it is the head of one."""
    if _OF_LIGHTNING.match(text):
        return Table()
    if section := _SECTION.match(text):
        return Table(section=section[1])
    if not _HEADER.match(text) or "=" in text:
        return None
    text = _BAR_AFTER.sub("", text.strip())
    cells = _split(text)
    if len(cells) < 3:
        cells = text.split()
        words = [cell for cell in cells if has_known(cell.lower())]
        if len(cells) < 3 or not (len(words) > 1 or any("_" in word for word in words)):
            return None
    if any(_NO_COLUMN.search(cell) for cell in cells):
        return None
    columns: list[str] = []
    group: str | None = None
    for cell in cells:
        outer, bracket, inner = cell.rpartition("(")
        if bracket and not cell.endswith(")"):  # Box(P R mAP50 mAP50-95), and perhaps Mask(P ...
            group, cell = "" if group is None else f"{outer.strip()}_", inner
        name = name_of(cell.rstrip(")"))
        if group is not None:
            name = group + {"p": "precision", "r": "recall"}.get(name, name)
        columns.append(_POSITIONS.get(cell.lower(), name))
    return Table(tuple(columns)) if any(map(has_known, columns)) else None


def _split(text: str) -> list[str]:
    if _BARS.search(text):
        return [cell.strip() for cell in _BARS.split(text.strip(" |│┃"))]
    return re.split(r"\s{2,}|\t", text.strip())
