"""trireme/cause.py: what is said of a program that has failed."""

import signal
import subprocess
import sys

import pytest

from trireme import cause

RAISES = "def read():\n    raise FileNotFoundError(2, 'No such file', 'data/train.csv')\n"


def ended(program, *options, **more):
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **more,
    )
    return cause.ended(done.returncode, done.stdout.splitlines())


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (f"{RAISES}read()", "FileNotFoundError: [Errno 2] No such file: 'data/train.csv'"),
        (f"{RAISES}try: read()\nexcept OSError as e: raise KeyError('x') from e", "KeyError: 'x'"),
        ("import json\njson.loads('{')", "json.decoder.JSONDecodeError: Expecting property name"),
        ("def f(): f()\nf()", "RecursionError: maximum recursion depth exceeded"),
        ("raise AssertionError", "AssertionError"),
        ("eval('1 +')", "SyntaxError: invalid syntax"),
        ("raise ValueError('one\\n\\ntwo')", "ValueError: one"),
        ("raise ExceptionGroup('all', [OSError('a'), ValueError('b')])", "ExceptionGroup: all (2"),
        (f"import atexit\natexit.register(print, 'bye: now')\n{RAISES}read()", "FileNotFound"),
    ],
)
def test_the_last_exception_is_the_cause(program, said):
    assert ended(program).startswith(f"exited with status 1: {said}")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('no luck')", "exited with status 1"),
        ("import sys; sys.exit(3)", "exited with status 3"),
        (
            f"import sys, traceback\n{RAISES}"
            "try: read()\nexcept OSError: traceback.print_exc()\nsys.exit(3)",
            "exited with status 3",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "was ended by SIGTERM"),
    ],
)
def test_what_is_no_exception_is_told_by_its_status(program, said):
    assert ended(program) == said


def test_of_several_ranks_it_is_the_first_to_fail():
    lines = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "train.py", line 3, in <module>',
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "train.py", line 9, in <module>',
        "[rank1]:     raise KeyError(1)",
        "[rank1]: KeyError: 1",
        "[rank0]:     wait()",
        "[rank0]: RuntimeError: gone",
    ]
    assert cause.cause(1, lines) == ": KeyError: 1"


def test_a_launcher_is_not_the_cause():
    program = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import no_such_module'], check=True)"
    )
    said = "exited with status 1: ModuleNotFoundError: No module named 'no_such_module'"
    assert ended(program) == said


def test_the_box_of_rich_ends_in_the_exception():
    lines = ["╭─── Traceback (most recent call last) ───╮", "│ /a.py:3 in f │", "╰──────╯"]
    assert cause.cause(1, [*lines, "ValueError: no data"]) == ": ValueError: no data"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE"])
def test_a_signal_is_told_with_the_line_of_the_program(name, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(
        "import json, os, signal\n"
        "def default(value):\n"
        f"    os.kill(os.getpid(), signal.{name})\n"
        "json.dumps([object()], default=default)\n"
    )
    run = f"import runpy; runpy.run_path({str(file)!r})"
    assert ended(run, "-X", "faulthandler") == (
        f"was ended by {name} at train.py, line 3, in default"
    )
    status = 128 + signal.Signals[name]
    assert cause.cause(status, ["something"]) == ""


def test_a_crash_below_a_launcher_is_told_too():
    lines = [
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x00007f [python3] (most recent call first):",
        '  File "/usr/lib/python3/dist-packages/torch/nn.py", line 7 in forward',
        '  File "/code/models/net.py", line 12 in forward',
        "",
    ]
    assert cause.cause(1, lines) == ": Segmentation fault at net.py, line 12, in forward"


def test_no_secret_is_in_it(monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "correct horse")
    program = "raise OSError('postgres://me:geheim@db/x with correct horse')"
    assert ended(program) == "exited with status 1: OSError: postgres://***@db/x with ***"


def test_a_token_in_an_exception_is_not_told(monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "much-too-secret")
    told = f"ValueError: hf_{'a' * 30} Bearer abc.def much-too-secret sk-short"
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', told]
    assert cause.exception(lines) == "ValueError: *** Bearer *** *** sk-short"
