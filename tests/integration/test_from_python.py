"""trireme.run: runs from Python, which leave the process that starts them as it was."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kfp import dsl

import trireme as library
from trireme.errors import InputError, TriremeError

pytestmark = pytest.mark.slow


@dsl.component(base_image="python:3.11")
def add(a: int, b: int) -> int:
    """Adds."""
    print(f"{a} and {b}")
    return a + b


@dsl.component(base_image="python:3.11")
def sleep(seconds: float):
    """Sleeps."""
    import time

    print("asleep", flush=True)
    time.sleep(seconds)


@dsl.component(base_image="python:3.11")
def refuse():
    """Fails."""
    raise ValueError("this is not to be")


@dsl.pipeline(name="sums")
def sums(a: int, b: int = 2, numbers: list = [1], where: str = ""):  # noqa: B006
    last = add(a=add(a=a, b=b).output, b=1)
    last.set_env_variable("EMPTY", "")  # of which kfp compiles the name alone


@dsl.pipeline(name="nap")
def nap(seconds: float = 600.0):
    sleep(seconds=seconds)


@dsl.pipeline(name="refusal")
def refusal():
    refuse()


@pytest.fixture
def here(trireme, monkeypatch):
    """The command line, whose data directory is that of this process, too."""
    monkeypatch.setenv("TRIREME_HOME", str(trireme.home))
    for name in list(os.environ):
        if name.startswith("MLFLOW_"):
            monkeypatch.delenv(name)
    return trireme


@pytest.fixture
def asleep(here, eventually):
    """A run that would go on for ten minutes."""
    run = library.run(nap)
    assert eventually(lambda: "asleep" in run.logs())
    return run


def state_of_this_process():
    signals = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    loggers = [logging.getLogger(name) for name in ("", "mlflow")]
    logs = [(logger.level, list(logger.handlers)) for logger in loggers]
    return dict(os.environ), Path.cwd(), signals, logs, sys.stdout


def test_a_run_leaves_results_and_this_process_as_it_was(here):
    import mlflow

    mlflow.set_tracking_uri("http://127.0.0.1:1")
    del os.environ["MLFLOW_TRACKING_URI"]  # which that has set
    before = state_of_this_process()
    run = library.run(sums, a=40, numbers=(1, 2), where=Path("/tmp"))
    assert run.status in ("running", "FINISHED")
    assert run.wait() is run
    assert run.status == "FINISHED"
    assert {step.name: step.state for step in run.steps} == dict.fromkeys(
        ("add", "add-2"), "FINISHED"
    )
    assert run.logs("add") == "[add] 40 and 2\n"
    assert run.logs("add-2") == "[add-2] 42 and 1\n"
    assert sorted(run.logs().splitlines()) == ["[add-2] 42 and 1", "[add] 40 and 2"]
    assert run.metrics["duration_seconds"] > 0
    assert run.model == ""
    with pytest.raises(InputError, match=f"run {run.name} has no report"):
        _ = run.model_report
    assert run.name in run.report and "<dt>a</dt><dd>40</dd>" in run.report
    assert library.get("latest").logs("add") == run.logs("add")
    assert "<td>add-2</td><td>FINISHED</td>" in run._repr_html_()
    assert state_of_this_process() == before
    assert mlflow.get_tracking_uri() == "http://127.0.0.1:1"
    mlflow.set_tracking_uri(None)
    (parent,) = here.parents()
    assert (parent.info.run_name, parent.info.status) == (run.name, "FINISHED")
    assert parent.data.params == {"a": "40", "b": "2", "numbers": "[1, 2]", "where": "/tmp"}
    assert here.call("status", run.name).stdout.startswith(f"{run.name}: FINISHED")


def test_wait_raises_what_the_run_has_failed_with(here):
    run = library.run(refusal)
    with pytest.raises(TriremeError, match="step refuse failed: ValueError: this"):
        run.wait()
    assert run.status == "FAILED"
    assert here.wait_for_no_processes() == []  # the run's own says it after it has recorded it
    shown = (here.home / "runs" / run.name / "console.log").read_text()
    assert shown.endswith("error: step refuse failed: ValueError: this is not to be\n")


def test_an_interrupt_of_wait_ends_the_run(here, asleep):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        asleep.wait()
    assert asleep.status == "KILLED"
    assert [step.state for step in asleep.steps] == ["KILLED"]
    with pytest.raises(TriremeError, match="was cancelled"):
        asleep.wait()


def test_cancel_ends_it_and_so_does_the_command(here, asleep):
    asleep.cancel()
    assert asleep.status == "KILLED"
    (parent,) = here.parents()
    assert parent.info.status == "KILLED"
    with pytest.raises(InputError, match="has ended already"):
        asleep.cancel()


def test_a_run_that_is_cancelled_before_it_has_begun_is_killed(here):
    run = library.run(nap)
    run.cancel()
    assert run.status == "KILLED"


def test_a_run_that_was_killed_is_lost_and_wait_ends(here, asleep):
    record = here.home / "runs" / asleep.name / "run.json"
    os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
    with pytest.raises(TriremeError, match=f"run {asleep.name} was killed"):
        asleep.wait()


def test_a_run_goes_on_when_the_program_that_started_it_has_ended(here, tmp_path, eventually):
    script = tmp_path / "start.py"
    script.write_text(
        "from kfp import dsl\nimport trireme\n"
        "@dsl.component\ndef say():\n    import time; time.sleep(2); print('said')\n"
        "@dsl.pipeline(name='later')\ndef later():\n    say()\n"
        "print(trireme.run(later).name)\n"
    )
    started = subprocess.run(
        [sys.executable, script], check=True, capture_output=True, text=True, env=here.environment
    )
    name = started.stdout.strip()
    assert eventually(lambda: f"{name}: FINISHED" in here.call("status", name).stdout)


@pytest.mark.parametrize(
    ("pipeline", "given", "sentence"),
    [
        (sums, {}, "sums needs -p a="),
        (sums, {"a": "40"}, "parameter a: '40' is not a whole number"),
        (sums, {"a": 1, "c": 1}, "sums has no parameter 'c'"),
        (sums, {"a": 1, "target": "nowhere"}, "--target 'nowhere': must be one of local, kfp"),
        (sums, {"a": 1, "env": {"A": "b"}}, "--env: sums has no parameter job"),
        (sums, {"a": 1, "cache_claim": "c"}, "storage_class and shape need target"),
        ("pytorch", {}, "there is no pipeline 'pytorch'"),
        (add, {}, "is not a function with @dsl.pipeline"),
        ("pytorch-training", {"workers": -2}, "workers -2"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(here, pipeline, given, sentence):
    with pytest.raises(InputError, match=sentence):
        library.run(pipeline, **given)
    assert not (here.home / "runs").exists()


def test_a_parameter_may_have_the_name_of_an_argument(here):
    @dsl.pipeline(name="clash")
    def clash(target: int, env: str = "no"):
        add(a=target, b=1)

    run = library.run(clash, parameters={"target": 3, "env": "yes"})
    run.wait()
    (parent,) = here.parents()
    assert parent.data.params == {"target": "3", "env": "yes"}


def test_importing_trireme_takes_no_time():
    code = "import sys, trireme; assert not {'kfp', 'mlflow', 'typer'} & set(sys.modules)"
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert time.monotonic() - started < 5
