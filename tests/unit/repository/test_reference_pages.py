"""docs/reference: what is generated there is current."""

import os
from pathlib import Path

import pytest
import reference_pages
from reference_pages import BEGIN, END, PARTS

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", PARTS)
def test_golden_part_of_a_page(name: str):
    page = REFERENCE / f"{name}.md"
    above, begin, rest = page.read_text().partition(BEGIN)
    between, end, below = rest.partition(END)
    assert begin and end, f"{page} has no marks"
    wanted = f"\n{PARTS[name]()}\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        page.write_text(above + BEGIN + wanted + END + below)
        return
    assert between == wanted, "make golden writes it again"


def test_each_variable_that_is_read_is_told_or_nobodys_to_set():
    told = {name for part in reference_pages.VARIABLES.values() for name in part}
    read = reference_pages.read_by_us()
    assert {"TRIREME_HOME", "KFP_EXISTING_TOKEN"} <= read
    assert read - told - reference_pages.OTHERS == set()


def test_each_rule_of_a_role_says_why():
    rules = [line for line in reference_pages.roles().splitlines() if line.startswith("| ")]
    assert [line for line in rules if line.endswith("|  |")] == []
