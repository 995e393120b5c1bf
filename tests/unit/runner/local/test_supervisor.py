"""trireme/runner/local/supervisor.py, run as the program that it is."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from trireme.runner.local.supervised import supervised

LIMIT = 60  # seconds; far more than any of this takes

DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(sys.argv[1] + ".partial", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".partial", sys.argv[1])
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""
"""Leaves a process in a session of its own that writes its id to a file and ignores SIGTERM."""


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *arguments]


@pytest.fixture
def supervise():
    """Starts supervised commands; ends what a failed test has left."""
    started = []

    def start(*arguments: str, grace: float = 0.5, **variables: str) -> subprocess.Popen[bytes]:
        process = supervised([*arguments], grace, os.environ | variables)
        started.append(process)
        return process

    yield start
    for process in started:
        try:
            process.communicate(timeout=LIMIT)  # which closes the pipe
        except (subprocess.TimeoutExpired, ValueError):
            process.kill()
            process.wait()


def first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


@pytest.fixture
def pid_in(eventually):
    """Waits for a file with a process id; returns that."""

    def read(file: Path) -> int:
        assert eventually(file.exists)
        return int(file.read_text())

    return read


@pytest.mark.parametrize("status", [0, 1, 42, 127, 255])
def test_the_exit_status_is_passed_on(supervise, status):
    assert supervise("sh", "-c", f"exit {status}").wait(LIMIT) == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT])
def test_a_signal_becomes_128_and_its_number(supervise, number):
    code = "import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0));"
    code += f"os.kill(os.getpid(), {int(number)})"
    assert supervise(*python(code)).wait(LIMIT) == 128 + number


def test_a_command_that_does_not_exist_gives_127_and_says_so(supervise):
    process = supervise("no-such-command")
    assert first_line(process) == "no-such-command: No such file or directory"
    assert process.wait(LIMIT) == 127


def test_a_file_that_is_not_executable_gives_127(supervise, tmp_path):
    (tmp_path / "file").write_text("text")
    assert supervise(str(tmp_path / "file")).wait(LIMIT) == 127


def test_output_and_arguments_are_passed_on_as_they_are(supervise):
    text = "a b\t$X '\"\\ ü"
    process = supervise(*python("import sys; print(sys.argv[1])", text))
    assert first_line(process) == text
    assert process.wait(LIMIT) == 0


def test_variables_are_passed_on_as_they_are(supervise):
    text = "a=b\n$X \udcff ü"
    process = supervise(*python("import os; print(ascii(os.environ['X']))"), X=text)
    assert first_line(process) == ascii(text)
    assert process.wait(LIMIT) == 0


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_library_that_the_command_preloads_is_none_of_the_supervisor(supervise, tmp_path):
    """As AddressSanitizer's, which would end the supervisor with a status of its own."""
    source = "#include <unistd.h>\n__attribute__((destructor)) void end(void) { _exit(23); }"
    (tmp_path / "end.c").write_text(source)
    library = tmp_path / "end.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "end.c"], check=True)
    code = "import os; os.write(1, os.environ['LD_PRELOAD'].encode()); os._exit(0)"
    process = supervise(*python(code), LD_PRELOAD=str(library))
    assert first_line(process) == str(library)
    assert process.wait(LIMIT) == 0


def test_the_command_reads_nothing_from_the_pipe(supervise):
    process = supervise(*python("import sys; print(repr(sys.stdin.read()))"))
    assert first_line(process) == "''"
    assert process.wait(LIMIT) == 0


def test_the_command_starts_with_no_signal_ignored(supervise):
    # Python ignores SIGPIPE, which a program started by a container's runtime would not.
    process = supervise("sh", "-c", "grep SigIgn /proc/self/status")
    ignored = int(first_line(process).split()[1], 16)
    assert not ignored & 1 << (signal.SIGPIPE - 1)
    assert not ignored & 1 << (signal.SIGXFSZ - 1)


def test_a_daemon_is_killed_when_the_command_ends(supervise, tmp_path, runs, eventually, pid_in):
    process = supervise(*python(DAEMON, str(tmp_path / "pid")), grace=30)
    assert process.wait(LIMIT) == 0
    assert not runs(pid_in(tmp_path / "pid"))


def test_many_daemons_are_killed_when_the_command_ends(supervise, tmp_path, runs):
    script = "for i in 1 2 3 4 5 6 7 8; do setsid sleep 600 & echo $! ; done; exit 3"
    process = supervise("sh", "-c", script)
    pids = [int(first_line(process)) for _ in range(8)]
    assert process.wait(LIMIT) == 3
    assert not any(map(runs, pids))


def test_a_daemon_is_killed_when_the_command_is_stopped(supervise, tmp_path, runs, pid_in):
    code = DAEMON + "print('ready', flush=True)\ntime.sleep(600)"
    process = supervise(*python(code, str(tmp_path / "pid")))
    assert first_line(process) == "ready"
    process.terminate()
    assert process.wait(LIMIT) == 128 + signal.SIGTERM
    assert not runs(pid_in(tmp_path / "pid"))


def test_everything_ends_when_the_parent_is_killed(tmp_path, runs, eventually, pid_in):
    code = DAEMON + (
        "import pathlib\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path(sys.argv[1] + '2').write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        python(
            """
            import os, sys, time
            from trireme.runner.local.supervised import supervised
            child = supervised(sys.argv[1:], 0.5, os.environ)
            print(child.pid, flush=True)
            time.sleep(600)
            """,
            *python(code, str(tmp_path / "pid")),
        ),
        stdout=subprocess.PIPE,
    )
    with parent:
        watcher = int(first_line(parent))
        pids = [watcher, pid_in(tmp_path / "pid")]
        assert eventually(lambda: (tmp_path / "pid2").exists() and (tmp_path / "pid2").read_text())
        pids.append(int((tmp_path / "pid2").read_text()))
        assert all(map(runs, pids))
        parent.kill()
        assert eventually(lambda: not any(map(runs, pids)))


def test_the_command_ends_when_the_supervisor_is_killed(supervise, runs, eventually):
    process = supervise(*python("import os, time; print(os.getpid(), flush=True); time.sleep(600)"))
    pid = int(first_line(process))
    process.kill()
    assert process.wait(LIMIT) == -signal.SIGKILL
    assert eventually(lambda: not runs(pid))


def test_what_a_killed_supervisor_leaves_is_killed_and_the_job_ends(
    manifest, alone, logs, runs, eventually
):
    program = """
        import os, subprocess, time
        print(os.getppid(), os.getpid(), subprocess.Popen(["sleep", "600"]).pid, flush=True)
        time.sleep(600)
    """
    job = alone(manifest(program, workers=0))
    supervisor, *pids = map(int, job.stdout.readline().split()[1:])
    os.kill(supervisor, signal.SIGKILL)
    job.communicate(timeout=LIMIT)
    assert not any(map(runs, pids))


def test_what_has_left_the_session_of_a_killed_supervisor_is_killed_as_well(
    manifest, alone, logs, runs, eventually
):
    """As torchrun starts its workers."""
    program = """
        import os, subprocess, sys, time
        code = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
        left = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=-1)
        print(os.getppid(), os.getpid(), int(left.stdout.readline()), flush=True)
        time.sleep(600)
    """
    job = alone(manifest(program, workers=0))
    supervisor, *pids = map(int, job.stdout.readline().split()[1:])
    assert all(map(runs, pids))
    os.kill(supervisor, signal.SIGKILL)
    job.communicate(timeout=LIMIT)
    assert eventually(lambda: not any(map(runs, pids)))


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(supervise, runs):
    code = """
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(600)
    """
    process = supervise(*python(code))
    pid = int(first_line(process))
    process.terminate()
    assert process.wait(LIMIT) == 128 + signal.SIGKILL
    assert not runs(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_command_that_puts_itself_away_gets_the_time_to(supervise, tmp_path, number):
    code = """
    import pathlib, signal, sys, time
    def put_away(*_):
        time.sleep(0.5)
        pathlib.Path(sys.argv[1]).write_text("done")
        sys.exit(7)
    signal.signal(signal.SIGTERM, put_away)
    print("ready", flush=True)
    time.sleep(600)
    """
    process = supervise(*python(code, str(tmp_path / "mark")), grace=LIMIT)
    assert first_line(process) == "ready"
    process.send_signal(number)
    assert process.wait(LIMIT) == 7
    assert (tmp_path / "mark").read_text() == "done"


def test_what_the_command_leaves_when_it_ends_is_told_to_end_as_well(
    supervise, tmp_path, eventually
):
    code = """
    import pathlib, signal, subprocess, sys, time
    inner = '''if True:
        import pathlib, signal, sys, time
        def put_away(*_):
            pathlib.Path(sys.argv[1]).write_text("inner")
            sys.exit(0)
        signal.signal(signal.SIGTERM, put_away)
        print("ready", flush=True)
        time.sleep(600)
    '''
    subprocess.run([sys.executable, "-c", inner, sys.argv[1]])
    """
    process = supervise(*python(code, str(tmp_path / "mark")), grace=LIMIT)
    assert first_line(process) == "ready"
    process.terminate()
    assert process.wait(LIMIT) == 128 + signal.SIGTERM
    assert (tmp_path / "mark").read_text() == "inner"


def test_a_command_has_what_it_has_started_while_it_puts_itself_away(supervise, tmp_path):
    code = """
    import pathlib, signal, subprocess, sys, time
    helper = subprocess.Popen(["cat"], stdin=-1, stdout=-1)
    def put_away(*_):
        time.sleep(0.5)
        pathlib.Path(sys.argv[1]).write_bytes(helper.communicate(b"saved")[0])
        sys.exit(0)
    signal.signal(signal.SIGTERM, put_away)
    print("ready", flush=True)
    time.sleep(600)
    """
    process = supervise(*python(code, str(tmp_path / "mark")), grace=LIMIT)
    assert first_line(process) == "ready"
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert (tmp_path / "mark").read_text() == "saved"


@pytest.mark.parametrize("told", [[], [signal.SIGTERM]])
def test_a_command_that_takes_too_long_is_killed_before_its_grace_is_over(supervise, runs, told):
    code = """
    import os, signal, time
    signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"told\\n"))
    print(os.getpid(), flush=True)
    while True:
        time.sleep(600)
    """
    process = supervise(*python(code), grace=600)
    pid = int(first_line(process))
    for number in told:
        process.send_signal(number)
        assert first_line(process) == "told"
    process.send_signal(signal.SIGQUIT)
    assert process.wait(LIMIT) == 128 + signal.SIGKILL
    assert not runs(pid)


def test_a_closed_pipe_stops_the_command(supervise, runs):
    process = supervise(*python("import os, time; print(os.getpid(), flush=True); time.sleep(600)"))
    pid = int(first_line(process))
    process.stdin.close()
    assert process.wait(LIMIT) == 128 + signal.SIGTERM
    assert not runs(pid)


def test_a_stop_at_the_very_start_is_not_lost(supervise, eventually):
    for _ in range(5):
        process = supervise("sleep", "600", grace=LIMIT)
        # It handles signals from the moment that it watches over its children's orphans.
        handled = f"/proc/{process.pid}/status"
        mask = 1 << (signal.SIGTERM - 1)
        assert eventually(
            lambda handled=handled, mask=mask: (
                int(Path(handled).read_text().partition("SigCgt:")[2].split()[0], 16) & mask
            )
        )
        process.terminate()
        assert process.wait(LIMIT) == 128 + signal.SIGTERM


def test_processes_of_others_are_left_alone(supervise, runs):
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        assert supervise("true").wait(LIMIT) == 0
        assert runs(bystander.pid)
        assert os.getpgid(bystander.pid) == os.getpgid(0)
    finally:
        bystander.kill()
        bystander.wait()
