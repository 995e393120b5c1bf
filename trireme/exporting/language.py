"""A language model in Hugging Face's form: made whole, described to MLflow, and asked.

What servers of OpenAI's API load, such as vLLM, is a folder with weights, tokenizer, chat template
and generation settings. MLflow keeps the tokenizer apart, so it is in both places.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trireme.errors import StepFailed
from trireme.exporting.agreement import TOLERANCES, largest_difference
from trireme.exporting.answering import ADAPTER, TOKENS, WHOLE
from trireme.exporting.isolated import isolated
from trireme.models import language
from trireme.models.language import CHAT, COMPLETIONS, MODEL
from trireme.models.trained import NotLoadable

TASK = "text-generation"
"""What Hugging Face calls the task of these models."""

PACKAGES = ("transformers", "torch", "accelerate")
"""What loads it, as far as it is here: what has no accelerate was made without."""

ASKED = 8  # questions whose answers are compared and kept

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


class Differs(StepFailed):
    """A packaged model answers otherwise than what was trained."""


class Answers(NamedTuple):
    """What a packaged model was asked, what it has answered, and by how much its logits differ.

    Attributes:
        kept: What a server is compared with: ``inputs`` and ``outputs``, texts; and of each token
            of these its margin, see ``answering.py``, and how many characters end with it.
    """

    kept: dict[str, np.ndarray]
    difference: float


def is_adapter(folder: Path) -> bool:
    """Tells whether a program has left an adapter alone."""
    return (folder / ADAPTER).is_file() and not (folder / WHOLE).is_file()


def adapter_of(folder: Path) -> Path | None:
    """Returns the adapter of a model that it was merged into, where that is beside it."""
    adapter = folder / "adapter"
    return adapter if (adapter / ADAPTER).is_file() else None


def merge(adapter: Path, base: str, destination: Path) -> None:
    """Merges an adapter into its base model: the folder is then a whole model of transformers.

    Args:
        base: The run's base model; empty for none.
    """
    if not base:
        raise NotLoadable(
            "it is an adapter alone, and the run has no base model to merge it into",
            way_out="give the base model as base_model, or leave the merged model in MODEL_DIR",
        )
    _check_room(Path(base), destination.parent)
    import peft
    from transformers import AutoModelForCausalLM, AutoTokenizer

    plain = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    own = {f"base_model.model.{name}" for name in plain.state_dict()}  # which may be trained, too
    try:
        with _with_base(adapter, base) as folder:
            model = peft.PeftModel.from_pretrained(plain, str(folder))
            left = peft.load_peft_weights(str(folder))
            loaded = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    except (RuntimeError, ValueError, KeyError) as error:
        why = " ".join(str(error).split())[:200]
        raise NotLoadable(f"the adapter is of another base model than {base}: {why}") from None
    # PEFT only warns of these, and goes on with a part of the adapter, or with nothing of it.
    if differing := sorted((left.keys() - loaded.keys() - own) | (loaded.keys() - left.keys())):
        which = "the adapter" if differing[0] in left else "the base model"
        raise NotLoadable(
            f"the adapter is of another base model than {base}: only {which} has {differing[0]}"
        )
    model.merge_and_unload().save_pretrained(destination)
    has_own = any((adapter / name).is_file() for name in language.TOKENIZERS)
    AutoTokenizer.from_pretrained(adapter if has_own else base).save_pretrained(destination)
    copied = shutil.ignore_patterns("checkpoint-*", "optimizer.pt", "*.pth")
    shutil.copytree(adapter, destination / "adapter", ignore=copied)


def _check_room(base: Path, place: Path) -> None:
    needed = sum(file.stat().st_size for file in base.glob("*") if file.suffix in _WEIGHTS)
    place.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(place).free) < 2 * needed:  # merged, and packaged
        raise StepFailed(
            f"{place} has {free / 1e9:.1f} GB left, and merging the adapter into {base} needs "
            f"{2 * needed / 1e9:.1f} GB"
        )


@contextmanager
def _with_base(adapter: Path, base: str, tokenizer: Path | None = None) -> Iterator[Path]:
    """Yields a folder with an adapter that names the run's base model, whatever it named before.

    Args:
        tokenizer: A folder whose tokenizer is there, too.
    """
    with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
        linked = Path(folder)
        for name in _ADAPTER_WEIGHTS:
            if (adapter / name).is_file():
                (linked / name).symlink_to((adapter / name).resolve())
        config = language.config(adapter, ADAPTER) | {"base_model_name_or_path": base}
        (linked / ADAPTER).write_text(json.dumps(config))
        for file in tokenizer.iterdir() if tokenizer else ():
            if file.is_file() and file.suffix not in _WEIGHTS and file.name != WHOLE:
                (linked / file.name).symlink_to(file.resolve())
        yield linked


def save(model: Path, directory: Path, inputs: np.ndarray | None) -> None:
    """Saves a model of transformers as MLflow's, with the task that people ask it by."""
    import mlflow.transformers

    transformers = import_module("transformers")  # the user's, where it is installed
    has_chat = language.has_chat_template(model)
    text = str(questions(inputs)[0])
    example: dict[str, Any] = {"max_tokens": TOKENS}
    example |= {"messages": [{"role": "user", "content": text}]} if has_chat else {"prompt": text}
    # Not its path, which MLflow takes of Transformers before 5 alone. No code of it is run.
    mlflow.transformers.save_model(
        transformers.pipeline(TASK, model=str(model)),
        str(directory),
        task=CHAT if has_chat else COMPLETIONS,
        input_example=example,
        pip_requirements=[f"{name}=={version(name)}" for name in PACKAGES if find_spec(name)],
    )
    for file in (directory / "components" / "tokenizer").iterdir():
        shutil.copy(file, directory / MODEL)
    if adapter := adapter_of(model):
        shutil.copytree(adapter, directory / adapter.name)


def questions(inputs: np.ndarray | None) -> np.ndarray:
    """Returns what a model is asked: texts that an evaluation has left, or any."""
    if inputs is not None and inputs.dtype.kind == "U" and inputs.ndim == 1:
        return inputs[:ASKED]
    return np.array(["An example."])


def _fitting(asked: np.ndarray, model: Path) -> np.ndarray:
    """Returns the questions that leave room for an answer in the context, or any that does."""
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(model).get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    if not context:
        return asked
    tokenizer: Any = AutoTokenizer.from_pretrained(model)

    def length(text: str) -> int:
        if not tokenizer.chat_template:
            return len(tokenizer(text)["input_ids"])
        messages = [{"role": "user", "content": text}]
        made = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        return len(made["input_ids"])

    fitting = [text for text in asked.tolist() if length(text) <= context - TOKENS]
    return np.array(fitting) if fitting else questions(None)


def ask(model: Path, base: str, directory: Path, inputs: np.ndarray | None) -> Answers:
    """Asks a packaged model in a fresh process, and compares it with what was trained.

    Args:
        model: What the training program left.
        base: The run's base model; empty for none.
        directory: The package.
    """
    asked = _fitting(questions(inputs), model)
    whole = directory / MODEL / WHOLE
    with isolated("transformers") as reloaded:
        (answers,) = reloaded(whole, [asked])
    adapter = adapter_of(model)
    with isolated("transformers") as reloaded:
        if adapter and base:  # what was trained is both, and not what was made of them
            with _with_base(adapter, base, model) as folder:
                (expected,) = reloaded(folder / ADAPTER, [asked])
        else:
            (expected,) = reloaded(model / WHOLE, [asked])
    tolerance = TOLERANCES[".onnx"][language.precision(model)]
    try:
        difference = largest_difference(MODEL, answers["logits"], expected["logits"], tolerance)
    except StepFailed as error:
        raise Differs(str(error)) from None
    kept = {"inputs": asked, "outputs": answers["answer"]}
    kept |= {name: answers[name] for name in ("margins", "ends")}
    return Answers(kept, difference)
