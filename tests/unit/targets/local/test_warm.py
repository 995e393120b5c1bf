"""trireme/targets/local/warm.py: a step that is forked is as one in an interpreter of its own."""

import json
import os
import signal
import textwrap
from pathlib import Path

import pytest

from trireme.targets.local import warm
from trireme.targets.local.warm import EXECUTOR, Warm, is_for

GRACE = 1.0
MODULES = ("kfp.dsl.executor", "numpy")


class Steps:
    """What starts steps, each a function ``work`` of which the lines are given."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder, self.warm = folder, warm

    def start(self, lines: str, **environment: str):
        source = "def work():\n" + textwrap.indent(textwrap.dedent(lines), "    ")
        given = json.dumps({"inputs": {}, "outputs": {"outputFile": str(self.folder / "out.json")}})
        command = ["sh", "-ec", f"python3 -m {EXECUTOR}", source, "--executor_input", given]
        command += ["--function_to_execute", "work"]
        assert is_for(command)
        mine = {"TMPDIR": str(self.folder), "PATH": os.environ["PATH"]}
        return self.warm.start(command, GRACE, mine | environment)

    def run(self, lines: str, **environment: str):
        step = self.start(lines, **environment)
        printed = step.stdout.read().decode()
        return printed, step.reap()


@pytest.fixture
def warmed(tmp_path):
    started = []

    def start(*modules: str, **environment: str) -> Steps:
        common = {"PYTHONUNBUFFERED": "1", "WAS": "there"}
        started.append(Warm(modules, os.environ | common | environment))
        return Steps(tmp_path, started[-1])

    yield start
    for each in started:
        each.close()


@pytest.fixture
def steps(warmed):
    return warmed(*MODULES)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def open_files():
    return sorted(Path("/proc/self/fd").iterdir())


def test_it_sees_what_a_new_interpreter_shows(steps, tmp_path):
    printed, used = steps.run(
        """
        import json, os, signal, subprocess, sys, tempfile, threading
        from pathlib import Path
        print(json.dumps({
            "numpy": "numpy" in sys.modules,
            "main": sys.modules["__main__"].__spec__.name,
            "arguments": sys.argv[1::2],
            "environment": [os.environ.get(name) for name in ("OURS", "WAS")],
            "child": subprocess.getoutput("echo $OURS$WAS"),
            "temporary": tempfile.gettempdir(),
            "input": sys.stdin.read(),
            "threads": threading.active_count(),
            "files": {one: os.readlink(f"/proc/self/fd/{one}").partition(":")[0]
                      for one in os.listdir("/proc/self/fd")
                      if os.path.lexists(f"/proc/self/fd/{one}")},
            "signals": [signal.getsignal(one) == signal.SIG_DFL
                        for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)],
            "seeks": sys.stdout.reconfigure(errors="replace") or sys.stdout.seekable(),
            "interrupt": signal.getsignal(signal.SIGINT) == signal.default_int_handler,
            "leads": os.getpgrp() == os.getpid(),
            "apart": os.getsid(0) == os.getppid(),
        }))
        """,
        OURS="yes",
    )
    found = json.loads(next(line for line in printed.splitlines() if line.startswith('{"numpy"')))
    assert used.status == 0
    assert found == {
        "numpy": True,
        "main": EXECUTOR,
        "arguments": ["--component_module_path", "--executor_input", "--function_to_execute"],
        "environment": ["yes", None],
        "child": "yes",
        "temporary": str(tmp_path),
        "input": "",
        "threads": 1,
        "files": {"0": "/dev/null", "1": "pipe", "2": "pipe"},
        "signals": [True, True, True],
        "seeks": False,
        "interrupt": True,
        "leads": True,
        "apart": True,
    }


def test_chance_is_another_each_time(steps):
    lines = "import random, numpy; print('drawn', random.random(), numpy.random.random())"
    drawn = [
        word
        for _ in range(2)
        for line in steps.run(lines)[0].splitlines()
        if line.startswith("drawn")
        for word in line.split()[1:]
    ]
    assert len(set(drawn)) == 4


@pytest.mark.parametrize(
    ("lines", "status", "says"),
    [
        ("raise ValueError('odd')", 1, "ValueError: odd"),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('a reason')", 1, "a reason"),
        ("raise SystemExit", 0, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", 128 + signal.SIGINT, ""),
        (
            "import sys; sys.stdout.reconfigure(write_through=False); print('kept', end='')",
            0,
            "kept",
        ),
        ("import os; os.abort()", 128 + signal.SIGABRT, ""),
        ("import os; os.kill(os.getpid(), 9)", 128 + signal.SIGKILL, ""),
        ("import atexit; atexit.register(print, 'at the end')", 0, "at the end"),
        (
            "import threading, time\n"
            "threading.Thread(target=lambda: (time.sleep(0.1), print('waited for'))).start()",
            0,
            "waited for",
        ),
    ],
)
def test_it_ends_as_it_would_alone_and_others_go_on(steps, lines, status, says):
    other = steps.start("import time; time.sleep(0.5)")
    printed, used = steps.run(lines)
    assert used.status == status
    assert says in printed
    assert other.reap().status == 0


def test_what_it_used_is_known(steps):
    small = steps.run("pass")[1]
    large = steps.run("import time; x = b'x' * (200 << 20); time.process_time()")[1]
    busy = steps.run("import time\nwhile time.process_time() < 0.3: pass")[1]
    assert large.peak_memory_bytes > small.peak_memory_bytes + (150 << 20)
    assert busy.cpu_seconds > 0.25


IGNORES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
os.write(1, f"pid {os.getpid()}\\n".encode())  # at once, or the two mix their words
time.sleep(600)
"""


def pids(step, count):
    found = []
    while len(found) < count:
        line = step.stdout.readline().decode()
        assert line, "it has ended"
        found += [int(line.split()[1])] if line.startswith("pid") else []
    return found


def test_it_is_asked_to_end_and_then_killed_with_all_below(steps):
    step = steps.start("import time; print('pid 1', flush=True); time.sleep(600)")
    pids(step, 1)
    step.terminate()
    assert step.reap().status == 128 + signal.SIGTERM
    step = steps.start(IGNORES)
    found = pids(step, 2)
    step.terminate()
    assert step.reap().status == 128 + signal.SIGKILL
    assert not any(map(alive, found))


def test_a_killed_supervisor_takes_its_step_and_no_other(steps, eventually):
    step, other = (
        steps.start("import os, time; print('pid', os.getpid()); time.sleep(2)") for _ in "ab"
    )
    (pid,) = pids(step, 1)
    os.kill(step.pid, signal.SIGKILL)
    assert step.reap().status == 128 + signal.SIGKILL
    assert eventually(lambda: not alive(pid))
    assert other.reap().status == 0


def test_steps_do_not_notice_that_what_they_were_forked_from_is_killed(steps):
    step = steps.start(
        "import time; print('pid 1', flush=True); time.sleep(1); raise SystemExit(5)"
    )
    pids(step, 1)
    steps.warm._process.kill()
    assert step.reap().status == 5
    before = open_files()
    for _ in range(2):
        with pytest.raises(ChildProcessError):
            steps.start("pass")
    assert open_files() == before


def test_an_interrupt_while_it_begins_stays_one(steps, monkeypatch):
    def interrupted(step):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(warm.Forked, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            steps.start("import time; time.sleep(60)")
    assert steps.run("print('another')")[1].status == 0


def test_a_module_that_is_not_there_is_for_the_step_to_tell(warmed):
    printed, used = warmed("no_such_module").run("import no_such_module")
    assert used.status == 1
    assert "No module named 'no_such_module'" in printed


def test_what_is_printed_while_it_loads_holds_nothing_up(warmed):
    steps = warmed(*MODULES, PYTHONPROFILEIMPORTTIME="1")  # more than a pipe holds
    assert steps.run("raise SystemExit(5)")[1].status == 5


@pytest.mark.slow
def test_torch_is_loaded_without_threads_and_computes_in_each_fork(warmed):
    steps = warmed("torch", "trireme.evaluation.evaluate")
    lines = """
        import sys, threading
        assert "torch" in sys.modules and threading.active_count() == 1
        import torch
        torch.set_num_threads(4)
        layer = torch.nn.Conv2d(8, 8, 3)
        for _ in range(3):
            layer(torch.ones(16, 8, 64, 64)).sum().backward()
        print("done", torch.get_num_threads())
    """
    both = [steps.start(lines) for _ in range(2)]
    for step in both:
        assert b"done 4" in step.stdout.read()
        assert step.reap().status == 0
