"""docs/reference/parameters.md: its table is that of trireme/parameters.py."""

import json
import os
from pathlib import Path

from trireme.parameters import PARAMETERS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "parameters.md"
BEGIN = '<!-- "make golden" makes what follows from trireme/parameters.py. -->\n'
END = "<!-- Until here. -->\n"


def table() -> str:
    lines = ["| parameter | default | |", "|---|---|---|"]
    for name, parameter in PARAMETERS.items():
        default = parameter.default
        if not isinstance(default, str):
            default = json.dumps(default).removesuffix(".0")
        shown = f"`{default}`" if default else ""
        lines.append(f"| `{name}` | {shown} | {parameter.text} |")
    return "\n".join([*lines, ""])


def test_golden_table_is_that_of_the_parameters():
    above, _, rest = PAGE.read_text().partition(BEGIN)
    between, _, below = rest.partition(END)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(above + BEGIN + table() + END + below)
        return
    assert between == table(), "make golden writes it again"
