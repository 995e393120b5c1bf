"""trireme/runner/local/gpus.py: who sees which GPUs, of which nvidia-smi is made to tell."""

import os

import pytest

from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.runner.local import gpus, usage
from trireme.runner.local.manifest import read


@pytest.fixture
def seen(tmp_path, monkeypatch):
    """Returns what the replicas of a job see on a machine with some GPUs."""

    def make(there, visible=None, **fields):
        nvidia_smi = tmp_path / "nvidia-smi"
        nvidia_smi.write_text(
            "#!/bin/sh\n" + "".join(f"echo {number}\n" for number in range(there))
        )
        nvidia_smi.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.delenv(gpus.VISIBLE, raising=False)
        if visible is not None:
            monkeypatch.setenv(gpus.VISIBLE, visible)
        job = TrainingJob.create(**{"entrypoint": "train.py", "code_dir": str(tmp_path)} | fields)
        found = gpus.shared_out(read(render(job)))
        return [each[gpus.VISIBLE] for each in found.values()]

    return make


TENSORFLOW = {"framework": "tensorflow", "replicas": {"ps": {"count": 1}}}


@pytest.mark.parametrize(
    ("there", "fields", "shares"),
    [
        (2, {"workers": 0}, []),  # alone it sees them all
        (2, {"workers": 0, "gpu": 1}, ["0"]),
        (2, {"workers": 1}, ["0", "1"]),
        (5, {"workers": 1}, ["0,1", "2,3"]),
        (5, {"workers": 1, "gpu": 1}, ["0", "2"]),
        (1, {"workers": 1}, ["", ""]),  # NCCL refuses two processes on one
        (2, {"workers": 1, "gpu": 2, "processes_per_worker": 2}, ["", ""]),
        (0, {"workers": 1}, ["", ""]),
        (2, {"workers": 2, **TENSORFLOW}, ["0", "", "1"]),
    ],
)
def test_replicas_share_the_gpus_out(seen, there, fields, shares):
    assert sorted(seen(there, **fields)) == sorted(shares)


def test_only_those_that_this_process_sees_are_shared_out(seen):
    assert seen(4, "GPU-aa, GPU-bb", workers=1) == ["GPU-aa", "GPU-bb"]
    assert seen(4, "-1", workers=1) == ["", ""]


def test_that_they_do_not_suffice_is_said(seen, capsys):
    seen(1, workers=1)
    assert "2 processes would each need a GPU, and this machine has 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("there", "has_driver", "fields", "said"),
    [
        (0, False, {"gpu": 1}, "asks for 1 GPU, and this machine has none"),
        (0, True, {"gpu": 1, "workers": 1}, "asks for 2 GPUs, and this machine has none"),
        (2, True, {"gpu": 4}, "asks for 4 GPUs, and this machine has 2"),
    ],
)
def test_that_there_are_fewer_than_are_asked_for_is_said(
    seen, capsys, monkeypatch, there, has_driver, fields, said
):
    if not has_driver:
        monkeypatch.setattr(usage, "has_gpu", lambda: False)
    seen(there, **fields)
    assert capsys.readouterr().err == f"warning: the job {said}; it trains with what there is\n"


def test_without_a_driver_nothing_changes(seen, monkeypatch):
    monkeypatch.setattr(usage, "has_gpu", lambda: False)
    assert seen(2, workers=1) == []
