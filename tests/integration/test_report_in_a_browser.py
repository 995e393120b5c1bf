"""The report on a model and that of a run as people see them: opened in Chromium."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from trireme.comparing.comparison import RecordedRun
from trireme.comparing.comparison import compare as compared
from trireme.evaluation import report
from trireme.evaluation.classification import Classification
from trireme.evaluation.gate import BETTER, Judged, Verdict, compare
from trireme.observers.timeline import Attempt, Life, spans
from trireme.report import page as run_page
from trireme.report.picture import Curve, Picture, StepPicture, commands
from trireme.tracking import journal

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SAMPLES = 300

# Tells the page around how wide the page is and how wide the window; that has it in its title.
WIDTH = (
    "<script>parent.postMessage(document.documentElement.scrollWidth + ' of ' + innerWidth, '*')"
    "</script>"
)
AROUND = (
    "<script>onmessage = told => {{ document.title = told.data }}</script><title></title>"
    '<iframe src="measured.html" style="border: 0; width: {}px"></iframe>'
)

# Says in the title how many bars there are, how many stick out of their lanes, how many nobody can
# see, and which colour is behind them.
DRAWN = """<script>
const bars = [...document.querySelectorAll(".lane > .bar")];
const place = each => each.getBoundingClientRect();
const outside = bars.filter(bar => place(bar).left < place(bar.parentElement).left - 1
    || place(bar).right > place(bar.parentElement).right + 6);
const unseen = bars.filter(bar => place(bar).width < 2 || place(bar).height < 1);
document.body.style.background = "canvas";
const background = getComputedStyle(document.body).backgroundColor;
document.title = [bars.length, outside.length, unseen.length, background].join("|");
</script>"""

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


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A picture of a run with everything that one can have, and many replicas."""
    lives = {}
    for number in range(64):
        attempts = [Attempt(30 + number / 8, 60 + number, "was ended by SIGKILL")]
        attempts.append(Attempt(attempts[0].ended + 9, 200))
        found = spans(5, attempts, placed=20, goes_on=False)
        lives[f"worker-{number}"] = Life(found, 0, 70.0, 1e9)
    about = {"world_size": 64, "entrypoint": "a/long/way/to/" + "train" * 20 + ".py"}
    waves = {
        f"metric/{number}": Curve(list(range(500)), list(np.sin(np.arange(500) / (9 + number))))
        for number in range(9)
    }
    picture = Picture("flowers-" + "x" * 80, 300.0, "FAILED", 1.0, 220.0)
    picture.tags = {"git.url": "https://example.org/x.git", "git.commit": "0123456789" * 4}
    picture.tags |= {"currency": "EUR", "dataset.uri": "s3://bucket/" + "folder/" * 20}
    picture.metrics = {"cost": 12.5}
    picture.params = {"args": json.dumps(["--" + "option" * 30]), "seed": "0"}
    picture.defaults = {"args": "[]", "seed": "0"}
    picture.links = {"MLflow": "https://example.org/#/experiments/1/runs/2"}
    picture.commands = commands(picture.name, "FAILED", picture.tags)
    used = {"cpu_seconds": 9.0, "peak_memory_bytes": 1e9, "cost": 12.5}
    lines = "\n".join(f"[worker-3] {'word ' * 40}{number}" for number in range(40))
    trained = StepPicture("train", "FAILED", 4.0, 210.0, error="replica worker-3 failed " * 9)
    trained.last_lines, trained.params, trained.metrics = lines, about, used
    trained.curves, trained.replicas = waves, lives
    picture.add([StepPicture("checkout", "FINISHED", 1.0, 4.0, "main " * 30), trained])
    picture.close()
    file = tmp_path_factory.mktemp("run") / "run.html"
    file.write_text(run_page.render(picture))
    return file


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """A comparison of as many runs as there can be, with long names and values."""
    runs = [
        RecordedRun(
            str(number),
            f"2026-{number}-" + "flowers" * 9,
            "FINISHED",
            origin={"dataset": "s3://bucket/" + "folder/" * 20 + str(number)},
            parameters={"args.lr": f"0.{number}", "args.note": "word" * 9 + str(number)},
            metrics={"held_out_accuracy": number / 12, "loss": 1 / (number + 1)},
            curves={f"m{n}": Curve([0, 1, 2], [number, n, 0.0]) for n in range(9)},
        )
        for number in range(12)
    ]
    file = tmp_path_factory.mktemp("comparison") / "comparison.html"
    file.write_text(compared(runs).html)
    return file


@pytest.fixture(params=["model", "run", "comparison"])
def either(request, page, run, comparison):
    """Each of the pages, words that are in it, and on how many sheets it is printed at most."""
    of = {"model": (page, "model.onnx", 3), "run": (run, "worker-63", 6)}
    return (of | {"comparison": (comparison, "12 runs compared", 6)})[request.param]


def opened(page, directory, *options):
    """Opens a page; returns what the browser prints, and what the page's console says."""
    command = [CHROMIUM, "--headless", "--disable-gpu", "--no-sandbox", "--enable-logging=stderr"]
    command += [f"--user-data-dir={directory}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def test_it_may_ask_no_network_and_does_not_try_to(either, tmp_path):
    page, words, _ = either
    text, said = opened(page, tmp_path, "--dump-dom")
    assert words in text
    assert said == []
    # What the policy in the page forbids, the browser says in the console.
    other = tmp_path / "other.html"
    image = '<img src="http://127.0.0.1:9/x.png"></body>'
    other.write_text(page.read_text().replace("</body>", image))
    _, said = opened(other, tmp_path, "--dump-dom")
    assert any("Content Security Policy" in line for line in said)


@pytest.mark.parametrize("width", [390, 800, 1200])
def test_no_window_is_too_narrow(either, tmp_path, width):
    # Chromium has no window of less than 500 pixels, so the page is in a frame that is.
    measured, around = tmp_path / "measured.html", tmp_path / "around.html"
    text = either[0].read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    measured.write_text(text.replace("</body>", f"{WIDTH}</body>"))
    around.write_text(AROUND.format(width))
    text, _ = opened(around, tmp_path, "--dump-dom", "--window-size=1300,900")
    page_width, window = map(int, re.search(r"<title>(\d+) of (\d+)</title>", text).groups())
    assert page_width <= window <= width


def test_it_prints_on_few_pages(either, tmp_path):
    page, _, most = either
    file = tmp_path / "report.pdf"
    opened(page, tmp_path, f"--print-to-pdf={file}")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", file.read_bytes())) <= most


@pytest.mark.parametrize("is_dark", [False, True])
def test_a_run_is_drawn_in_the_colours_of_the_window(run, tmp_path, is_dark):
    # Each lane of a replica is as wide as the time line, and its bars are in it, in sight.
    measured = tmp_path / "measured.html"
    text = run.read_text().replace("default-src 'none'", "default-src 'unsafe-inline'")
    measured.write_text(text.replace("</body>", f"{DRAWN}</body>"))
    scheme = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
    text, _ = opened(measured, tmp_path, "--dump-dom", "--window-size=1000,900", scheme)
    bars, outside, unseen, background = re.search(r"<title>(.*)</title>", text)[1].split("|")
    assert (int(bars), outside, unseen) == (64 * 5 + 2, "0", "0")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 3 * 128) == is_dark
