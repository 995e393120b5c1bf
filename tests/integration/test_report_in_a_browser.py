"""The report as people see it: opened in Chromium."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from trireme.components.evaluation import report
from trireme.components.evaluation.classification import Classification
from trireme.components.evaluation.gate import BETTER, Judged, Verdict, compare
from trireme.components.tracking import journal

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SAMPLES = 300

# Says in the title how wide the page is and how wide the window.
WIDTH = (
    "<script>document.title = document.documentElement.scrollWidth + ' of ' + innerWidth</script>"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with everything that one can have."""
    workspace = tmp_path_factory.mktemp("workspace")
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, SAMPLES)
    np.savez(workspace / "test.npz", x=random.random((SAMPLES, 1, 8, 8)), y=labels)
    measure = Classification([f"class {number}" for number in range(10)])
    measure.add(random.normal(size=(SAMPLES, 10)) + 3 * np.eye(10)[labels], labels)
    found = measure.evaluation()
    champion = random.integers(0, 2, SAMPLES).astype(float)
    comparison = compare(found, "3", champion, 0, BETTER)
    with journal.opened(workspace, "checkout"):
        journal.log_tags({"git.commit": "0123456789" * 4, "git.url": "https://example.org/x.git"})
    with journal.opened(workspace, "train"):
        journal.log_params({"worker_replicas": 4, "world_size": 4})
    lines = [f"epoch {n}/9 loss {1 / n} accuracy {1 - 1 / n} samples/s 10" for n in range(1, 10)]
    (workspace / "steps" / "train" / "worker-0.log").write_text("\n".join(lines))
    file = workspace / "report.html"
    verdict = Verdict(True, found.first[1], "good enough", True, "3", "better")
    report.write(file, Judged(verdict, found, comparison), workspace, workspace)
    files = [report.ExportedFile(name, 12345, 1e-6) for name in ("model.pt2", "model.onnx")]
    report.add_exported(file, files, 64, "champion of digits")
    return file


def opened(page, directory, *options):
    """Opens a page; returns what the browser prints, and what the page's console says."""
    command = [CHROMIUM, "--headless", "--disable-gpu", "--no-sandbox", "--enable-logging=stderr"]
    command += [f"--user-data-dir={directory}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def test_it_may_ask_no_network_and_does_not_try_to(page, tmp_path):
    text, said = opened(page, tmp_path, "--dump-dom")
    assert "Confusion matrix" in text and "model.onnx" in text
    assert said == []
    # What the policy in the page forbids, the browser says in the console.
    other = tmp_path / "other.html"
    image = '<img src="http://127.0.0.1:9/x.png"></body>'
    other.write_text(page.read_text().replace("</body>", image))
    _, said = opened(other, tmp_path, "--dump-dom")
    assert any("Content Security Policy" in line for line in said)


@pytest.mark.parametrize("width", [500, 800, 1200])
def test_no_window_is_too_narrow(page, tmp_path, width):
    measured = tmp_path / "measured.html"
    text = page.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    measured.write_text(text.replace("</body>", f"{WIDTH}</body>"))
    text, _ = opened(measured, tmp_path, "--dump-dom", f"--window-size={width},900")
    page_width, window = map(int, re.search(r"<title>(\d+) of (\d+)</title>", text).groups())
    assert page_width <= window <= width


def test_it_prints_on_few_pages(page, tmp_path):
    file = tmp_path / "report.pdf"
    opened(page, tmp_path, f"--print-to-pdf={file}")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", file.read_bytes())) <= 3
