"""make alone: a list of what else there is."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_target_for_people_is_listed():
    done = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    (names,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    of_others = {"system", "test-system"}  # which the others make
    assert {name for _, name, _ in listed} == set(names.split()) - of_others
