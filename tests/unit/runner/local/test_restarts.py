"""Replicas that are started again, as real processes."""

import pytest

from trireme.errors import JobFailed
from trireme.frameworks.kinds import RETRIES
from trireme.observers import timeline
from trireme.observers.base import Observers
from trireme.observers.timeline import Timeline
from trireme.runner.local import replica, runner

COUNTED = """
import os, pathlib, sys, time
name = {"0": "master"}.get(os.environ["RANK"], "worker")
out = pathlib.Path(os.environ["OUT"])
count = len(list(out.glob(f"{name}.*")))
(out / f"{name}.{count}").touch()

def wait_for(file):
    while not (out / file).exists():
        time.sleep(0.01)

"""
"""Starts programs: ``count`` is how often this replica was started before."""


@pytest.fixture
def starts(tmp_path):
    """Counts how often a replica was started."""
    return lambda name: len(list(tmp_path.glob(f"{name}.*")))


def test_a_replica_that_fails_is_started_again_while_the_others_go_on(
    manifest, logs, impatient, starts
):
    program = COUNTED + (
        "if name == 'worker' and count < 2: sys.exit(1)\n"
        "if name == 'worker': (out / 'joined').touch()\n"
        "wait_for('joined')\n"
    )
    seconds = runner.run(manifest(program, restart="OnFailure"), logs)
    assert set(seconds) == {"master-0", "worker-0"}
    assert (starts("master"), starts("worker")) == (1, 3)


def test_what_a_signal_ended_is_started_again_by_exit_code(manifest, logs, impatient, starts):
    program = COUNTED + "if count == 0: os.kill(os.getpid(), 9)\n"
    runner.run(manifest(program, workers=0, restart="ExitCode"), logs)
    assert starts("master") == 2


def test_a_permanent_exit_code_fails_the_job_at_once(manifest, logs, impatient, starts):
    program = COUNTED + "if name == 'worker': sys.exit(127)\ntime.sleep(600)\n"
    with pytest.raises(JobFailed, match=r"^replica worker-0 could not be started$"):
        runner.run(manifest(program, restart="ExitCode"), logs)
    assert (starts("master"), starts("worker")) == (1, 1)


def test_always_means_also_after_success(manifest, logs, impatient, starts):
    program = COUNTED + "if name == 'master': wait_for('worker.3')\n"
    job = manifest(program)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Always"
    runner.run(job, logs)
    assert starts("worker") >= 4


def test_the_job_fails_when_the_restarts_reach_the_limit(manifest, logs, impatient, starts):
    program = COUNTED + "if name == 'worker': sys.exit(f'broken {count}')\ntime.sleep(600)\n"
    job = manifest(program, restart="OnFailure", policy={"backoffLimit": 3})
    sentence = "^replica worker-0 exited with status 1: the job has reached its backoffLimit"
    with pytest.raises(JobFailed, match=sentence) as caught:
        runner.run(job, logs)
    assert starts("worker") == 3
    assert caught.value.detail == "[worker-0] broken 2"


TOGETHER = COUNTED.replace('"worker")', '"worker" + os.environ["RANK"])') + (
    "if name == 'worker1':\n"
    "    for rank in (2, 3): wait_for(f'worker{rank}.{count}')\n"
    "    wait_for(f'master.{count}')\n"
    "    (out / f'gone{count}').touch()\n"
    "    sys.exit('the cause')\n"
    "wait_for(f'gone{count}')\n"
    "sys.exit('Connection reset by peer')\n"
)
"""Of four replicas the others fail as soon as one has."""


def test_replicas_that_die_of_one_use_one_retry(manifest, logs, impatient, starts):
    job = manifest(TOGETHER, workers=3, restart="OnFailure", policy={"backoffLimit": 1})
    job["metadata"]["annotations"] = {RETRIES: "2"}
    with pytest.raises(
        JobFailed, match=r"^replica \S+ exited with status 1, after 2 retries$"
    ) as by:
        runner.run(job, logs)
    assert "worker-0" in str(by.value) and by.value.detail == "[worker-0] the cause"
    assert [starts(name) for name in ("master", "worker1", "worker2", "worker3")] == [3, 3, 3, 3]


def test_a_replica_that_drags_another_one_down_over_and_over_is_named(manifest, logs, impatient):
    program = COUNTED + (
        "if name == 'worker':\n"
        "    time.sleep(0.2)\n"
        "    (out / f'gone{count}').touch()\n"
        "    raise ValueError('the cause')\n"
        "wait_for(f'gone{count}')\n"
        "sys.exit('Connection reset by peer')\n"
    )
    job = manifest(program, restart="OnFailure", policy={"backoffLimit": 4})
    with pytest.raises(JobFailed, match=r"^replica worker-0 exited with status 1") as caught:
        runner.run(job, logs)
    assert "ValueError: the cause" in caught.value.detail


def test_a_replica_that_waits_to_be_started_does_not_outlast_the_time_limit(
    manifest, logs, monkeypatch
):
    monkeypatch.setattr(replica, "FIRST_DELAY", 600.0)
    job = manifest(
        "raise SystemExit(1)",
        workers=0,
        restart="OnFailure",
        policy={"activeDeadlineSeconds": 2},
    )
    with pytest.raises(JobFailed, match=r"^the job ran into its time limit of \d s$"):
        runner.run(job, logs)


def test_an_elastic_job_ends_well_with_any_of_its_workers(
    job, replicas, logs, monkeypatch, tmp_path
):
    program = (
        "import os, pathlib, sys, time\n"
        "mark = pathlib.Path(os.environ['OUT'], 'mark')\n"
        "if os.environ['PET_RDZV_CONF'] == 'is_host=false': mark.touch(); sys.exit(0)\n"
        "while not mark.exists(): time.sleep(0.01)\n"
        "time.sleep(600)\n"
    )
    worker = replicas(["python3", "-c", program], 2, "OnFailure", {"OUT": str(tmp_path)})
    policy = {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 3}
    policy |= {"rdzvBackend": "c10d", "rdzvId": "job"}
    made = job("PyTorchJob", spec={"elasticPolicy": policy}, Worker=worker)
    monkeypatch.setitem(runner.LINGER, "Running", 1.0)
    assert set(runner.run(made, logs)) == {"worker-0", "worker-1"}


def test_a_parameter_server_is_not_waited_for(job, replicas, logs, monkeypatch):
    monkeypatch.setitem(runner.LINGER, "Running", 600.0)
    made = job("TFJob", Worker=replicas(["true"]), PS=replicas(["sleep", "600"]))
    assert set(runner.run(made, logs)) == {"worker-0", "ps-0"}


def test_the_timeline_tells_restarts_how_each_attempt_failed_and_what_was_used(
    manifest, logs, impatient
):
    program = COUNTED + (
        "if name == 'worker' and count < 2: sys.exit(3)\n"
        "if name == 'worker': (out / 'joined').touch()\n"
        "wait_for('joined')\n"
    )
    runner.run(
        manifest(program, restart="OnFailure"), logs, Observers([Timeline(logs / timeline.NAME)])
    )
    lives = timeline.read(logs / timeline.NAME)
    worker, master = lives["worker-0"], lives["master-0"]
    states = [span.state for span in worker.spans if span.state != timeline.STARTING]
    assert states == ["running", "restarting", "running", "restarting", "running"]
    assert [span.failed for span in worker.failures] == ["exited with status 3"] * 2
    assert (worker.restarts, master.restarts, master.failures) == (2, 0, [])
    assert all(span.ended is not None for life in lives.values() for span in life.spans)
    assert worker.cpu_seconds > 0 and worker.peak_memory > 2**20


def test_a_replica_that_is_ended_for_anothers_failure_has_not_failed(manifest, logs, impatient):
    program = COUNTED + "if name == 'worker': sys.exit(3)\ntime.sleep(600)\n"
    with pytest.raises(JobFailed):
        runner.run(manifest(program), logs, Observers([Timeline(logs / timeline.NAME)]))
    lives = timeline.read(logs / timeline.NAME)
    assert [len(lives[name].failures) for name in ("worker-0", "master-0")] == [1, 0]
