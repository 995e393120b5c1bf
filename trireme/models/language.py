"""Folders of language models, as ``save_pretrained`` of transformers leaves them, told by names."""

import json
from pathlib import Path
from typing import Any

ENDS = ("ForCausalLM", "LMHeadModel")
"""How the names of their architectures end; the second is that of GPT-2 and others of its time."""

ADAPTER = "adapter_config.json"
"""The file that tells an adapter of PEFT, which is nothing without its base model."""

TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
"""Files of which a tokenizer has one."""


CHAT, COMPLETIONS = "llm/v1/chat", "llm/v1/completions"
"""MLflow's tasks: of a model that has a chat template, and of one that goes on with a text."""

MODEL = "model"
"""The folder of a packaged model that is a whole model of transformers."""


def config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Returns what a file of JSON says; nothing where there is no such file."""
    try:
        content = json.loads((folder / name).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def architecture(folder: Path) -> str:
    """Returns what a folder of transformers holds, such as LlamaForCausalLM; empty for none."""
    names = config(folder).get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def precision(folder: Path) -> str:
    """Returns the numbers that a model has; those of 8 bits and less compute in bfloat16."""
    dtype = str(config(folder).get("dtype") or config(folder).get("torch_dtype") or "float32")
    return dtype if dtype in ("float64", "float32", "float16") else "bfloat16"


def has_chat_template(folder: Path) -> bool:
    """Tells whether a model's tokenizer knows how a conversation is written."""
    has_file = (folder / "chat_template.jinja").is_file()
    return has_file or bool(config(folder, "tokenizer_config.json").get("chat_template"))


def unfit(folder: Path) -> str:
    """Returns why a folder holds no language model that can be trained; empty where it does."""
    if not (folder / "config.json").is_file():
        if (folder / ADAPTER).is_file():
            return "it is an adapter alone, without its base model"
        return "it has no config.json, as save_pretrained leaves it"
    if not (name := architecture(folder)).endswith(ENDS):
        return f"its config.json names {name or 'no architecture'}, where {ENDS[0]} is needed"
    if not any((folder / name).is_file() for name in TOKENIZERS):
        return f"it has no tokenizer, as {TOKENIZERS[0]}"
    return ""
