"""Runs from Python: what is started as on the command line, and what has run is found again."""

import re
import time

import pytest

import trireme as library
from trireme.errors import InputError
from trireme.targets import base, handle
from trireme.targets.local.target import Local

RUNS = [
    base.Run("20260102-030405-6789-digits", "running", time.time() - 90, 90.0),
    base.Run("<b>digits</b>", "FAILED", time.time() - 7200, 5.0, message="the rate went to seed"),
]


@pytest.fixture
def here(untracked, monkeypatch):
    """This machine with two runs."""
    monkeypatch.setattr(Local, "latest", lambda self: RUNS)
    named = {run.name: run for run in RUNS}

    def find(self, name):
        if name not in named:
            raise base.NoSuchRun(f"there is no run {name!r}")
        return named[name]

    monkeypatch.setattr(Local, "find", find)
    monkeypatch.setattr(Local, "told", lambda self, run: [])


def test_what_is_shown_of_the_package_is_what_is_meant_for_others():
    assert dir(library) == sorted(library.__all__)
    assert {"run", "runs", "get", "train"} <= set(dir(library))
    assert all(getattr(library, name) is not None for name in dir(library))


def test_a_program_is_run_as_the_command_line_runs_it(trireme, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(Local, "run", lambda self, *given, wait: asked.append(given[:2]) or 0)

    def start(self, *given):
        asked.append(given[:2])
        return RUNS[0], ""

    monkeypatch.setattr(Local, "start", start)
    (tmp_path / "code").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "code" / "train.py").write_text("import torch\n")
    monkeypatch.chdir(tmp_path / "code")
    words = ["train.py", "--data", "../data", "-p", "workers=1", "--env", "A=b"]
    assert trireme("run", *words, "--", "--rate", "0.1")[0] == 0
    given = {"workers": 1, "env": {"A": "b"}, "args": ["--rate", "0.1"]}
    library.run("train.py", data="../data", **given)
    library.run(tmp_path / "code" / "train.py", data=tmp_path / "data", **given)
    (command, python, paths) = ((pipeline.name, values) for pipeline, values in asked)
    assert command == python
    assert command[1]["entrypoint"] == "train.py" and command[1]["args"] == ["--rate", "0.1"]
    assert paths[1] == command[1] | {"dataset_uri": str(tmp_path / "data")}


def test_runs_are_a_table_and_handles(here):
    found = library.runs()
    assert [run.name for run in found] == [run.name for run in RUNS]
    assert isinstance(found[1], handle.RunHandle) and found[1].status == "FAILED"
    head, first, _ = repr(found).splitlines()
    assert (head.split(), first.split()[:2]) == (
        ["NAME", "STATE", "AGE", "SECONDS", "RESULT"],
        [RUNS[0].name, "running"],
    )
    shown = found._repr_html_()
    assert re.search(r"<td>&lt;b&gt;digits&lt;/b&gt;</td><td>FAILED</td><td>\d+h</td>", shown)


def test_no_runs_are_said(untracked):
    assert repr(library.runs()) == "no runs"


def test_a_run_is_found_by_what_commands_take(here):
    for word in ("latest", "20260102-0304", RUNS[0].name):
        assert library.get(word).name == RUNS[0].name
    assert library.get().name == RUNS[0].name


def test_what_is_no_target_and_no_option_of_it_is_refused(here):
    for find in (library.runs, library.get):
        with pytest.raises(InputError, match="--target 'nowhere': must be one of local"):
            find(target="nowhere")
        with pytest.raises(InputError, match="nemspace: target 'local' has the options none"):
            find(nemspace="mine")


def test_a_report_is_as_high_as_its_page():
    shown = handle.Report('<p class="a">a page</p>')._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;p class=&quot;a&quot;&gt;a page&lt;/p&gt;"')
    assert "scrollHeight" in shown
