"""trireme list, status, logs and cancel for runs on this machine."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from functools import partial

import pytest

from trireme.errors import TriremeError
from trireme.process import processes
from trireme.runner.local.supervised import supervised
from trireme.targets.local import runs as local_runs
from trireme.targets.local.target import Local


@pytest.fixture
def kept(untracked):
    """Makes the directory of a run with some logs; returns its record.

    The run goes on until its record ends, or is made anew.
    """
    records = {}

    def make(name, **logs):
        directory = untracked / "runs" / name
        for step, text in logs.items():
            log = directory / "workspace" / "steps" / step / "output.log"
            log.parent.mkdir(parents=True)
            log.write_text(text)
        directory.mkdir(parents=True, exist_ok=True)
        for lock in (local_runs.LOCK, local_runs.STEPS_LOCK):
            (directory / lock).unlink(missing_ok=True)  # as where the one before was killed
        records[name] = local_runs.Record(directory)
        return records[name]

    yield make
    for record in records.values():
        record.end("KILLED")


def change(untracked, name, **fields):
    file = untracked / "runs" / name / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def test_what_a_program_has_ended_with_is_said_once(kept):
    words = "replica worker-0 exited with status 1: KeyError: 'x'"
    kept("one").end("FAILED", TriremeError(words, "[worker-0] [rank1]: KeyError: 'x'"))
    assert local_runs.find("one").result == words


def test_status_of_a_failed_run_ends_with_its_last_lines_and_what_helps(trireme, kept):
    failed = kept("one", train="the log")
    failed.step("train", "FAILED", {"duration_seconds": 3.0}, "KeyError: 'x'")
    failed.end("FAILED", TriremeError("KeyError: 'x'", "Traceback:\n[worker-0] KeyError: 'x'"))
    said = trireme("status", "one")[1].splitlines()
    assert said[-4:-2] == ["Traceback:", "[worker-0] KeyError: 'x'"]
    helps = ["Logs trireme logs one --step train", "Resume trireme resume one"]
    assert [" ".join(line.split()) for line in said[-2:]] == helps


def test_list_shows_the_latest_first(trireme, kept, untracked):
    kept("first").end("FAILED", TriremeError(f"the {'very ' * 20}same"))
    kept("second").end("KILLED", result="flowers, version 2")
    kept("broken").end("FAILED", TriremeError("it failed", "Traceback:\nKeyError: 'x'\n"))
    kept("third")
    kept("fourth")
    for started, name in enumerate(("first", "second", "broken", "third", "fourth")):
        change(untracked, name, started=started)
    (untracked / "runs" / "fourth" / local_runs.LOCK).unlink()  # as where it was killed
    status, output, _ = trireme("list")
    head, *rows = [line.split() for line in output.splitlines()]
    assert (status, head) == (0, ["NAME", "STATE", "AGE", "SECONDS", "RESULT"])
    assert [row[:2] + row[4:] for row in rows] == [
        ["fourth", "lost"],
        ["third", "running"],
        ["broken", "FAILED", "it", "failed:", "KeyError:", "'x'"],
        ["second", "KILLED", "flowers,", "version", "2"],
        ["first", "FAILED", "the", *["very"] * 15, "…"],
    ]


def test_list_tells_the_runs_of_a_pipeline_apart(trireme, kept, untracked):
    for number, rate in enumerate(("0.1", "0.25")):
        name = f"20260101-03000{number}-000{number}-flowers"
        kept(name).end("FINISHED")
        arguments = {"args": ["--data", "x" * 100, "--lr", rate, "--note", "y" * 100 + rate]}
        (untracked / "runs" / name / "parameters.json").write_text(json.dumps(arguments))
        change(untracked, name, started=number)
    kept("flowers-20260101-030000-abcd").end("FINISHED")  # as they were called in 0.1
    change(untracked, "flowers-20260101-030000-abcd", started=-1)
    head, *rows = [line.split() for line in trireme("list")[1].splitlines()]
    assert head == ["NAME", "STATE", "AGE", "SECONDS", "PARAMETERS"]
    cut = "y" * 43
    assert [row[4:] for row in rows] == [
        ["lr=0.25", f"note={cut}yyy…"],
        ["lr=0.1", f"note={cut}yyyy…"],
        [],
    ]


def test_a_home_of_nobody_is_one_sentence(trireme, monkeypatch):
    monkeypatch.setenv("TRIREME_HOME", "~nosuch/x")
    status, output, errors = trireme("list")
    assert (status, output) == (2, "")
    assert errors == (
        "error: TRIREME_HOME ~nosuch/x: there is no such home directory; it can be an absolute "
        "path\n"
    )


def test_without_any_it_is_said_where_the_pipelines_are(trireme, untracked):
    status, output, errors = trireme("list")
    assert (status, output) == (0, "")
    assert errors == "no runs yet; 'trireme pipelines' lists what can be run\n"
    assert not untracked.exists()


def test_status_shows_the_steps_that_have_started(trireme, kept, untracked):
    record = kept("one", checkout="", train="")
    record.step("checkout", "FINISHED", {"duration_seconds": 2.4}, "commit 0123456789ab")
    status, output, _ = trireme("status", "one")
    assert status == 0
    first, *lines = output.splitlines()
    assert first.startswith("one: running, ")
    assert lines == [
        "STEP      STATE     SECONDS  RESULT",
        "checkout  FINISHED  2        commit 0123456789ab",
        "train     running",
        f"  Directory  {untracked / 'runs' / 'one'}",
    ]


def test_logs_are_shown_with_their_steps(trireme, kept):
    kept("one", checkout="a\nb\n", train="c\n\x1b[31md")
    assert trireme("logs", "one")[1].splitlines() == [
        "[checkout] a",
        "[checkout] b",
        "[train] c",
        "[train] d",
    ]
    assert trireme("logs", "one", "--step", "train")[1] == "[train] c\n[train] d\n"
    status, _, errors = trireme("logs", "one", "--step", "export")
    assert (status, errors) == (2, "error: step 'export': the run has checkout, train\n")


def test_what_kfp_prints_into_the_logs_is_left_out(trireme, kept):
    executors = """[KFP Executor INFO]: Looking for component `train`
[KFP Executor INFO]: Got executor_input:
{
    "inputs": {}
}
"""
    kept("one", train=f"{executors}a\n[KFP Executor INFO]: Wrote executor output file\n}}\n")
    assert trireme("logs", "one")[1].splitlines() == ["[train] a", "[train] }"]


def test_cancel_ends_the_command_that_runs_it(trireme, untracked):
    (untracked / "runs" / "one").mkdir(parents=True)
    ending = (
        "import signal, sys; from pathlib import Path\n"
        "from trireme.targets.local.runs import Record\n"
        "record = Record(Path(sys.argv[1]))\n"
        "def end(*_):\n    record.end('KILLED')\n    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()"
    )
    command = [sys.executable, "-c", ending, str(untracked / "runs" / "one")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert trireme("cancel", "one")[:2] == (0, "one cancelled\n")
    status, _, errors = trireme("cancel", "one")
    assert (status, errors) == (2, "error: run one has ended already: KILLED\n")


def test_a_run_that_runs_elsewhere_is_not_ended_from_here(trireme, kept, untracked):
    kept("one")
    # As in a pid namespace of its own, where this number is that of another process.
    change(untracked, "one", pid=1, host="abc")
    status, _, errors = trireme("cancel", "one")
    where = "in another container or on another machine, abc"
    assert (status, errors) == (2, f"error: run one runs {where}: do this there\n")


HOLDER = """
import sys
from pathlib import Path
from trireme.targets.local.runs import Record
from trireme.runner.local.supervised import supervised
record = Record(Path(sys.argv[1]))
step = supervised(sys.argv[2:], 60.0, {}, lock=record.steps_lock.descriptor)
step.stdout.readline()
print(step.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def elsewhere(untracked):
    """Runs a run in another process, with a step; ends both in the end."""
    (directory := untracked / "runs" / "one").mkdir(parents=True)
    step = ["sh", "-c", "trap '' TERM; echo begun; while true; do sleep 1; done"]
    command = [sys.executable, "-c", HOLDER, str(directory), *step]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.supervisor = int(process.stdout.readline())
        yield process
        process.kill()
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.supervisor, signal.SIGQUIT)


def test_what_runs_is_known_by_its_lock_alone(trireme, elsewhere, untracked):
    change(untracked, "one", pid=os.getpid(), born="0")  # as another pid namespace has it
    assert trireme("list")[1].split()[4:6] == ["one", "running"]
    status, _, errors = trireme("resume", "one")
    assert status == 2 and errors.startswith("error: run one is running; only one that")
    trireme("prune", "--older-than", "0m", "--keep", "0")
    assert local_runs.find("one").state == "running"
    elsewhere.kill()
    elsewhere.wait()
    assert local_runs.find("one").state == "lost"


def test_what_a_killed_run_has_left_running_is_waited_for(untracked, elsewhere, monkeypatch):
    directory = untracked / "runs" / "one"
    elsewhere.kill()
    elsewhere.wait()
    with monkeypatch.context() as patch:
        patch.setattr(local_runs, "ENDING", 0.2)
        with pytest.raises(TriremeError, match="processes of it still run after 0 s"):
            local_runs.Record(directory)
    os.kill(elsewhere.supervisor, signal.SIGQUIT)
    local_runs.Record(directory).end("KILLED")


def test_a_program_does_not_have_the_lock_of_its_supervisor(kept):
    lock = kept("one").steps_lock.descriptor
    with supervised(["ls", "-l", "/proc/self/fd"], 60.0, dict(os.environ), lock=lock) as step:
        assert local_runs.STEPS_LOCK not in step.stdout.read().decode()


def test_a_line_that_a_full_disk_has_cut_off_costs_no_other(kept, untracked):
    one = kept("one")
    one.step("checkout", "FINISHED", {"duration_seconds": 2.0}, "abc")
    with (untracked / "runs" / "one" / local_runs.STEPS).open("a") as file:
        file.write('\n{"step": "dataset", "sta')
    one.step("train", "FAILED", {}, "")
    ended = local_runs.find("one").ended
    assert {name: step["state"] for name, step in ended.items()} == {
        "checkout": "FINISHED",
        "train": "FAILED",
    }
    assert ended["checkout"]["seconds"] == 2.0


def test_a_run_that_goes_on_knows_what_came_before_and_shows_what_is(kept, untracked):
    kept("one").step("checkout", "FINISHED", {}, "abc")
    kept("one").step("dataset", "FINISHED", {}, "def")
    again = kept("one")
    assert {name: step["result"] for name, step in again.before.items()} == {
        "checkout": "abc",
        "dataset": "def",
    }
    assert local_runs.find("one").ended == {}
    again.step("checkout", "FINISHED", {}, "abc")
    assert [*local_runs.find("one").ended] == ["checkout"]


def test_without_proc_a_run_is_one_sentence_and_nothing_is_made(
    trireme, kept, untracked, monkeypatch, tmp_path
):
    kept("over").end("FINISHED")
    kept("one")
    monkeypatch.setattr(processes, "PROC", tmp_path / "proc")
    (tmp_path / "job.yaml").write_text("name: small\nframework: pytorch\nmodule: this\n")
    said = (
        f"error: {tmp_path}/proc is not mounted here, by which processes are followed and ended; "
        f"as root: mount -t proc proc {tmp_path}/proc\n"
    )
    job = ("job", "submit", str(tmp_path / "job.yaml"), "--local")
    for command in (("run", "pytorch-training"), job):
        assert trireme(*command)[::2] == (2, said)
    assert trireme("status", "one")[0] == trireme("status", "over")[0] == 0
    assert [*untracked.iterdir()] == [untracked / "runs"]
    assert {run.name for run in (untracked / "runs").iterdir()} == {"over", "one"}


@pytest.mark.parametrize(
    "record",
    [
        '{"layout": 2, "state": "FAILED", "started": 1, "cwd": "/"}',
        '{"state": "FAILED", "started": 1, "cwd": "/"}',
        '{"layout": 1, "status": "FAILED", "began": "2025-01-01"}',
        '{"layout": 1, "state": "FAILED", "started": "yesterday", "cwd": "/"}',
        '{"layout": 1, "state": "FAILED", "started": 1, "cwd": "/", "error": ["no"]}',
        "[]",
        "cut o",
    ],
)
def test_a_run_of_another_layout_is_one_sentence_and_the_others_are_listed(
    trireme, kept, untracked, record
):
    kept("new").end("FINISHED")
    kept("old")
    file = untracked / "runs" / "old" / "run.json"
    file.write_text(record)
    said = (
        f"{file}: is of another version of Trireme, or damaged; that version reads it, or remove "
        f"{file.parent} and start anew\n"
    )
    status, output, errors = trireme("list")
    assert (status, errors) == (0, f"warning: {said}")
    assert [line.split()[0] for line in output.splitlines()] == ["NAME", "new"]
    for command in ("status", "resume", "logs", "cancel"):
        assert trireme(command, "old")[::2] == (2, f"error: {said}")


@pytest.mark.parametrize("line", ['{"step": "train", "status": "FAILED"}', "[]"])
def test_steps_of_another_layout_are_one_sentence(trireme, kept, untracked, line):
    kept("old").end("FAILED")
    file = untracked / "runs" / "old" / local_runs.STEPS
    file.write_text(f"{line}\n")
    for place in ("pipeline.yaml", "parameters.json"):
        (untracked / "runs" / "old" / place).write_text("{}")
    status, _, errors = trireme("status", "old")
    assert (status, errors.count("\n")) == (2, 1)
    assert f"error: {file}: is of another version of Trireme" in errors


def test_parameters_of_another_layout_are_one_sentence(trireme, kept, untracked):
    kept("old", train="").end("FAILED")
    (untracked / "runs" / "old" / "pipeline.yaml").touch()
    file = untracked / "runs" / "old" / "parameters.json"
    for content in ("[1]", "cut o", "{}"):  # the last is good, and at-once.json is not there
        file.write_text(content)
        status, _, errors = trireme("resume", "old")
        assert (status, errors.count("\n")) == (2, 1)
        assert f"error: {file}: is of another version of Trireme" in errors


def test_a_run_that_goes_on_keeps_the_logs_of_what_is_done(kept, untracked):
    one = kept("one", checkout="a", dataset="b", train="c")
    for step, state in (("checkout", "FINISHED"), ("dataset", "FINISHED"), ("train", "FAILED")):
        one.step(step, state, {}, "")
    kept("one")
    kept("one")  # the first time it was killed before it came to any
    local_runs.set_logs_aside(local_runs.find("one"), {"dataset"})
    steps = untracked / "runs" / "one" / "workspace" / "steps"
    assert {log.relative_to(steps).as_posix() for log in steps.glob("*/*.log")} == {
        "checkout/output.log",
        "dataset/output.1.log",
        "train/output.1.log",
    }


def test_whoever_follows_while_a_run_is_resumed_sees_each_line_once(kept, untracked):
    kept("one", train="old 1\nold 2\n")
    run = local_runs.find("one")
    (log,) = run.logs.values()
    seen: queue.Queue[str] = queue.Queue()
    follow = partial(local_runs.logs, "one", "", lambda step, line: seen.put(line), follow=True)
    following = threading.Thread(target=follow, daemon=True)
    following.start()
    assert [seen.get(timeout=10) for _ in range(2)] == ["old 1", "old 2"]
    local_runs.set_logs_aside(run, set())
    log.write_text("new 1\nnew 2\nnew 3\n")
    assert [seen.get(timeout=10) for _ in range(3)] == ["new 1", "new 2", "new 3"]
    change(untracked, "one", state="FINISHED")
    following.join(10)
    assert not following.is_alive() and seen.empty()


def test_logs_have_what_steps_printed_before_the_run_was_resumed(kept, untracked, trireme):
    kept("one", train="").step("train", "FAILED", {}, "")
    log = untracked / "runs" / "one" / "workspace" / "steps" / "train" / local_runs.LOG
    for attempt in range(11):
        log.write_text(f"attempt {attempt}\n")
        local_runs.set_logs_aside(local_runs.find("one"), set())
    before = "".join(f"[train] attempt {attempt}\n" for attempt in range(11))
    assert trireme("logs", "one", "--step", "train") == (0, before, "")
    assert local_runs.find("one").logs == {}, "it has not started again"
    log.write_text("and now\n")
    assert trireme("logs", "one") == (0, f"{before}[train] and now\n", "")


@pytest.mark.parametrize("command", ["status", "logs", "cancel"])
@pytest.mark.parametrize("name", ["unknown", "../runs/one"])
def test_a_run_that_is_not_there_is_one_sentence(trireme, kept, command, name):
    kept("one")
    status, _, errors = trireme(command, name)
    assert (status, errors.count("\n")) == (2, 1)
    assert f"there is no run {name!r} in " in errors


@pytest.mark.parametrize("verbose", [False, True])
def test_resume_shows_every_line_where_it_is_asked_to(trireme, monkeypatch, verbose):
    def resume(target, name, console, changes=()):
        console.started("train")
        console.lines("train", "a line")
        return 0

    monkeypatch.setattr(Local, "resume", resume)
    shown = trireme("resume", "one", *(["--verbose"] if verbose else []))[1]
    assert ("a line" in shown) == verbose


def test_what_cannot_be_resumed_is_one_sentence(trireme, kept, untracked):
    kept("one")
    status, _, errors = trireme("resume", "one")
    assert (status, errors) == (
        2,
        "error: run one is running; only one that failed or was killed can be resumed\n",
    )
    kept("two").end("FINISHED")
    status, _, errors = trireme("retry", "two")
    assert (status, errors) == (
        2,
        "error: run two is FINISHED; only one that failed or was killed can be resumed\n",
    )
    kept("three").end("FAILED")
    place = untracked / "runs" / "three" / "pipeline.yaml"
    sentence = f"error: run three: cannot be resumed: there is no {place}; start a new run\n"
    assert trireme("resume", "three")[::2] == (2, sentence)
    place.write_text("")
    sentence = sentence.replace("pipeline.yaml", "parameters.json")
    assert trireme("resume", "three")[::2] == (2, sentence)
    place.with_name("parameters.json").write_text("{}")
    sentence = sentence.replace("parameters.json", "workspace")
    assert trireme("resume", "three")[::2] == (2, sentence)


def test_the_logs_are_followed_until_the_run_has_ended(trireme, kept, untracked, monkeypatch):
    record = kept("one", checkout="a\nb")
    steps = untracked / "runs" / "one" / "workspace" / "steps"

    def begin(step, text):
        (steps / step).mkdir()
        (steps / step / "output.log").write_text(text)

    def go_on(text):
        with (steps / "checkout" / "output.log").open("a") as log:
            log.write(text)

    happens = [
        lambda: go_on("c\n"),
        lambda: begin("train", "d\n"),
        lambda: (steps / "train" / "output.log").write_text("d\ne\nno end"),
        lambda: record.end("FINISHED"),
    ]
    monkeypatch.setattr(local_runs.time, "sleep", lambda seconds: happens.pop(0)())
    status, output, errors = trireme("logs", "--follow", "one")
    assert (status, errors, happens) == (0, "", [])
    assert output.splitlines() == [
        "[checkout] a",
        "[checkout] bc",
        "[train] d",
        "[train] e",
        "[train] no end",
    ]


def test_a_step_that_may_still_come_is_waited_for(trireme, kept, monkeypatch):
    record = kept("one", checkout="a")
    monkeypatch.setattr(local_runs.time, "sleep", lambda seconds: record.end("FAILED"))
    status, output, errors = trireme("logs", "-f", "one", "--step", "train")
    assert (status, output) == (2, "")
    assert errors == "error: step 'train': the run has checkout\n"


def test_ctrl_c_ends_the_reading_of_logs(trireme, kept, monkeypatch):
    kept("one", checkout="a")

    def interrupted(seconds):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(local_runs.time, "sleep", interrupted)
    assert trireme("logs", "-f", "one") == (130, "", "")


def test_a_step_in_a_loop_is_all_of_its_turns_or_one(trireme, kept):
    kept("one", **{"trial-000": "a\n", "trial-001": "b\n", "choose": "c\n"}).end("FINISHED")
    assert trireme("logs", "one", "--step", "trial")[1] == "[trial-000] a\n[trial-001] b\n"
    assert trireme("logs", "one", "--step", "trial-001")[1] == "[trial-001] b\n"


def test_a_step_whose_name_ends_in_a_number_is_no_turn(trireme, kept):
    kept("one", **{"resize-224-000": "a\n", "resize-224-001": "b\n"}).end("FINISHED")
    assert trireme("logs", "one", "--step", "resize-224")[1].count("\n") == 2
