"""Fine-tune a language model of transformers by TRL and PEFT, on any number of processes.

An ordinary program, which needs trl and peft, and to track metrics MLflow.
Copy along: {llm_options,metrics,rewards,texts}.py
Run it as it is (``python llm_finetuning.py``), under torchrun, or as the entrypoint of a
PyTorchJob. It reads

    BASE_MODEL_DIR  the model and its tokenizer, as ``save_pretrained`` leaves them
    DATA_DIR        texts, see texts.py
    CHECKPOINT_DIR  the last checkpoints, from which training goes on
    MODEL_DIR       the model, with an adapter merged into it, and the adapter alone in adapter/
    SEED            of the adapter's weights and the order of texts, default 0
    RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
                    as torchrun and the Kubeflow training operator set them; none: one process
    MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
                    the server and run that rank 0 logs metrics to; no run: a new one; neither:
                    they stay in CHECKPOINT_DIR
    METRICS_PORT    where Prometheus finds those of rank 0; none: nowhere

SIGTERM, as when a machine is reclaimed, makes it save a checkpoint and exit with status 143.
What is wrong with base model, texts or options is said before the weights are loaded.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import llm_options
import rewards
import texts
import torch
import transformers
from metrics import Metrics, until_sigterm
from peft import LoraConfig, PeftModel, get_peft_model
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

RECLAIMED = 128 + signal.SIGTERM  # exit status that the training operator takes for "try again"
CHECKPOINT = "checkpoint-*"
BATCH = "samples-of-a-step"
WHY = 300  # letters of what a library says
COUNTED = 1000  # texts whose tokens are counted

METHODS: dict[str, tuple[Any, Any, tuple[tuple[str, ...], ...]]] = {
    "sft": (SFTTrainer, SFTConfig, (texts.MESSAGES, texts.COMPLETED, texts.TEXT)),
    "dpo": (DPOTrainer, DPOConfig, (texts.COMPARED,)),
    "grpo": (GRPOTrainer, GRPOConfig, (texts.ASKED,)),
}
"""TRL's trainer of each method, its configuration, and the forms of texts that it learns from."""

FIGURES = (
    *("loss", "learning_rate", "grad_norm", "mean_token_accuracy"),
    *("rewards/accuracies", "rewards/margins", "reward", "completions/mean_length"),
)
"""What is told of a step, of what TRL says."""


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
        figures = {name.replace("/", "_"): logs[name] for name in FIGURES if name in logs}
        words = " ".join(f"{name} {value:.4g}" for name, value in figures.items())
        print(f"step {state.global_step}/{state.max_steps} {words}", flush=True)
        self.metrics.log(state.global_step, **figures)


def _any_of_all(mine: bool, device: torch.device) -> bool:
    if not torch.distributed.is_initialized():
        return mine
    count = torch.tensor(int(mine), device=device)
    torch.distributed.all_reduce(count)
    return bool(count)


def _in_words(error: Exception) -> str:
    return " ".join(str(error).split())[:WHY] or type(error).__name__


def prepare(arguments: argparse.Namespace, base: Path, rows: Any) -> Any:
    """Returns the tokenizer of a base model that can be trained on these texts."""
    try:
        # Code that comes with a model is not run, and nobody is asked whether to.
        config = AutoConfig.from_pretrained(base, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=False)
    except Exception as error:  # each of its libraries has its own for a file that is wrong
        raise _no_model(base, error) from None
    if arguments.chat_template:
        try:
            tokenizer.chat_template = Path(arguments.chat_template).read_text()
        except OSError as error:
            file = arguments.chat_template
            raise texts.Unusable(f"--chat-template {file}: {error.strerror}") from None
    if texts.need_template(rows) and not tokenizer.chat_template:
        raise texts.Unusable(
            f"the texts are messages, and the tokenizer in {base} has no chat template; take a "
            "base model that has one, or name a file with one by --chat-template"
        )
    text_config = config.get_text_config()
    context = getattr(text_config, "max_position_embeddings", None) or llm_options.MAX_LENGTH
    if arguments.max_length is None:
        arguments.max_length = min(llm_options.MAX_LENGTH, context)
    if arguments.max_length > context:
        raise texts.Unusable(
            f"--max-length {arguments.max_length}: the base model takes {context} tokens at most"
        )
    if len(tokenizer) > text_config.vocab_size:
        raise texts.Unusable(
            f"the tokenizer in {base} has {len(tokenizer)} tokens, and its model knows "
            f"{text_config.vocab_size}"
        )
    return tokenizer


def _no_model(base: Path, error: Exception) -> texts.Unusable:
    return texts.Unusable(f"{base} holds no language model of transformers: {_in_words(error)}")


def load(base: Path, arguments: argparse.Namespace) -> Any:
    """Returns the model in a folder, with its weights in the numbers that it is trained in."""
    on_gpu = torch.cuda.is_available()
    # Of weights that are all trained, bfloat16 would lose the small steps.
    dtype = "auto" if on_gpu and arguments.adapter != "none" else "float32"
    quantized: dict[str, Any] = {}
    if arguments.adapter == "qlora":
        quantized["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
        )
        quantized["device_map"] = {"": int(os.environ.get("LOCAL_RANK", 0))}
    try:
        return AutoModelForCausalLM.from_pretrained(base, dtype=dtype, **quantized)
    except Exception as error:
        raise _no_model(base, error) from None


def fitting(tokenizer: Any, rows: Any, arguments: argparse.Namespace) -> Any:
    """Returns the texts whose prompts leave room for a completion; says what else is cut."""
    count, longest = len(rows), arguments.max_length - 1
    if arguments.method == "grpo":
        longest = arguments.max_length - completion_length(arguments)
    if "prompt" in rows.column_names and not arguments.packing:
        rows = rows.filter(
            lambda row: _prompt_length(tokenizer, row["prompt"]) <= longest, keep_in_memory=True
        )
        if not len(rows):
            raise texts.Unusable(
                f"--max-length {arguments.max_length}: the prompts of all {count} texts leave no "
                f"room for a completion, as they have more than {longest} tokens"
            )
    if int(os.environ.get("RANK", 0)) == 0:
        if left_out := count - len(rows):
            print(
                f"note: {left_out} of {count} texts are left out, as their prompts have more than "
                f"{longest} tokens, see --max-length",
                flush=True,
            )
        if arguments.method != "grpo" and not arguments.packing:
            say_cut(tokenizer, rows, arguments.max_length)
    return rows


def completion_length(arguments: argparse.Namespace) -> int:
    """Returns how many tokens an answer may have that a reward is given for."""
    return int(arguments.max_length) // 2


def _prompt_length(tokenizer: Any, prompt: Any) -> int:
    if not texts.are_messages(prompt):
        return len(tokenizer(prompt)["input_ids"])
    made = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)
    return len(made["input_ids"])


def say_cut(tokenizer: Any, rows: Any, longest: int) -> None:
    """Says how many texts are longer than what is learnt of them."""
    counted = rows.select(range(min(COUNTED, len(rows))))
    lengths = [_length(tokenizer, texts.learnt(row)) for row in counted]
    if count := sum(length > longest for length in lengths):
        print(
            f"note: {count} of {len(lengths)} texts have more than {longest} tokens, up to "
            f"{max(lengths)}; what comes after is not learnt, see --max-length",
            flush=True,
        )


def _length(tokenizer: Any, row: dict[str, Any]) -> int:
    parts = [row[name] for name in ("text", "prompt", "completion", "messages") if name in row]
    if any(texts.are_messages(part) for part in parts):
        messages = [each for part in parts for each in part]
        return len(tokenizer.apply_chat_template(messages, return_dict=True)["input_ids"])
    return len(tokenizer("".join(parts))["input_ids"])


def options(arguments: argparse.Namespace, checkpoints: Path) -> dict[str, Any]:
    """Returns what TRL's trainers are configured with."""
    on_gpu = torch.cuda.is_available()
    is_one_of_several = os.environ.get("WORLD_SIZE", "1") != "1"
    common: dict[str, Any] = {
        "output_dir": str(checkpoints),
        "num_train_epochs": arguments.epochs,
        "max_steps": arguments.steps,
        "per_device_train_batch_size": arguments.batch_size,
        "gradient_accumulation_steps": arguments.accumulate,
        "learning_rate": arguments.learning_rate,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 0.03,
        "gradient_checkpointing": on_gpu,
        "bf16": on_gpu and torch.cuda.is_bf16_supported(),
        "use_cpu": not on_gpu,
        "ddp_backend": "gloo" if is_one_of_several and not on_gpu else None,
        "ddp_find_unused_parameters": False,
        "logging_steps": arguments.log_every,
        "save_steps": arguments.save_every,
        "save_total_limit": 2,
        "seed": int(os.environ.get("SEED", 0)),
        "report_to": "none",
        "disable_tqdm": True,
    }
    if arguments.strategy == "fsdp":
        # A part of each checkpoint comes from each process, and is read by any number of them.
        sharded = {"state_dict_type": "SHARDED_STATE_DICT", "activation_checkpointing": on_gpu}
        common |= {"fsdp": True, "fsdp_config": sharded, "gradient_checkpointing": False}
    if arguments.method == "sft":
        return common | {"max_length": arguments.max_length, "packing": arguments.packing}
    if arguments.method == "dpo":
        return common | {"max_length": arguments.max_length, "beta": arguments.beta}
    return common | {
        "beta": arguments.beta,
        "num_generations": arguments.generations,
        "max_completion_length": completion_length(arguments),
    }


def train(arguments: argparse.Namespace) -> bool:
    """Trains; returns whether it came to its end, with the model in MODEL_DIR."""
    base = texts.directory("BASE_MODEL_DIR")
    checkpoints, left = texts.directory("CHECKPOINT_DIR"), texts.directory("MODEL_DIR")
    is_leader = os.environ.get("RANK", "0") == "0"
    check(arguments)
    if arguments.strategy == "fsdp":
        be_a_group()
    newest = last_whole(checkpoints)
    keep_batch(arguments, checkpoints, is_resumed=newest is not None)
    make_trainer, make_options, forms = METHODS[arguments.method]
    more: dict[str, Any] = {}
    if arguments.method == "grpo":
        more["reward_funcs"] = rewards.load(arguments.reward)
    loaded = texts.load("train")
    try:
        rows = texts.in_form(loaded, forms)
    except texts.Unusable as error:
        raise texts.Unusable(f"--method {arguments.method}: {error}") from None
    tokenizer = prepare(arguments, base, rows)
    try:
        configured = make_options(**options(arguments, checkpoints))
    except ValueError as error:  # such as generations that do not divide a batch
        raise texts.Unusable(f"--method {arguments.method}: {_in_words(error)}") from None
    rows = fitting(tokenizer, rows, arguments)
    check_room(base, left)
    if arguments.adapter != "none":
        more["peft_config"] = LoraConfig(
            r=arguments.rank,
            lora_alpha=2 * arguments.rank,
            lora_dropout=arguments.dropout,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )
    meter = Meter(checkpoints, is_leader)
    trainer = make_trainer(
        model=load(base, arguments),
        args=configured,
        train_dataset=rows,
        processing_class=tokenizer,
        callbacks=[meter],
        **more,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    if arguments.strategy == "fsdp" and not trainer.is_fsdp_enabled:
        raise texts.Unusable("--strategy fsdp needs a GPU in each process; take ddp")
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
    model = trainer.accelerator.unwrap_model(trainer.model)
    if arguments.strategy == "fsdp":
        gathered = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = get_model_state_dict(model, options=gathered)  # by all processes together
        if is_leader:
            model = whole(weights, load(base, arguments), more.get("peft_config"))
    if is_leader:
        save(model, tokenizer, base, left)
    return True


def be_a_group() -> None:
    """Makes a process that is alone a group of one, which shards as one of several does."""
    if "WORLD_SIZE" in os.environ:
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def keep_batch(arguments: argparse.Namespace, checkpoints: Path, is_resumed: bool) -> None:
    """Divides the samples of a step among the processes that there are now.

    Checkpoints count steps, so these have as many samples as before, also with more or fewer
    processes.
    """
    world, file = int(os.environ.get("WORLD_SIZE", 1)), checkpoints / BATCH
    samples = world * arguments.batch_size * arguments.accumulate
    before = int(file.read_text()) if is_resumed and file.is_file() else samples
    if before == samples:
        if os.environ.get("RANK", "0") == "0":
            checkpoints.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".partial")
            partial.write_text(str(samples))
            partial.rename(file)
        return
    each, rest = divmod(before, world)
    if rest:
        raise texts.Unusable(
            f"the checkpoints in {checkpoints} were made with {before} samples in a step, which "
            f"{world} processes cannot share"
        )
    sizes = range(1, min(arguments.batch_size, each) + 1)
    arguments.batch_size = max(size for size in sizes if each % size == 0)
    arguments.accumulate = each // arguments.batch_size
    if os.environ.get("RANK", "0") == "0":
        print(
            f"note: steps have {before} samples, as before: --batch-size {arguments.batch_size} "
            f"--accumulate {arguments.accumulate} in each of {world} processes",
            flush=True,
        )


def whole(weights: dict[str, Any], model: Any, adapter: LoraConfig | None) -> Any:
    """Returns a model with the weights of all processes."""
    model = get_peft_model(model, adapter) if adapter else model
    model.load_state_dict(weights)
    return model


def check(arguments: argparse.Namespace) -> None:
    """Refuses what this machine does not have."""
    if arguments.adapter == "qlora":
        if not torch.cuda.is_available():
            raise texts.Unusable("--adapter qlora needs a GPU, and there is none; take lora")
        if not importlib.util.find_spec("bitsandbytes"):
            raise texts.Unusable("--adapter qlora needs the package bitsandbytes")


def check_room(base: Path, left: Path) -> None:
    """Refuses a folder that the model will not fit into, which is whole in there in the end."""
    weights = sum(file.stat().st_size for file in base.glob("*.safetensors"))
    dtype = AutoConfig.from_pretrained(base, trust_remote_code=False).dtype
    if dtype in (torch.bfloat16, torch.float16) and not torch.cuda.is_available():
        weights *= 2  # it is trained in float32
    left.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(left).free) < weights:
        raise texts.Unusable(
            f"MODEL_DIR {left} has {free / 1e9:.3g} GB left, and the model needs "
            f"{weights / 1e9:.3g} GB"
        )


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


def save(model: Any, tokenizer: Any, base: Path, left: Path) -> None:
    """Leaves the model, which needs nothing but transformers, and its adapter, if it has one."""
    if isinstance(model, PeftModel):
        model.save_pretrained(str(left / "adapter"))
        if getattr(model.get_base_model(), "is_quantized", False):
            # Merged into 4 bits it would be another model than the one that answers.
            plain = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
            model = PeftModel.from_pretrained(plain, str(left / "adapter"))
        model = model.merge_and_unload()
    model.save_pretrained(left)
    tokenizer.save_pretrained(left)


def main() -> None:
    """Reads the command line and trains."""
    texts.quiet()
    try:
        arguments = llm_options.parse((__doc__ or "").splitlines()[0])
    except ValueError as error:
        print(error, flush=True)
        raise SystemExit(2) from None
    try:
        done = train(arguments)
    except texts.Unusable as error:
        print(error, flush=True)
        raise SystemExit(2) from None
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    sys.exit(0 if done else RECLAIMED)


if __name__ == "__main__":
    main()
