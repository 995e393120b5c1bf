"""However a run is stopped, no process of it is left and MLflow knows."""

import signal
import time

import programs
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def training(trireme, repository):
    """A run in the middle of its training, which would never end by itself."""
    code = repository(train=programs.FOREVER)
    process = trireme.start(
        "run", "pytorch-training", "-p", f"code_url={code}", "-p", "entrypoint=train.py"
    )
    deadline = time.monotonic() + 120
    while process.stdout.readline() != "train     epoch 1/2 loss 1.0\n":
        assert process.poll() is None
        assert time.monotonic() < deadline
    assert len(trireme.processes()) > 5
    yield process
    process.kill()
    process.communicate()


def test_ctrl_c_ends_everything_and_again_changes_nothing(trireme, webhook, training):
    for _ in range(3):
        training.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, errors = training.communicate(timeout=60)
    assert training.returncode == 128 + signal.SIGINT
    assert "Traceback" not in errors
    assert trireme.wait_for_no_processes() == []
    (parent,) = trireme.parents()
    nested = trireme.nested(parent)
    assert parent.info.status == "KILLED"
    assert nested["train"].info.status == "KILLED"
    assert nested["dataset"].info.status == "FINISHED"
    (told,) = webhook.told
    assert (told["pipeline"], told["status"], told["run"]) == (
        "pytorch-training",
        "KILLED",
        trireme.run_directory().name,
    )


def test_cancel_from_elsewhere_ends_it_as_a_signal_does(trireme, training):
    name = trireme.run_directory().name
    assert trireme.call("list").stdout.splitlines()[1].split()[:2] == [name, "running"]
    assert trireme.call("cancel", name).stdout == f"{name} cancelled\n"
    training.communicate(timeout=60)
    assert training.returncode == 128 + signal.SIGTERM
    head, _, *rows = trireme.call("status", name).stdout.splitlines()
    assert head.startswith(f"{name}: KILLED, ")
    assert [row.split()[:2] for row in rows[:3]] == [
        ["checkout", "FINISHED"],
        ["dataset", "FINISHED"],
        ["train", "KILLED"],
    ]
    assert trireme.wait_for_no_processes() == []


def test_a_terminal_that_goes_away_ends_it_too(trireme, training):
    training.send_signal(signal.SIGHUP)
    training.communicate(timeout=60)
    assert training.returncode == 128 + signal.SIGHUP
    assert trireme.wait_for_no_processes() == []


def test_kill_leaves_no_process_either(trireme, training):
    training.kill()
    training.wait()
    assert trireme.wait_for_no_processes() == []
