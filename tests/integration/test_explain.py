"""``trireme explain``: runs and jobs that fail in many ways, and what is said of each."""

import json
import os
import signal
import time
import zipfile

import jsonschema
import pytest

from trireme.answers.schema import schema

pytestmark = pytest.mark.slow

RAISES = """
print("epoch 1/3 loss 0.5", flush=True)
def load():
    raise ValueError("label 12 is outside of 0..9")
load()
"""
WAYS = {
    "raises": (RAISES, "exception", "program"),
    "status": ("raise SystemExit(3)", "exit-status", "program"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "killed", "unknown"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "crash", "program"),
    "memory": ("raise MemoryError", "out-of-memory", "limits"),
    "gpu": ("raise RuntimeError('CUDA error: uncorrectable ECC error')", "gpu-fault", "machine"),
    "peer": ("raise RuntimeError('Connection closed by peer')", "peer-lost", "machine"),
}
FOREVER = "import time\nprint('started', flush=True)\ntime.sleep(600)\n"


def explained(done):
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, schema())
    return told


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_fails_is_explained(trireme, way):
    program, kind, lies_with = WAYS[way]
    (trireme.home / "train.py").write_text(program)
    words = ("job", "submit", "--local", "--name", way, "--entrypoint", "train.py")
    assert trireme.run(*words).returncode == 1
    told = explained(trireme.run("explain", way, "-o", "json"))
    assert told == explained(trireme.run("job", "explain", way, "--local", "-o", "json"))
    assert (told["cause"]["kind"], told["cause"]["lies_with"]) == (kind, lies_with)
    assert told["cause"]["replica"] == "master-0"
    assert told["tried"][0]["what"] == "master-0" and told["tried"][0]["result"]
    assert told["next"][-1]["command"] == f"trireme job logs {way} --local --replica master-0"


def test_of_many_replicas_the_one_that_failed_first_is_to_blame(trireme):
    (trireme.home / "train.py").write_text(
        "import os, time\n"
        "if os.environ['RANK'] == '2':\n"
        "    raise ValueError('of rank 2')\n"
        "time.sleep(2)\n"
        "raise RuntimeError('Connection closed by peer')\n"
    )
    words = ("--name", "many", "--workers", "2", "--entrypoint", "train.py")
    assert trireme.run("job", "submit", "--local", *words).returncode == 1
    cause = explained(trireme.run("explain", "many", "-o", "json"))["cause"]
    assert (cause["replica"], cause["exception"]) == ("worker-1", "ValueError: of rank 2")
    assert cause["place"] == "train.py:3"


def test_a_job_that_ran_too_long_was_cancelled_or_lost_is_explained(trireme):
    (trireme.home / "train.py").write_text(FOREVER)
    (trireme.home / "job.yaml").write_text("entrypoint: train.py\ntime_limit: 2\n")
    limited = ("job", "submit", "job.yaml", "--local", "--name", "limited")
    assert trireme.run(*limited).returncode == 1
    assert explained(trireme.run("explain", "limited", "-o", "json"))["cause"]["kind"] == (
        "time-limit"
    )
    job = trireme.start("job", "submit", "--local", "--name", "gone", "--entrypoint", "train.py")
    log = trireme.home / "jobs" / "gone" / "logs" / "master-0.log"
    while not (log.exists() and log.read_text()):
        time.sleep(0.1)
    now = explained(trireme.run("explain", "gone", "-o", "json"))
    assert (now["state"], now["has_ended"], now["cause"]) == ("running", False, None)
    os.kill(job.pid, signal.SIGKILL)
    job.communicate()
    assert trireme.wait_for_no_processes() == []
    lost = explained(trireme.run("explain", "gone", "-o", "json"))
    assert (lost["state"], lost["cause"]["kind"]) == ("lost", "machine-down")


def test_a_run_that_failed_is_explained_on_a_page_in_json_and_in_a_bundle(trireme):
    (trireme.home / "train.py").write_text(RAISES)
    given = ("--env", "DB_PASSWORD=hunter-22")
    assert trireme.run("run", "train.py", *given).returncode == 1
    file = trireme.home / "run.zip"
    done = trireme.run("explain", "--bundle", str(file))
    assert done.returncode == 0, done.stderr
    for words in ("FAILED at train", "lies with: program", "train.py:4", "Last lines", "Tried"):
        assert words in done.stdout
    told = explained(trireme.run("explain", "-o", "json"))
    assert (told["of"], told["cause"]["step"]) == ("run", "train")
    assert told["summary"] == done.stdout.splitlines()[0]
    with zipfile.ZipFile(file) as opened:
        assert {"explanation.txt", "logs/train.log", "train/job.yaml"} <= {*opened.namelist()}
        assert not any(b"hunter-22" in opened.read(name) for name in opened.namelist())
    assert trireme.run("resume", "latest").returncode == 1
    told = explained(trireme.run("explain", "-o", "json"))
    assert [each["what"] for each in told["tried"][:2]] == ["run", "run"]


def test_neither_run_nor_job_is_said(trireme):
    done = trireme.run("explain", "nobody")
    assert done.returncode == 2
    assert "there is no run 'nobody'" in done.stderr
    assert f"; and job 'nobody': there is no such job in {trireme.home}" in done.stderr
