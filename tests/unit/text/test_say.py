"""What is said in one write, as several processes share a terminal and a log."""

import os
import subprocess
import sys

from trireme.text.say import say


def test_a_line_and_its_end_are_one_write(monkeypatch):
    class Counting:
        def __init__(self):
            self.written = []

        def write(self, text):
            self.written.append(text)

        def flush(self):
            pass

    stream = Counting()
    say("waiting", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    say("still waiting")
    assert stream.written == ["waiting\n", "still waiting\n"]


def test_an_error_comes_in_one_piece_from_an_unbuffered_process(tmp_path):
    """Images set PYTHONUNBUFFERED, with which print writes a line and its end one by one."""
    reading, writing = os.pipe2(os.O_DIRECT)  # keeps what is written apart
    program = [sys.executable, "-m", "trireme", "job", "list", "--context", "other"]
    file = tmp_path / "kubeconfig"
    environment = {"PYTHONUNBUFFERED": "1", "KUBECONFIG": str(file)}
    subprocess.run(program, stderr=writing, env=os.environ | environment, check=False)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pieces:
        said = pieces.read(4096)
    assert said.startswith(b"error: ") and said.endswith(b"\n")


def test_what_is_said_to_nobody_ends_nothing():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        say("one", stream)
        say("two", stream)
