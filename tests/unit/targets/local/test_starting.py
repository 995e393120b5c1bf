"""trireme/targets/local/starting.py: what is forked, and that a step starts if nothing can be."""

import importlib.util
import signal
import subprocess
import sys
import threading
import time

import pytest

from trireme import images
from trireme.files.home import TRACKER
from trireme.graph.model import FRAME
from trireme.targets.local.starting import _WITH_TORCH, Starter, modules_of, wait_for
from trireme.targets.local.warm import EXECUTOR, Forked

COMPUTED = "{{$.inputs.parameters['plan-image']}}"


def command(function, *before, lines="pass"):
    """Returns kfp's command for a step of ours, which says what it was given of the first one."""
    source = f"def {function}():\n    {lines}  # {FRAME}\n"
    words = [*before, "sh", "-ec", f'echo "$0" | {sys.executable} -; echo {EXECUTOR}', source]
    given = '{"inputs": {}, "outputs": {"outputFile": "/nowhere/out.json"}}'
    return [*words, "--executor_input", given, "--function_to_execute", function]


def test_what_is_loaded_in_advance_is_there():
    # What cannot be loaded is left out silently, and each step would load it again.
    assert [name for name in _WITH_TORCH if importlib.util.find_spec(name) is None] == []


@pytest.mark.parametrize(
    ("function", "image", "given", "has_torch"),
    [
        ("evaluate", images.PYTORCH, {}, True),
        ("evaluate", images.for_gpus(images.PYTORCH), {}, True),
        ("trial", COMPUTED, {"plan-image": images.PYTORCH}, True),
        ("trial", COMPUTED, {"plan-image": images.TENSORFLOW}, False),
        ("trial", images.PYTORCH, {"evaluation": {"gate": 1}}, True),
        ("trial", images.PYTORCH, {"evaluation": {"entrypoint": "evaluate.py"}}, False),
        ("train", images.BASE, {}, False),
        ("evaluate", images.TENSORFLOW, {}, False),
        ("checkout", images.BASE, {}, False),
    ],
)
def test_torch_is_loaded_where_steps_need_it(function, image, given, has_torch):
    modules = modules_of(command(function), {}, image, given)
    assert modules
    assert ("torch" in modules) == has_torch


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (command("evaluate", "sh", "-c", "pip install x"), {}),
        ([word.replace(FRAME, "") for word in command("evaluate")], {}),
        (command("evaluate"), {"OMP_NUM_THREADS": "1"}),  # which libraries read when loaded
    ],
)
def test_a_step_with_needs_of_its_own_is_not_forked(words, variables):
    assert modules_of(words, variables, images.PYTORCH, {}) == ()


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "ends.py").write_text(
        "import os, signal; print('its last words', flush=True); os.kill(os.getpid(), 9)"
    )
    (tmp_path / "waits.py").write_text("import time; time.sleep(600)")
    (tmp_path / "reads.py").write_text(f"import os; seen = os.environ.get({TRACKER!r}, 'nothing')")
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}


@pytest.fixture
def started():
    """A starter, and what it has told."""
    told = []
    starter = Starter(told.append)
    yield starter, told
    starter.close()


def test_steps_start_on_their_own_where_what_loads_for_them_has_ended(started, environment):
    starter, told = started
    for _ in range(2):
        step = starter.start(command("work", lines="0"), environment, ("ends",))
        assert isinstance(step, subprocess.Popen)
        assert EXECUTOR in step.stdout.read().decode()
        assert wait_for(step).status == 0
    (text,) = told
    assert text.splitlines()[0] == "its last words"
    assert "was ended by SIGKILL" in text


def test_what_is_loading_does_not_hold_up_who_stops_the_run(started, environment):
    starter, told = started
    steps, words = [], ["sleep", "600"]
    waiting = threading.Thread(
        target=lambda: steps.append(starter.start(words, environment, ("waits",)))
    )
    waiting.start()
    while not starter._warm:
        time.sleep(0.01)
    starter.stop()
    waiting.join(5)
    (step,) = steps
    step.terminate()
    assert wait_for(step).status
    assert told == []


def test_what_is_loaded_sees_nothing_of_the_first_step(started, environment):
    starter, _ = started
    words = command("work", lines="import reads; print('seen:', reads.seen)")
    words[2] = f"python3 -m {EXECUTOR}"
    step = starter.start(words, environment | {TRACKER: "/first"}, ("reads",))
    assert isinstance(step, Forked)
    assert "seen: nothing" in step.stdout.read().decode()
    assert wait_for(step).status == 0


def test_what_was_loaded_for_steps_that_never_came_keeps_nobody_waiting(started, environment):
    starter, told = started
    warm = starter.load(("waits",), environment)
    starter.close()
    assert warm._process.returncode == -signal.SIGKILL
    assert told == []
