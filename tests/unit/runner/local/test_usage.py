"""What processes use: measured on real ones; of GPUs, what nvidia-smi says."""

import os
import subprocess
import sys

import pytest

from trireme.runner.local import usage

BUSY = """
import multiprocessing, time
def work():
    pages = bytearray(150 << 20)
    print("busy", flush=True)
    while True:
        pass
if __name__ == "__main__":
    multiprocessing.Process(target=work, daemon=True).start()
    time.sleep(600)
"""

# What nvidia-smi 570 prints with --format=csv,noheader,nounits.
NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-gpu=*) echo "GPU-aa, 0, 87"; echo "GPU-bb, 1, [N/A]" ;;
  *) echo "{pid}, GPU-aa, 2048"; echo "{pid}, GPU-bb, [N/A]"; echo "1, GPU-aa, 9999" ;;
esac
"""


@pytest.fixture
def busy(tmp_path):
    """A process with a busy child that has 150 MiB."""
    program = tmp_path / "busy.py"
    program.write_text(BUSY)
    process = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process.pid
    for pid in [*usage.children(process.pid), process.pid]:
        os.kill(pid, 9)
    process.communicate()


def test_children_count(busy):
    used = usage.measured([busy])[busy]
    assert 0 < used.cpu < 2  # the machine has more to do
    assert 150 << 20 < used.memory < 300 << 20
    assert usage.children(os.getpid()) >= {busy}


def test_where_the_kernel_does_not_share_pages_out_they_all_count(busy, monkeypatch):
    shared = usage.measured([busy])[busy].memory
    monkeypatch.setattr(usage, "_memory", usage._resident)
    assert usage.measured([busy])[busy].memory >= shared


def test_what_has_ended_uses_nothing():
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert usage.measured([ended.pid]) == {}


def nvidia_smi(directory, monkeypatch, text):
    file = directory / "bin" / "nvidia-smi"
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")


def test_gpus_are_those_of_its_processes(busy, tmp_path, monkeypatch):
    child = next(iter(usage.children(busy)))
    nvidia_smi(tmp_path, monkeypatch, NVIDIA_SMI.format(pid=child))
    assert usage.measured([busy])[busy].gpu == "0: 87% 2.0Gi, 1: -"


@pytest.mark.parametrize(("answer", "known"), [("GPU-aa, 7.5", 7.5), ("GPU-aa, [N/A]", 0.0)])
def test_what_a_gpu_can_is_known_as_far_as_its_driver_tells(tmp_path, monkeypatch, answer, known):
    text = f"""#!/bin/sh
case "$1" in
  *compute_cap*) echo "{answer}" ;;
  --query-gpu=*) echo "GPU-aa, 0, Quadro RTX 6000, 87, 2048, 24576" ;;
  *) echo "17, GPU-aa" ;;
esac
"""
    nvidia_smi(tmp_path, monkeypatch, text)
    assert usage.gpus() == [("0: Quadro RTX 6000", {17}, 0.87, 2048 / 24576, known)]


def test_a_driver_that_is_gone_says_nothing(busy, tmp_path, monkeypatch):
    text = "#!/bin/sh\necho 'NVIDIA-SMI has failed because it couldn, t, communicate'\nexit 9\n"
    nvidia_smi(tmp_path, monkeypatch, text)
    assert usage.measured([busy])[busy].gpu == ""
