"""trireme/plugins.py: what another package adds by entry points, each kind of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trireme

ROOT = Path(trireme.__file__).parents[1]

PACKAGE = '''
from kfp import dsl

from trireme.data.listing import Entry
from trireme.images import BASE
from trireme.observers.base import Observer
from trireme.targets.base import Run, Step, Target
from trireme.targets.registry import Option, TargetEntry


class Counting(Observer):
    """Counts lines, and has the count recorded."""

    def __init__(self, job):
        self.name, self.count = job.name, 0

    def lines(self, replica, text):
        self.count += 1 + text.count("\\n")

    def end(self, failure):
        self.record(metrics={"lines": self.count}, words=[f"{self.count} lines of {self.name}"])


class Memory:
    """Files that are held in memory."""

    readers = 1

    def __init__(self, dataset):
        self.name = dataset.place.path

    def list(self):
        return [Entry(self.name, 5, "1")]

    def read(self, entry, start, length):
        yield b"hello"[start : start + length]


class Elsewhere(Target):
    """A place that knows one run."""

    name, title = "elsewhere", "another place"

    def __init__(self, room):
        self.room = room

    def latest(self):
        return [Run(f"a-run-in-{self.room}", "FINISHED", 0.0, 1.0)]


ELSEWHERE = TargetEntry("acme:Elsewhere", "elsewhere", (Option("room", "Which room."),))


def hello(name: str = "you"):
    """Says hello."""
    print(f"hello {name}")


@dsl.component(base_image=BASE)
def greet() -> str:
    return "hello"


@dsl.pipeline(name="greeting")
def greeting():
    greet()
'''

FRAMEWORK = """
from trireme.frameworks.pytorch import PyTorch


class Lightning(PyTorch):
    name, connects_by = "acme-torch", "as PyTorch"


LIGHTNING = Lightning()
"""

ENTRY_POINTS = """
[trireme.observers]
counting = acme:Counting
broken = acme:nothing

[trireme.data_sources]
memory = acme:Memory

[trireme.targets]
elsewhere = acme:ELSEWHERE
no-target = acme:hello

[trireme.frameworks]
acme-torch = acme_framework:LIGHTNING

[trireme.commands]
hello = acme:hello
gone = acme.gone:command

[trireme.pipelines]
greeting = acme:greeting
"""


@pytest.fixture(scope="module")
def trireme_with_acme(tmp_path_factory):
    """Runs a command, or a program, beside an installed package that adds one of each kind."""
    home = tmp_path_factory.mktemp("home")
    site = tmp_path_factory.mktemp("site")
    (site / "acme.py").write_text(PACKAGE)
    (site / "acme_framework.py").write_text(FRAMEWORK)
    info = site / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info / "RECORD").write_text("")

    def run(*words, status=0):
        own = {"HOME": str(home), "TRIREME_HOME": str(home / "trireme")}
        done = subprocess.run(
            [sys.executable, "-m", "trireme", *words],
            env=os.environ | own | {"PYTHONPATH": f"{site}:{ROOT}"},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == status, done.stderr
        return done.stdout, done.stderr

    return run


def test_a_command(trireme_with_acme):
    assert trireme_with_acme("hello", "--name", "all")[0] == "hello all\n"
    assert "  hello        From acme.\n" in trireme_with_acme("--help")[0]


def test_a_target_with_its_options(trireme_with_acme):
    said, warned = trireme_with_acme("list", "--target", "elsewhere", "--room", "two")
    assert "a-run-in-two" in said
    assert "warning: acme:hello, an entry point of trireme.targets, is no TargetEntry" in warned
    _, refused = trireme_with_acme("status", "x", "--target", "elsewhere", status=2)
    assert refused.endswith("error: --target elsewhere: another place does not find runs\n")


def test_a_pipeline(trireme_with_acme):
    assert "greeting" in trireme_with_acme("pipelines")[0]
    assert "greet" in trireme_with_acme("plan", "greeting")[0]


def test_a_framework_a_data_source_and_an_observer(trireme_with_acme, tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, pathlib\nprint(pathlib.Path(os.environ['DATA_DIR'], 'a.txt').read_text())\n"
    )
    (tmp_path / "job.yaml").write_text(
        "name: digits\nframework: acme-torch\nentrypoint: train.py\n"
        f"code_dir: '{tmp_path}'\ndataset: {{uri: 'memory://shelf/a.txt'}}\n"
    )
    said, told = trireme_with_acme("job", "submit", str(tmp_path / "job.yaml"), "--local")
    assert "[master-0] hello" in said
    assert "1 lines of digits" in told
    assert (
        "warning: observer broken is left out: broken, an entry point of acme, cannot be " in told
    )
