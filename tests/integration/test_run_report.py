"""The picture of real runs: one that succeeds after a restart, one under way, one that failed."""

import json
import re
import shutil
import time

import pytest

from trireme.observers import timeline

pytestmark = pytest.mark.slow

PIPELINE = """
from kfp import dsl
from trireme import WORKSPACE, checkout, dataset, finishing, train


@dsl.pipeline(name="small", pipeline_config=WORKSPACE)
def small(code_url: str, job: dict):
    with finishing("small"):
        code, data = checkout(code_url), dataset("builtin://digits")
        train(code, data, entrypoint="train.py", workers=2, job=job)
"""

PROGRAM = """
import os, sys, time
from pathlib import Path

rank, mode = os.environ["RANK"], os.environ["MODE"]
begun = Path(os.environ["CHECKPOINT_DIR"], f"begun-{rank}")
is_first = not begun.exists()
begun.touch()
if rank == "0" and is_first:
    import mlflow
    for step in range(5):
        mlflow.log_metric("train_loss", 1 / (1 + step), step=step)
if rank == "2" and mode == "restart" and is_first:
    sys.exit(3)
if rank == "2" and mode == "fail":
    sys.exit("<b>the labels are one too many</b>")
if mode == "wait":
    print("waiting", flush=True)
    time.sleep(600)
if rank == "0" and mode == "restart":
    while not Path(os.environ["CHECKPOINT_DIR"], "again").exists():
        time.sleep(0.1)
if rank == "2":
    Path(os.environ["CHECKPOINT_DIR"], "again").touch()
if rank == "0":
    Path(os.environ["MODEL_DIR"], "model.txt").write_text("a model")
"""


@pytest.fixture
def started(trireme, repository):
    """Returns the words that run the pipeline."""
    (trireme.home / "small.py").write_text(PIPELINE)
    code = repository(train=PROGRAM)

    def words(mode, retries=0):
        job = json.dumps({"env": {"MODE": mode}, "retries": retries})
        return ["run", "./small.py", "-p", f"code_url={code}", "-p", f"job={job}"]

    return words


def page_of(trireme, name):
    done = trireme.call("report", name)
    assert (done.returncode, done.stdout) == (0, f"{name}.html\n"), done.stderr
    return (trireme.home / f"{name}.html").read_text()


def titles(page, kind):
    """What the bars of a kind say, each with its replica or step."""
    return re.findall(rf'class="bar {kind}[^"]*" style="[^"]*" title="([^"]*)"', page)


def test_a_restart_is_in_the_picture_also_where_only_mlflow_is_left(trireme, started):
    done = trireme.call(*started("restart", retries=2))
    assert done.returncode == 0, done.stderr
    run = trireme.run_directory()
    here = page_of(trireme, run.name)
    (again,) = titles(here, "restarting")
    assert again.startswith("worker-1: waiting to be started again")
    assert len(titles(here, "running")) == 4
    assert "<b>train_loss</b><span>0.2</span>" in here
    assert ">2 worker</th>" in here and "not measured" not in here
    assert "What failed" not in here and "Finished" in here
    for step in ("checkout", "dataset", "train", "finish"):
        assert f'<th scope="row">{step}</th><td class="text">FINISHED</td>' in here

    (parent,) = trireme.parents()
    assert parent.data.tags["mlflow.note.content"].startswith("**FINISHED** · [The run](#/exper")
    kept = run / "workspace" / "run.html"
    assert "<dt>Program</dt><dd>train.py</dd>" in kept.read_text()
    assert "<dt>code_url</dt>" in here and "trireme reproduce" not in here  # it has to be named

    shutil.rmtree(run)
    for name in (run.name, parent.info.run_id):
        assert trireme.call("report", name, "-o", "recorded.html").returncode == 0
        recorded = (trireme.home / "recorded.html").read_text()
        assert titles(recorded, "restarting") == [again]
        assert titles(recorded, "running") == titles(here, "running")
        assert recorded.count("<figure>") == here.count("<figure>") > 0


def test_the_failing_replicas_words_are_in_the_picture(trireme, started):
    assert trireme.call(*started("fail")).returncode == 1
    run = trireme.run_directory()
    here = page_of(trireme, run.name)
    assert f"trireme resume {run.name}</code>" in here
    assert f"trireme resume {run.name}</code>" in (run / "workspace" / "run.html").read_text()
    shutil.rmtree(run)
    recorded = page_of(trireme, run.name)
    for page in (here, recorded):
        assert "What failed: train" in page and "Failed at train" in page
        assert "replica worker-1 exited with status 1" in page
        assert "[worker-1] &lt;b&gt;the labels are one too many&lt;/b&gt;" in page
        assert len(titles(page, "running ended-badly")) == 1


def test_a_run_under_way_has_a_picture(trireme, started):
    process = trireme.start(*started("wait"))
    try:
        deadline = time.monotonic() + 120
        while not list(trireme.home.glob(f"runs/*/workspace/steps/train/{timeline.NAME}")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        name = trireme.run_directory().name
        page = page_of(trireme, name)
    finally:
        process.terminate()
        process.communicate()
    assert "Runs for" in page and "As it was at" in page
    assert '<th scope="row">train</th><td class="text">running</td>' in page
    assert len(titles(page, "running")) + len(titles(page, "starting")) >= 3
    assert "Killed" in page_of(trireme, name)
