"""What a program of transformers saves on SIGTERM, with its switch and without."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

TRANSFORMERS = """
import os, sys, time, torch
from transformers import HfArgumentParser, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        time.sleep(0.1)
        return {"loss": ((self.layer(x) - labels) ** 2).mean()}

samples = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(400)]
(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
os.makedirs(arguments.output_dir, exist_ok=True)
last = get_last_checkpoint(arguments.output_dir)
trainer = Trainer(model=Model(), args=arguments, train_dataset=samples)
print("from", last, flush=True)
trainer.train(resume_from_checkpoint=last)
print("done", trainer.state.global_step, flush=True)
"""


@pytest.fixture
def train(tmp_path):
    """Runs a program, and sends it SIGTERM once it trains; returns its status and its lines."""
    started = []

    def run(program, *arguments, until=""):
        (tmp_path / "train.py").write_text(program)
        place = str(tmp_path / "checkpoints")
        process = subprocess.Popen(
            [sys.executable, "train.py", *arguments],
            env=os.environ | {"CHECKPOINT_DIR": place, "PYTHONUNBUFFERED": "1"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if until and until in line and process.poll() is None:
                time.sleep(1)
                process.send_signal(signal.SIGTERM)
                until = ""
        return process.wait(), "".join(lines)

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_transformers_saves_with_its_switch_alone_and_goes_on_from_there(train, tmp_path):
    pytest.importorskip("transformers")
    place = tmp_path / "checkpoints"
    words = ["--output_dir", str(place), "--per_device_train_batch_size", "1", "--max_steps", "150"]
    words += ["--save_strategy", "no", "--report_to", "none", "--logging_steps", "1", "--use_cpu"]
    status, _ = train(TRANSFORMERS, *words, until="'loss'")
    assert status == -signal.SIGTERM and not list(place.glob("checkpoint-*"))
    words += ["--enable_jit_checkpoint", "true"]
    status, text = train(TRANSFORMERS, *words, until="'loss'")
    (saved,) = place.glob("checkpoint-*")
    assert status == 0, text
    assert (saved / "model.safetensors").exists() and (saved / "optimizer.pt").exists()
    status, text = train(TRANSFORMERS, *words)
    assert status == 0 and f"from {saved}" in text and "done 150" in text
