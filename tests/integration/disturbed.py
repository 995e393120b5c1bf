"""Runs to which something happens: when, and how it is seen that they come to the same end."""

import os
import signal

import pytest

from trireme.targets.local import runs

CASES = int(os.environ.get("TRIREME_FAULTS", "2"))
LONGEST = 7.0  # seconds in which it happens; a run that nothing happens to takes five


def recorded(trireme, name):
    """Returns how a run is, if it got as far as to be one."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRIREME_HOME", str(trireme.home))
        return next((run for run in runs.latest() if run.name == name), None)


def finish(trireme, command, said, failed=(0, 1, -signal.SIGKILL, -signal.SIGTERM, 143)):
    """Has a run that was disturbed come to its end, and checks that this is as if nothing had been.

    Args:
        said: How the command that was disturbed ended: its exit status, and all that it printed.
        failed: The statuses with which it may have ended where there is no run to resume.
    """
    status, output = said
    begun = [path.name for path in (trireme.home / "runs").glob("*")]
    run = recorded(trireme, begun[0]) if begun else None
    if run is None or run.state == "FINISHED":
        assert status in failed, output
    if run is None:
        done = trireme.run(*command)
    elif run.state != "FINISHED":
        done = trireme.run("resume", run.name)
    else:
        done = None
    assert done is None or done.returncode == 0, output + done.stdout + done.stderr
    assert trireme.wait_for_no_processes() == []

    last = max((trireme.home / "runs").glob("*/run.json"), key=lambda file: file.stat().st_mtime)
    workspace = last.parent / "workspace"
    assert (workspace / "model" / "goodness").read_text() == "0.5", output
    assert not [*workspace.glob("*.partial")], output
    whole = next(each for each in trireme.parents() if each.info.run_name == last.parent.name)
    assert (whole.info.status, whole.data.tags.get("error")) == ("FINISHED", None), output
    steps = {name: each.info.status for name, each in trireme.nested(whole).items()}
    assert set(steps) == {"checkout", "dataset", "train", "evaluate", "export", "finish"}, output
    assert set(steps.values()) == {"FINISHED"}, output
    name = next(word for word in command if word.startswith("model_name=")).partition("=")[2]
    version = trireme.client.get_model_version_by_alias(name, "champion")
    assert version.tags["pipeline_run"] == whole.info.run_id, output
