"""What the embedded runner does with the output of replicas."""

import contextlib
import subprocess
import threading

import pytest
from line_by_line import line_by_line

from trireme.errors import JobFailed
from trireme.observers.base import Findings, Observer, Observers
from trireme.plain import plain
from trireme.process.patience import wait_for
from trireme.runner.lines import LivePrinter
from trireme.runner.local import replica, runner

LIMIT = 90  # seconds; far more than any of this takes

WHO = "import os, sys, time\nname = {'0': 'master'}.get(os.environ['RANK'], 'worker')\n"
"""Starts programs whose replicas do different things."""


def test_output_is_complete_in_a_file_per_replica_and_line_by_line(manifest, logs):
    heard: dict[str, list[str]] = {}
    lock = threading.Lock()

    def listen(name: str, line: str) -> None:
        with lock:
            heard.setdefault(name, []).append(line)

    program = WHO + (
        "for number in range(2000):\n"
        "    print(name, 'line', number)\n"
        "print('on stderr, ü', file=sys.stderr)\n"
        "print('no end of line', end='')\n"
    )
    runner.run(manifest(program, workers=2), logs, line_by_line(listen))
    assert {file.name for file in logs.iterdir()} == {
        "master-0.log",
        "worker-0.log",
        "worker-1.log",
    }
    for name, lines in heard.items():
        role = name.partition("-")[0]
        expected = [f"{role} line {number}" for number in range(2000)]
        assert lines == [*expected, "on stderr, ü", "no end of line"]
        assert (logs / f"{name}.log").read_text().splitlines() == lines


def test_a_progress_bar_shows_what_a_person_would_see(manifest, logs):
    said: list[str] = []
    program = r"import sys; sys.stdout.write('10 %\r50 %\r100 %\nwindows\r\n')"
    runner.run(
        manifest(program, workers=0), logs, line_by_line(lambda name, line: said.append(line))
    )
    assert said == ["100 %", "windows"]


def test_a_bar_that_is_being_rewritten_is_told_apart_from_lines(manifest, logs):
    said, rewritten = [], []

    class Rewritten(Observer):
        def rewritten(self, replica, text):
            rewritten.append((replica, text))

    program = """
    import sys, time
    for percent in range(0, 100, 10):
        sys.stdout.write(f"\\r{percent} %")
        sys.stdout.flush()
        time.sleep(0.1)
    """
    runner.run(
        manifest(program, workers=0),
        logs,
        line_by_line(lambda name, line: said.append(line), Rewritten()),
    )
    assert said == ["90 %"]
    assert 1 < len(rewritten) < 6  # two a second
    assert set(rewritten) <= {("master-0", f"{percent} %") for percent in range(0, 100, 10)}


def test_bytes_that_are_no_text_do_not_disturb(manifest, logs):
    said: list[str] = []
    program = r"import sys; sys.stdout.buffer.write(b'\xff\xfe ok\n')"
    runner.run(
        manifest(program, workers=0), logs, line_by_line(lambda name, line: said.append(line))
    )
    assert said == ["\ufffd\ufffd ok"]


def test_a_listener_that_fails_does_not_hang_the_job(manifest, alone):
    # As print() does on a full disk, or on a terminal that cannot show a letter.
    process = alone(
        manifest("print('hello')\nprint('again')", workers=0),
        before="def fail(name, line): raise OSError('no space left on device')",
        on_lines="fail",
    )
    try:
        process.wait(45)
    except subprocess.TimeoutExpired:
        pytest.fail("the job never ends")


def test_an_observer_that_fails_is_left_out_and_told(manifest, logs, capsys, tmp_path):
    class Failing(Observer):
        def prepare(self, manifest):
            manifest["spec"].clear()
            raise RuntimeError("halfway")

    class Faulty(Observer):
        def lines(self, replica, text):
            raise KeyError("a fault of theirs")

    class Listing(Observer):
        def lines(self, replica, text):
            self.record(tags={replica: text}, words=["heard"])

    found = []
    observers = Observers([Failing(), Faulty(), Listing()], found.append)
    runner.run(manifest("print('hello')", workers=0), logs, observers)
    assert found == [Findings({}, {"master-0": "hello"}, ["heard"])]
    assert capsys.readouterr().err.splitlines() == [
        "warning: Failing is left out, as it failed: RuntimeError: halfway",
        "warning: Faulty is left out, as it failed: KeyError: 'a fault of theirs'",
    ]


def test_an_observer_can_end_a_job_and_another_say_better_why_it_failed(manifest, logs):
    class Ending(Observer):
        def tick(self, job):
            raise JobFailed("enough")

    class Explaining(Observer):
        def explained(self, failure):
            return JobFailed(f"{failure}, as I say")

        def end(self, failure):
            ended.append(str(failure))

    ended = []
    with pytest.raises(JobFailed, match=r"^enough$") as caught:
        job = manifest("import time; time.sleep(60)")
        runner.run(job, logs, Observers([Ending(), Explaining()]))
    assert set(caught.value.replica_seconds) == {"master-0", "worker-0"}
    words = "replica master-0 exited with status 3, as I say"
    with pytest.raises(JobFailed, match=f"^{words}$"):
        job = manifest("import sys; sys.exit(3)", workers=0)
        runner.run(job, logs, Observers([Explaining()]))
    assert ended == ["enough", words]


def test_what_is_wrong_with_showing_a_bar_does_not_end_the_reading(manifest, logs):
    class Failing(Observer):
        def rewritten(self, replica, text):
            raise OSError("no space left on device")

    said: list[str] = []
    program = r"import sys; sys.stdout.write('10 %\r'); sys.stdout.flush(); print('x\n' * 200_000)"
    runner.run(
        manifest(program, workers=0),
        logs,
        line_by_line(lambda name, line: said.append(line), Failing()),
    )
    assert said.count("x") == 200_000
    assert len((logs / "master-0.log").read_text().splitlines()) == len(said)


def test_a_listener_that_never_returns_does_not_keep_the_job_from_ending(
    manifest, logs, monkeypatch
):
    # As print() does when nobody reads the pipe it writes to.
    monkeypatch.setattr(replica, "UNREAD", 0.5)
    with pytest.raises(JobFailed, match=r"^replica master-0 exited with status 3$"):
        job = manifest("print('hello')\nraise SystemExit(3)", workers=0)
        runner.run(job, logs, line_by_line(lambda name, line: threading.Event().wait()))


def test_a_letter_of_two_bytes_survives_where_a_long_line_is_cut(manifest, logs):
    said: list[str] = []
    program = "import sys\nsys.stdout.reconfigure(encoding='utf-8')\nprint('x' + 'ü' * 70_000)"
    runner.run(
        manifest(program, workers=0), logs, line_by_line(lambda name, line: said.append(line))
    )
    assert len(said) > 1
    assert "".join(said) == "x" + "ü" * 70_000


def test_the_log_of_a_replica_that_is_started_again_goes_on(manifest, logs, impatient, tmp_path):
    said: list[str] = []
    program = """
        import os, pathlib, sys
        mark = pathlib.Path(os.environ["OUT"], "mark")
        print("again" if mark.exists() else "first", flush=True)
        if not mark.exists():
            mark.touch()
            sys.exit(3)
    """
    logs.mkdir()
    (logs / "master-0.log").write_text("of another run")
    job = manifest(program, workers=0, restart="OnFailure")
    runner.run(job, logs, line_by_line(lambda name, line: said.append(line)))
    between = "(it exited with status 3 and is started again: restart 1)"
    assert said == ["first", between, "again"]
    assert (logs / "master-0.log").read_text().splitlines() == said


@pytest.mark.parametrize("end", ["", "\\n"])
def test_a_hundred_megabytes_do_not_fill_the_memory(manifest, alone, logs, end):
    program = f"import sys\nfor _ in range(100):\n    sys.stdout.write('x' * 1_000_000 + '{end}')\n"
    # Its own high-water mark, in KiB, before and after.
    mark = "int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    process = alone(
        manifest(program, workers=0),
        before=f"before = {mark}",
        on_lines="lambda name, line: None",
        after=f"print({mark} - before)",
    )
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert int(output) < 30 * 1024
    log = logs / "master-0.log"
    assert log.stat().st_size > 100_000_000
    assert log.read_text().replace("\n", "") == "x" * 100_000_000


SHOWN = """
def on_lines(name, text):
    printer(name, text)
from trireme.runner.lines import LivePrinter
printer = LivePrinter()
"""


def test_a_program_does_not_wait_for_who_reads_what_is_shown(manifest, alone, logs):
    lines = 400_000  # which no pipe and no buffer takes
    process = alone(
        manifest(f"for n in range({lines}): print('a line of a program, number', n)", workers=0),
        before=SHOWN,
        on_lines="on_lines",
        after="Path(sys.argv[2], 'over').touch()\nprinter.close()",
    )
    over = logs / "over"
    assert wait_for(over.exists, LIMIT, 0.1)  # though nobody has read anything
    assert (logs / "master-0.log").read_bytes().count(b"\n") == lines
    shown = process.stdout.read().splitlines()
    left_out = [line for line in shown if "lines are left out here; the logs have all" in line]
    count = sum(int(line.split()[0].strip("(").replace(",", "")) for line in left_out)
    assert count > 0 and count + len(shown) - len(left_out) == lines
    assert shown[-1] == f"[master-0] a line of a program, number {lines - 1}"


def test_lines_that_come_together_are_shown_each_with_its_replica(capsys):
    with contextlib.closing(LivePrinter(plain)) as printer:
        printer("worker-1", "one\n\x1b[31mtwo\n\nthree")
    assert capsys.readouterr().out == (
        "[worker-1] one\n[worker-1] two\n[worker-1] \n[worker-1] three\n"
    )
