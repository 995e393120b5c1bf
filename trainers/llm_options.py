"""The command line of the trainer of language models; needs nothing but Python."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

METHODS = ("sft", "dpo", "grpo")
ADAPTERS = ("lora", "qlora", "none")
MAX_LENGTH = 1024  # tokens of a text, where a model takes as many
STRATEGIES = ("ddp", "fsdp")

LEAST: dict[str, float] = {
    **dict.fromkeys(("batch_size", "accumulate", "rank", "log_every", "save_every"), 1),
    **dict.fromkeys(("generations", "max_length"), 2),
    **dict.fromkeys(("learning_rate", "beta", "dropout"), 0),
}
"""What is the least that options may be."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def parse(description: str, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the options; raises ValueError, with one sentence, for those that cannot be."""
    parser = _Parser(description=description, allow_abbrev=False)
    add = parser.add_argument
    add(
        "--method",
        choices=METHODS,
        default="sft",
        help="sft: texts; dpo: chosen and rejected answers; grpo: prompts, and a reward",
    )
    add("--adapter", choices=ADAPTERS, default="lora", help="none: all weights are trained")
    add(
        "--strategy",
        choices=STRATEGIES,
        default="ddp",
        help="ddp: each process has all weights; fsdp: each GPU has a part of them, with sft",
    )
    add("--epochs", type=float, default=3.0)
    add("--steps", type=int, default=-1, help="in place of epochs")
    add("--batch-size", type=int, default=4, help="of each process")
    add("--accumulate", type=int, default=1, help="batches for one step of the optimizer")
    add(
        "--learning-rate",
        type=float,
        help="default: 2e-4 of an adapter, 2e-5 of all weights, 5e-6 of dpo and grpo",
    )
    add("--rank", type=int, default=16, help="of the adapter's matrices")
    add("--dropout", type=float, default=0.05, help="in the adapter")
    add(
        "--max-length",
        type=int,
        help="tokens of a text, the others are left out; default: 1024, or what the model takes",
    )
    add("--packing", action="store_true", help="sft: short texts share a sample")
    add("--chat-template", metavar="FILE", default="", help="in place of the base model's")
    add("--beta", type=float, default=0.1, help="dpo and grpo: how near to the base model it stays")
    add(
        "--reward",
        metavar="FILE.py:FUNCTION",
        default="",
        help="grpo: is given completions, and columns of the texts by name; returns numbers",
    )
    add("--generations", type=int, default=4, help="grpo: completions of a prompt")
    add("--log-every", type=int, default=10, help="steps")
    add("--save-every", type=int, default=100, help="steps")
    arguments = parser.parse_args(words)
    for name, least in LEAST.items():
        value = getattr(arguments, name)
        if value is not None and not value >= least:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} {value:g}: must be {least:g} or more")
    if not arguments.epochs > 0:
        raise ValueError(f"--epochs {arguments.epochs:g}: must be above 0")
    if arguments.steps < 1 and arguments.steps != -1:
        raise ValueError(f"--steps {arguments.steps}: must be 1 or more")
    if not arguments.dropout < 1:
        raise ValueError(f"--dropout {arguments.dropout:g}: must be below 1")
    if (arguments.method == "grpo") != bool(arguments.reward):
        raise ValueError("--method grpo goes with --reward FILE.py:FUNCTION, and only it does")
    if arguments.packing and arguments.method != "sft":
        raise ValueError(f"--packing goes with --method sft, not with {arguments.method}")
    if arguments.strategy == "fsdp" and (arguments.method, arguments.adapter) not in (
        ("sft", "lora"),
        ("sft", "none"),
    ):
        raise ValueError(
            "--strategy fsdp goes with --method sft and --adapter lora or none, not with "
            f"{arguments.method} and {arguments.adapter}"
        )
    if arguments.learning_rate is None:
        of_sft = 2e-5 if arguments.adapter == "none" else 2e-4
        arguments.learning_rate = of_sft if arguments.method == "sft" else 5e-6
    return arguments
