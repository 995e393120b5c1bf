"""trireme/explaining/causes.py: what a failure is taken for, by what is said of it."""

import re
from pathlib import Path

import pytest

from trireme.explaining import causes
from trireme.explaining.causes import cause

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "causes.md").read_text()

RAISED = """Traceback (most recent call last):
  File "/root/code/train.py", line 88, in <module>
    main()
  File "/root/code/train.py", line 12, in main
    loss.backward()
  File "/usr/lib/python3.11/site-packages/torch/_tensor.py", line 500, in backward
    run()
{}"""
EXITED = "replica worker-1 exited with status 1"


def lines(error):
    return [f"[worker-1] {line}" for line in RAISED.format(error).splitlines()]


@pytest.mark.parametrize(
    "sentence, printed, kind, lies_with",
    [
        (EXITED, lines("ValueError: no label"), "exception", "program"),
        (EXITED, lines("torch.OutOfMemoryError: CUDA out of memory."), "gpu-memory", "limits"),
        (EXITED, lines("RuntimeError: CUDA error: ECC"), "gpu-fault", "machine"),
        (EXITED, lines("RuntimeError: CUDA error: device-side assert"), "exception", "program"),
        (EXITED, lines("RuntimeError: Connection closed by peer"), "peer-lost", "machine"),
        (EXITED, lines("MemoryError"), "out-of-memory", "limits"),
        (EXITED, ["[worker-1] loss 0.5"], "exit-status", "program"),
        ("replica master-0 was ended by SIGSEGV at net.py, line 3", [], "crash", "program"),
        ("replica master-0 was ended by SIGKILL", [], "killed", "unknown"),
        (
            "replica master-0 was ended by SIGKILL; the kernel killed a process for lack of memory "
            "meanwhile, and its largest had 1.0 GiB",
            [],
            "out-of-memory",
            "limits",
        ),
        ("replica a-0 ran out of memory (OOMKilled; its limit is 1Gi)", [], "out-of-memory", None),
        (
            "replica worker-0 was removed from its node (PreemptionByScheduler)",
            [],
            "lost-node",
            None,
        ),
        ("run x was killed, or this machine went down; 'trireme resume", [], "machine-down", None),
        ("the job ran into its time limit of 30 s", [], "time-limit", "limits"),
        ("the budget of 5 EUR, enough for 30 s of this job, is used up", [], "time-limit", None),
        ("replica worker-0 did not start: ErrImagePull: no such image", [], "not-started", "input"),
        ("preflight: worker-1 cannot reach master-0", [], "preflight", "machine"),
        ("the job was cancelled", [], "cancelled", "person"),
        ("MLflow at http://x does not answer", [], "tracking", "machine"),
        ("it seems to hang on exit", [], "hang", "unknown"),
        ("nobody knows", [], "unknown", "unknown"),
    ],
)
def test_a_failure_is_known_by_what_is_said_of_it(sentence, printed, kind, lies_with):
    found, rule = cause(sentence, printed)
    assert (found.kind, found.kind) == (kind, rule.kind)
    assert lies_with in (None, found.lies_with)


def test_the_cause_has_replica_status_exception_and_the_line_of_the_program_itself():
    found, _ = cause(EXITED, lines("ValueError: no label"), step="train")
    assert (found.step, found.replica, found.exit_status) == ("train", "worker-1", 1)
    assert (found.exception, found.place) == ("ValueError: no label", "train.py:12")


def test_bad_input_is_told_by_the_status_that_a_command_ends_with():
    found, _ = cause("code_url 'x': is no repository", [], status=2)
    assert (found.kind, found.lies_with) == ("invalid-input", "input")


def test_a_word_of_the_program_does_not_win_over_how_it_ended():
    """Nor does one that it printed in passing: only what begins a line of a traceback counts."""
    printed = ["[worker-1] resumed after a hang; out of memory was avoided"]
    assert cause(EXITED, printed)[0].kind == "exit-status"


def test_the_page_lists_every_kind_and_what_it_lies_with():
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE, re.MULTILINE)
    assert rows == [(rule.kind, rule.lies_with) for rule in causes.EVERY]
