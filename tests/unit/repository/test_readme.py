"""README.md: it is short, leads to the pages, and its script does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trireme.models.load import load_model
from trireme.observers.printed.reader import Reader

README = Path(__file__).parents[3] / "README.md"


def test_it_is_read_in_five_minutes():
    assert len(README.read_text().split()) <= 900


def test_it_leads_to_the_start_and_to_each_folder_of_pages():
    docs = README.parent / "docs"
    starts = {str(page.relative_to(docs.parent)) for page in docs.rglob("index.md")}
    assert len(starts) == 6
    assert starts <= set(re.findall(r"\]\((docs/[\w./-]+)\)", README.read_text()))


@pytest.mark.slow
def test_its_script_trains_a_model_that_is_evaluated(tmp_path):
    (script,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "flowers").mkdir()
    x = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    y = x[:, :3].argmax(1)
    np.savez(tmp_path / "flowers" / "train.npz", x=x[:200], y=y[:200])
    model = tmp_path / "model"
    model.mkdir()
    done = subprocess.run(
        [sys.executable, "train.py", "--lr", "0.01"],
        cwd=tmp_path,
        env=os.environ | {"MODEL_DIR": str(model)},
        capture_output=True,
        text=True,
        check=True,
    )
    reader = Reader()
    read = [reader.read(line) for line in done.stdout.splitlines()]
    assert [each.metrics.keys() for each in read if each] == [{"loss"}] * 500
    trained = load_model(model, tmp_path, "train.py")
    assert (trained.predict(x[200:]).argmax(1) == y[200:]).mean() >= 0.9
