"""Event files of programs: in TensorBoard while they train, among MLflow's artifacts afterwards."""

import json
import os
import signal
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# It writes event files where Keras' examples do, and where transformers does.
WRITES = """
import os, sys, time
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

folders = ("logs/mine", os.environ["TENSORBOARD_LOGGING_DIR"])
writers = [EventFileWriter(folder) for folder in folders]
for step in range(int(sys.argv[1])):
    for writer in writers:
        value = summary_pb2.Summary.Value(tag="loss", simple_value=1 / (1 + step))
        summary = summary_pb2.Summary(value=[value])
        writer.add_event(event_pb2.Event(step=step, wall_time=time.time(), summary=summary))
        writer.flush()
    print("step", step, flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def page(trireme, monkeypatch):
    """Opens TensorBoard and returns what asks it; afterwards nothing of it is left."""
    pytest.importorskip("tensorboard")
    temporary = trireme.home / "tmp"
    temporary.mkdir()
    opened = []

    def open_page(*arguments):
        process = trireme.start(*arguments, TMPDIR=str(temporary))
        opened.append(process)
        line = process.stdout.readline()
        assert line.endswith("; Ctrl-C stops it\n"), process.communicate()
        url = line.split()[0]
        assert url.startswith("http://127.0.0.1:")

        def ask(path):
            with urllib.request.urlopen(url + path, timeout=60) as answer:
                return json.load(answer)

        return ask

    yield open_page
    for process in opened:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        process.communicate()
    assert not any(temporary.iterdir())


@pytest.fixture
def program(trireme):
    (trireme.home / "train.py").write_text(WRITES)


def test_a_job_is_shown_while_it_trains_and_afterwards(trireme, program, page, eventually):
    words = ["--local", "--name", "long", "--entrypoint", "train.py", "--args", "3000 0.2"]
    job = trireme.start("job", "submit", *words)
    old = trireme.home / "logs" / "mine" / "events.out.tfevents.1600000000.me.1.0"
    old.parent.mkdir(parents=True)
    old.write_text("of another time")
    log = trireme.home / "jobs" / "long" / "logs" / "master-0.log"
    assert eventually(lambda: log.exists() and "step 1" in log.read_text())
    ask = page("job", "tensorboard", "long", "--local")
    assert eventually(lambda: set(ask("data/runs")) == {".", "logs/mine"})

    def steps():
        return len(ask("data/plugin/scalars/scalars?run=logs%2Fmine&tag=loss"))

    assert eventually(lambda: "loss" in ask("data/plugin/scalars/tags").get("logs/mine", {}))
    before = steps()
    assert eventually(lambda: steps() > before)
    assert trireme.run("job", "cancel", "long", "--local").returncode == 0
    job.communicate()
    again = page("job", "tensorboard", "long", "--local")
    assert eventually(lambda: set(again("data/runs")) == {".", "logs/mine"}), again("data/runs")


def test_a_run_keeps_them_among_its_artifacts(trireme, repository, tmp_path, page, eventually):
    writes = WRITES.replace("int(sys.argv[1])", "3").replace("float(sys.argv[2])", "0")
    code = repository(train=f"{writes}\nraise SystemExit('enough')\n")
    data = tmp_path / "rows"
    data.mkdir()
    (data / "rows.csv").write_text("1,2\n")
    words = [f"code_url={code}", "entrypoint=train.py", f"dataset_uri={data}", "workers=0"]
    failed = trireme.run("run", "pytorch-training", *(f"-p{word}" for word in words))
    assert failed.returncode == 1 and "enough" in failed.stderr, failed.stderr
    [whole] = trireme.parents()
    run_id = trireme.nested(whole)["train"].info.run_id
    kept = trireme.client.list_artifacts(run_id, "tensorboard")
    assert sorted(Path(file.path).name.split(".")[0] for file in kept) == ["events", "logs"]
    [file] = trireme.client.list_artifacts(run_id, "tensorboard/logs/mine")
    assert Path(file.path).name.startswith("events.out.tfevents.") and file.file_size > 100
    ask = page("tensorboard", whole.info.run_name)
    assert eventually(lambda: set(ask("data/runs")) == {".", "logs/mine"})


def test_what_cannot_be_shown_is_said_in_a_sentence(trireme, tmp_path):
    fake = tmp_path / "modules" / "tensorboard"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("")
    (fake / "main.py").write_text("raise SystemExit('no such luck')")
    paths = [str(fake.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    there = {"PYTHONPATH": os.pathsep.join(paths)}
    missing = trireme.run("tensorboard", "none", **there)
    assert missing.returncode == 2 and "there is no run 'none'" in missing.stderr
    (trireme.home / "train.py").write_text("import time\nprint(1)\n")
    words = ["--local", "--name", "quiet", "--entrypoint", "train.py"]
    assert trireme.run("job", "submit", *words).returncode == 0
    silent = trireme.run("job", "tensorboard", "quiet", "--local", **there)
    assert silent.returncode == 2 and silent.stderr.count("\n") == 1
    assert silent.stderr.startswith("error: job quiet has left no event files (events.out.tfe")
    events = trireme.home / "jobs" / "quiet" / "model" / "events.out.tfevents.9999999999.me.1.0"
    events.write_text("")
    broken = trireme.run("job", "tensorboard", "quiet", "--local", **there)
    assert broken.returncode == 1
    assert broken.stderr == "no such luck\nerror: TensorBoard exited with status 1\n"
