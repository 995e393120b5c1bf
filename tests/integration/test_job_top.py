"""``trireme job top`` on this machine, with real replicas."""

import contextlib
import os
import pty
import subprocess

import pytest

pytestmark = pytest.mark.slow

BUSY = """
import multiprocessing, os, time
pages = bytearray(100 << 20)
def work():
    print("started", flush=True)
    while True:
        pass
if __name__ == "__main__":
    multiprocessing.Process(target=work, daemon=True).start()
    time.sleep(600)
"""


@pytest.fixture
def job(trireme, eventually):
    """A job of two replicas that runs, each with a busy child."""
    (trireme.home / "train.py").write_text(BUSY)
    (trireme.home / "job.yaml").write_text(
        "entrypoint: train.py\nworkers: 1\nreplicas: {master: {cpu: 3, gpu: 2}}\n"
        "image: example.org/train\n"
    )
    job = trireme.start("job", "submit", "job.yaml", "--local", "--name", "busy")
    logs = trireme.home / "jobs" / "busy" / "logs"
    for name in ("master-0", "worker-0"):
        log = logs / f"{name}.log"
        assert eventually(lambda log=log: log.exists() and log.read_text())
    yield job
    job.terminate()
    job.communicate()


def test_each_replica_has_what_it_uses_and_has_asked_for(trireme, job):
    head, first, second = trireme.run("job", "top", "busy", "--local").stdout.splitlines()
    words = "REPLICA STATE CPU REQUEST LIMIT MEMORY REQUEST LIMIT GPUS"
    assert head.split()[:9] == words.split() and head.split()[-1] == "PID"
    wanted = ((first, "master-0", "3 3", "2"), (second, "worker-0", "0.25 2", "0"))
    for row, name, cpu, gpus in wanted:
        cells = row.split()
        assert cells[:2] == [name, "running"]
        assert 0 < float(cells[2]) < 3
        assert " ".join(cells[3:5]) == cpu and cells[6:8] == ["1Gi", "4Gi"]
        assert 0.05 < float(cells[5].removesuffix("Gi")) < 1
        assert cells[8] == gpus and int(cells[-1]) > 1


def test_at_a_terminal_it_goes_on_until_the_job_ends(trireme, job):
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        [job.args[0], "job", "top", "busy", "--local"],
        env=trireme.environment | {"TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    seen = b""
    while seen.count(b"master-0  running") < 2:
        seen += os.read(ours, 4096)
    assert trireme.run("job", "cancel", "busy", "--local").returncode == 0
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while os.read(ours, 4096):
            pass
    assert watching.communicate()[1] == "job 'busy' does not run: cancelled\n"
    assert watching.returncode == 0
    os.close(ours)


@pytest.mark.parametrize("name", ["other", "busy"])
def test_a_job_that_does_not_run_is_refused_in_a_sentence(trireme, request, name):
    if name == "busy":
        job = request.getfixturevalue("job")
        assert trireme.run("job", "cancel", "busy", "--local").returncode == 0
        job.wait(30)
    refused = trireme.run("job", "top", name, "--local")
    said = {"other": "there is no such job", "busy": "job 'busy' does not run: cancelled"}[name]
    assert refused.returncode == 2 and refused.stdout == ""
    assert said in refused.stderr and refused.stderr.count("\n") == 1
