"""Each construct of kfp's: what comes of it here, with kfp's own executor."""

from pathlib import Path

import pytest
import running_here
from constructs import CONSTRUCTS, Construct

from trireme.graph import reading, writing

DOCS = Path(__file__).parents[3] / "docs" / "explanation" / "engines.md"
MARK = "<!-- What follows is written by make golden, from tests/constructs.py. -->"

pytestmark = pytest.mark.slow
every = pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda one: one.name)


@every
def test_here(construct: Construct, tmp_path: Path) -> None:
    graph = reading.of_yaml(writing.text(construct.graph))
    done = running_here.run(graph, tmp_path, **construct.given)
    assert ("FAILED" if done.error else "FINISHED") == construct.ends, done.error
    assert sorted(done.lines) == sorted(construct.said)


def test_golden_table(golden) -> None:
    head = DOCS.read_text().partition(MARK)[0]
    rows = ["| construct | here | Argo | Kubeflow |", "|---|---|---|---|"]
    for one in CONSTRUCTS:
        there = " | ".join(differs or "same" for differs in (one.argo, one.kubeflow))
        rows.append(f"| {one.name} | yes | {there} |")
    golden(str(DOCS), f"{head}{MARK}\n\n" + "\n".join(rows) + "\n")
