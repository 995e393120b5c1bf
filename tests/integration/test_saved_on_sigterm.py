"""What programs of other libraries save on SIGTERM with the switches that docs/ names."""

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

LIGHTNING = """
import os, sys, time, lightning, torch
from lightning.pytorch.callbacks import ModelCheckpoint

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        time.sleep(0.1)
        print("'loss'", self.global_step, flush=True)
        return self.layer(batch).pow(2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

switch = "--enable" in sys.argv
place = os.environ["CHECKPOINT_DIR"]
saving = ModelCheckpoint(dirpath=place, save_last=True, save_on_exception=switch)
trainer = lightning.Trainer(
    max_steps=150, callbacks=[saving], logger=False, enable_progress_bar=False, accelerator="cpu"
)
print("from", os.listdir(place) if os.path.isdir(place) else None, flush=True)
data = torch.utils.data.DataLoader(torch.randn(400, 4), batch_size=1)
trainer.fit(Model(), data, ckpt_path="last")
print("done", trainer.global_step, flush=True)
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


def test_lightning_saves_with_its_switch_alone_and_goes_on_from_there(train, tmp_path):
    pytest.importorskip("lightning")
    status, text = train(LIGHTNING, until="'loss'")
    assert status == 0 and not list((tmp_path / "checkpoints").glob("*")), text
    status, text = train(LIGHTNING, "--enable", until="'loss'")
    assert status == 0 and (tmp_path / "checkpoints" / "last.ckpt").exists(), text
    status, text = train(LIGHTNING, "--enable")
    assert status == 0 and "done 150" in text
    first = next(line for line in text.splitlines() if line.startswith("'loss'"))
    assert int(first.split()[1]) > 0
