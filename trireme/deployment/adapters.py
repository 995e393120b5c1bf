"""Adapters over one base model, of registered models that were trained from it, for a server."""

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

from trireme.deployment.openai_api import called
from trireme.errors import InputError
from trireme.tracking.model_versions import ModelVersion, find
from trireme.tracking.store import reason_of

FOLDER = "adapter"
"""Where a packaged model has its adapter alone."""

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes as the largest: https://docs.vllm.ai/en/latest/configuration/engine_args/."""


class Adapter(NamedTuple):
    """An adapter.

    Attributes:
        name: What requests call it.
        rank: Of its matrices.
    """

    model: ModelVersion
    name: str
    rank: int


def of(texts: list[str], base: ModelVersion) -> list[Adapter]:
    """Returns the adapters of models, each ``MODEL``, ``MODEL@ALIAS`` or ``MODEL/VERSION``."""
    adapters = [_of(text, base) for text in texts]
    named = {called(base.name): base}
    for adapter in adapters:
        if other := named.get(adapter.name):
            raise InputError(
                f"--adapter: requests would call {adapter.model} {adapter.name}, as {other}"
            )
        named[adapter.name] = adapter.model
    return adapters


def largest(adapters: list[Adapter]) -> int:
    """Returns the rank that a server has to be ready for."""
    most = max(adapter.rank for adapter in adapters)
    return next(rank for rank in RANKS if rank >= most)


def _of(text: str, base: ModelVersion) -> Adapter:
    import mlflow

    model = find(text)
    trained_from = model.tags.get("base_model.version") or model.tags.get("base_model.uri", "none")
    if trained_from != base.uri:
        raise InputError(
            f"--adapter {text}: {model} was trained from {trained_from}, not from {base.uri}; "
            f"train it with -p base_model={base.uri}"
        )
    with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
        try:
            file = mlflow.artifacts.download_artifacts(
                f"{model.uri}/{FOLDER}/adapter_config.json", dst_path=folder
            )
            rank = int(json.loads(Path(file).read_text())["r"])
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise InputError(f"--adapter {text}: {model} has no adapter of LoRA: {error}") from None
        except Exception as error:
            raise InputError(
                f"--adapter {text}: {model} has no adapter: {reason_of(error)}"
            ) from None
    if not 0 < rank <= RANKS[-1]:
        raise InputError(f"--adapter {text}: its rank is {rank}, and vLLM takes 1 to {RANKS[-1]}")
    return Adapter(model, called(model.name), rank)
