"""Reading what a person says of a model and of machines."""

import re
from pathlib import Path
from typing import Any

from trireme.errors import InputError
from trireme.strategy.model import Transformer, llama, of_size
from trireme.text import json_values

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?) ?([kKMGBTP]?)(i?)(bits?|bps|b|B|FLOPS?)?(?:/s)?")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "B": 3, "T": 4, "P": 5}
SMALLEST, LARGEST = 1e6, 1e15  # parameters

_KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocabulary": ("vocab_size",),
}
"""What Hugging Face's configurations call them."""


def amount(field: str, text: str) -> float:
    """Returns what such as ``7B``, ``80GB``, ``80Gi``, ``989T`` or ``400Gbit`` stand for.

    Bits are returned as bytes.
    """
    match = _AMOUNT.fullmatch(text.strip())
    value = float(match[1]) if match else 0.0
    if not match or not 0 < value < 1e30:
        raise InputError(f"{field} {text!r}: has to be a number above 0, such as 80GB or 400Gbit")
    base = 1024 if match[3] else 1000
    value *= base ** _POWERS[match[2].upper()]
    return value / 8 if (match[4] or "").startswith("b") else value


def model(text: str) -> Transformer:
    """Returns the model of a number of parameters, of a configuration or of a ``model.pt``."""
    path = Path(text)
    if path.is_dir():
        path /= "config.json"
    if path.suffix == ".json":
        return of_config(path)
    if path.suffix == ".pt":
        return of_weights(path)
    try:
        parameters = amount("MODEL", text)
    except InputError:
        parameters = 0
    if not SMALLEST <= parameters <= LARGEST:
        raise InputError(
            f"MODEL {text!r}: has to be a number of parameters from 1e6 on, such as 7e9 or 7B, a "
            "folder with a config.json of Hugging Face, or a model.pt"
        )
    return of_size(round(parameters))


def of_config(path: Path) -> Transformer:
    """Returns the model of a configuration of Hugging Face.

    One that has root-mean-square norms is like LLaMA, any other like GPT.
    """
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise InputError(f"MODEL {path}: cannot be read: {error}") from None
    return of_text(text, f"MODEL {path}")


def of_text(text: str, path: str) -> Transformer:
    """Returns the model of a configuration; errors begin with what it is called."""
    try:
        config = json_values.read(text)
        config = config.get("text_config") or config
        experts = [name for name in config if re.fullmatch(r"\w*(num|routed)\w*experts", name)]
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if any(config[name] for name in experts):
        raise InputError(f"{path}: a mixture of experts cannot be computed, only dense models")
    sizes = {name: _first(path, config, *keys) for name, keys in _KEYS.items()}
    width, heads = sizes["width"], sizes["heads"]
    features = _first(path, config, "head_dim", default=width // heads)
    kv_heads = _first(path, config, "num_key_value_heads", default=heads)
    hidden = _first(path, config, "intermediate_size", "n_inner", "ffn_dim", default=4 * width)
    gated = "rms_norm_eps" in config
    return Transformer(
        sizes["layers"],
        width,
        heads,
        sizes["vocabulary"],
        hidden,
        heads * features,
        kv_heads * features,
        kv_heads,
        gated=gated,
        tied=config.get("tie_word_embeddings", True) is not False,
        positions=0
        if gated
        else _first(path, config, "n_positions", "max_position_embeddings", default=0),
    )


def of_weights(path: Path) -> Transformer:
    """Returns the model of a model.pt: as language_model.py leaves it, or by its parameters."""
    import torch

    try:
        saved = torch.load(path, "cpu", weights_only=True, mmap=True)
        if saved.get("factory") == "transformer:LanguageModel":
            return llama(**saved["arguments"])
        weights = saved.get("state_dict", saved).values()
        return of_size(sum(value.numel() for value in weights))
    except Exception as error:  # of any kind, for a file that is none of PyTorch's
        why = str(error).partition("\n")[0]
        raise InputError(f"MODEL {path}: cannot be read: {why}") from None


def _first(path: str, config: dict[str, Any], *keys: str, default: int | None = None) -> int:
    value = next((config[key] for key in keys if config.get(key) is not None), default)
    if not isinstance(value, int) or not 0 <= value < LARGEST or (not value and default is None):
        raise InputError(f"{path}: {' or '.join(keys)} is {value!r}, not a number above 0")
    return value
