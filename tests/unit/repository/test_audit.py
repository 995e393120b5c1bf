"""make audit: what has not been looked up is not taken for safe."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("said", [None, "", "{}", "<html>"])
def test_without_a_database_nothing_is_audited_and_one_sentence_says_so(tmp_path, said):
    answer = tmp_path / "pip.json"
    if said is not None:
        answer.write_text(said)
    place = answer.as_uri()
    words = ("audit", f"BIN={Path(sys.executable).parent}", f"VULNERABILITIES={place}")
    done = subprocess.run(
        ["make", "--no-print-directory", "--old-file", ".venv/pytorch.stamp", *words],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    first, *_ = done.stderr.splitlines()
    assert first.startswith(f"error: {place} tells no vulnerabilities here, so nothing was audited")
    assert "Traceback" not in done.stderr
