"""Fine-tune a language model of transformers with LoRA, on any number of processes.

An ordinary program, which needs trl and peft, and to track metrics MLflow.
Copy along: {metrics,texts}.py
Run it as it is (``python lora.py``), under torchrun, or as the entrypoint of a PyTorchJob. It reads

    BASE_MODEL_DIR  the model and its tokenizer, as ``save_pretrained`` leaves them
    DATA_DIR        texts, see texts.py
    CHECKPOINT_DIR  the last checkpoints of the adapter, from which training goes on
    MODEL_DIR       the model with the adapter merged into it, and the adapter alone in adapter/
    SEED            of the adapter's weights and the order of texts, default 0
    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
                    as torchrun and the Kubeflow training operator set them; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the server and run that rank 0 logs metrics to; no run: a new one; neither:
                    they stay in CHECKPOINT_DIR
    METRICS_PORT    where Prometheus finds those of rank 0; none: nowhere

SIGTERM, as when a machine is reclaimed, makes it save a checkpoint and exit with status 143.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import texts
import torch
import transformers
from metrics import Metrics, until_sigterm
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

RECLAIMED = 128 + signal.SIGTERM  # exit status that the training operator takes for "try again"
CHECKPOINT = "checkpoint-*"
WHY = 300  # letters of what a library says


class Meter(transformers.TrainerCallback):
    """Says how training goes, to MLflow too, and has it stop at the step at which SIGTERM came."""

    def __init__(self, checkpoints: Path, is_leader: bool) -> None:
        self.metrics = Metrics(checkpoints, CHECKPOINT) if is_leader else None
        self.terminated = until_sigterm()
        self.stopped = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Agrees with the other processes whether to stop."""
        self.stopped = _any_of_all(self.terminated.is_set(), args.device)
        control.should_save = control.should_save or self.stopped
        control.should_training_stop = control.should_training_stop or self.stopped
        return control

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Takes the figures of some steps."""
        if not self.metrics or not logs or "loss" not in logs:
            return
        figures = {name: logs[name] for name in ("loss", "learning_rate", "grad_norm")}
        said = " ".join(f"{name} {value:.4g}" for name, value in figures.items())
        print(f"step {state.global_step}/{state.max_steps} {said}", flush=True)
        self.metrics.log(state.global_step, **figures)


def _any_of_all(mine: bool, device: torch.device) -> bool:
    if not torch.distributed.is_initialized():
        return mine
    count = torch.tensor(int(mine), device=device)
    torch.distributed.all_reduce(count)
    return bool(count)


def load(base: Path, dtype: str) -> tuple[Any, Any]:
    """Returns the tokenizer and the model in a folder."""
    try:
        model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
        return AutoTokenizer.from_pretrained(base), model
    except Exception as error:  # each of its libraries has its own for a file that is wrong
        why = " ".join(str(error).split())[:WHY] or type(error).__name__
        raise texts.Unusable(f"{base} holds no language model of transformers: {why}") from None


def train(arguments: argparse.Namespace) -> bool:
    """Trains; returns whether it came to its end, with the model in MODEL_DIR."""
    base = texts.directory("BASE_MODEL_DIR")
    checkpoints, left = texts.directory("CHECKPOINT_DIR"), texts.directory("MODEL_DIR")
    seed = int(os.environ.get("SEED", 0))
    on_gpu = torch.cuda.is_available()
    tokenizer, model = load(base, "auto" if on_gpu else "float32")
    is_one_of_several = os.environ.get("WORLD_SIZE", "1") != "1"
    is_leader = os.environ.get("RANK", "0") == "0"
    meter = Meter(checkpoints, is_leader)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(checkpoints),
            num_train_epochs=arguments.epochs,
            max_steps=arguments.steps,
            per_device_train_batch_size=arguments.batch_size,
            gradient_accumulation_steps=arguments.accumulate,
            learning_rate=arguments.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=0.03,
            max_length=arguments.max_length,
            packing=arguments.packing,
            gradient_checkpointing=on_gpu,
            bf16=on_gpu and torch.cuda.is_bf16_supported(),
            use_cpu=not on_gpu,
            ddp_backend="gloo" if is_one_of_several and not on_gpu else None,
            ddp_find_unused_parameters=False,
            logging_steps=arguments.log_every,
            save_steps=arguments.save_every,
            save_total_limit=2,
            seed=seed,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=texts.load("train"),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=arguments.rank,
            lora_alpha=2 * arguments.rank,
            lora_dropout=arguments.dropout,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
        callbacks=[meter],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    newest = last_whole(checkpoints)
    if newest and is_leader:
        print(f"resuming after step {step_of(newest)}", flush=True)
    trainer.train(resume_from_checkpoint=str(newest) if newest else None)
    if meter.metrics:
        meter.metrics.close()
    if meter.stopped and trainer.state.global_step < trainer.state.max_steps:
        if is_leader:
            step = trainer.state.global_step
            print(f"stopped after step {step}; training can resume from there", flush=True)
        return False
    if is_leader:
        save(trainer.accelerator.unwrap_model(trainer.model), tokenizer, left)
    return True


def last_whole(checkpoints: Path) -> Path | None:
    """Returns the last checkpoint that was not cut off while it was written."""
    whole = []
    for folder in checkpoints.glob(CHECKPOINT):
        with contextlib.suppress(OSError, ValueError):
            json.loads((folder / "trainer_state.json").read_text())  # which is written last
            whole.append(folder)
    return max(whole, key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    """Returns the step after which a checkpoint was made."""
    return int(checkpoint.name.rpartition("-")[2])


def save(model: Any, tokenizer: Any, left: Path) -> None:
    """Leaves the adapter, and the model with it merged in, which needs nothing but transformers."""
    model.save_pretrained(left / "adapter")
    model.merge_and_unload().save_pretrained(left)
    tokenizer.save_pretrained(left)


def main() -> None:
    """Reads the command line and trains."""
    texts.quiet()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--epochs", type=float, default=3.0)
    add("--steps", type=int, default=-1, help="in place of epochs")
    add("--batch-size", type=int, default=4, help="of each process")
    add("--accumulate", type=int, default=1, help="batches for one step of the optimizer")
    add("--learning-rate", type=float, default=2e-4)
    add("--rank", type=int, default=16, help="of the adapter's matrices")
    add("--dropout", type=float, default=0.05, help="in the adapter")
    add("--max-length", type=int, default=1024, help="tokens of a text, the others are left out")
    add("--packing", action="store_true", help="short texts share a sample")
    add("--log-every", type=int, default=10, help="steps")
    add("--save-every", type=int, default=100, help="steps")
    try:
        done = train(parser.parse_args())
    except texts.Unusable as error:
        print(error, flush=True)
        raise SystemExit(2) from None
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    sys.exit(0 if done else RECLAIMED)


if __name__ == "__main__":
    main()
