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


def config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Returns what a file of JSON says; nothing where there is no such file."""
    try:
        found = json.loads((folder / name).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def architecture(folder: Path) -> str:
    """Returns what a folder of transformers holds, such as LlamaForCausalLM; empty for none."""
    named = config(folder).get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""


def has_chat_template(folder: Path) -> bool:
    """Tells whether a model's tokenizer knows how a conversation is written."""
    is_of_a_file = (folder / "chat_template.jinja").is_file()
    return is_of_a_file or bool(config(folder, "tokenizer_config.json").get("chat_template"))


def unfit(folder: Path) -> str:
    """Returns why a folder holds no language model that can be trained; empty where it does."""
    if not (folder / "config.json").is_file():
        is_adapter = (folder / ADAPTER).is_file()
        return (
            "it is an adapter alone, without its base model"
            if is_adapter
            else ("it has no config.json, as save_pretrained leaves it")
        )
    if not (found := architecture(folder)).endswith(ENDS):
        return f"its config.json names the architecture {found or 'of nothing'}, no {ENDS[0]}"
    if not any((folder / name).is_file() for name in TOKENIZERS):
        return f"it has no tokenizer, as {TOKENIZERS[0]}"
    return ""
