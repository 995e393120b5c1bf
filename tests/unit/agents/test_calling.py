"""trireme/agents/calling.py: commands as a tool calls them, by programs that stand for them."""

import json
import sys
import time

import pytest

from trireme.agents import calling
from trireme.answers.runs import StepLine


@pytest.fixture
def command(monkeypatch):
    """Has the words of a command be a program for Python."""
    monkeypatch.setattr(calling, "_command", lambda words: [sys.executable, "-c", words[0]])


def test_a_line_may_have_what_python_takes_for_the_end_of_one(command):
    told = {"step": "train", "replica": "", "line": "a\u2028b\x85c"}
    text = json.dumps(told, ensure_ascii=False)
    program = f"import sys; sys.stdout.reconfigure(encoding='utf-8'); print({text!r})"
    assert calling.lines(StepLine, [program]) == [StepLine(**told)]


def test_what_goes_on_may_say_much_when_nobody_listens_any_more(command, monkeypatch, tmp_path):
    monkeypatch.setattr(calling, "PATIENCE", 0.2)
    file = tmp_path / "done"
    says_much = "import sys, time; time.sleep(0.5); sys.stderr.write('x' * 200_000); "
    calling.start([f"{says_much} open({str(file)!r}, 'w')"])
    end = time.monotonic() + 10
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_is_refused_is_refused_in_its_words(command):
    with pytest.raises(calling.CommandFailed, match=r"^there is no run 'x'$"):
        calling.start(["import sys; print(\"there is no run 'x'\", file=sys.stderr); sys.exit(2)"])
