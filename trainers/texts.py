"""Texts that language models are fine-tuned on and measured by; to be copied along with programs.

They are files of any kind that the library ``datasets``, which it needs, reads by itself: JSON
lines, CSV, Parquet, plain text. A file whose name has ``test`` in it holds what models are measured
by; without one that is every tenth text. The columns are one of

    text                    all of it is learnt
    prompt, completion      only the completion is learnt
    messages                a conversation, for the tokenizer's chat template
"""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

COLUMNS = ({"text"}, {"prompt", "completion"}, {"messages"})


class Unusable(Exception):
    """What was given cannot be used, which the message says in a sentence."""


def directory(name: str) -> Path:
    """Returns the folder that a variable such as DATA_DIR names."""
    if not os.environ.get(name):
        raise Unusable(f"{name} is not set")
    return Path(os.environ[name])


def quiet() -> None:
    """Keeps progress bars out of the log, where each of their steps would be a line."""
    import datasets
    import transformers

    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()
    # What is going to be called otherwise in the next release of transformers.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")


def load(split: str) -> Any:
    """Returns the texts to train on, or those of ``test``."""
    from datasets import load_dataset
    from datasets.exceptions import DatasetGenerationError

    place = directory("DATA_DIR")
    with tempfile.TemporaryDirectory() as cache:
        try:
            found = load_dataset(str(place), cache_dir=cache, keep_in_memory=True)
            if all("text" in columns for columns in found.column_names.values()):
                # A text that is blank, such as an empty line, has nothing to be learnt.
                found = found.filter(_has_text, input_columns="text", keep_in_memory=True)
        except (ValueError, OSError, DatasetGenerationError) as error:
            why = str(error.__cause__ or error).partition("\n")[0]
            raise Unusable(f"{place} holds no texts that can be read: {why}") from None
    if "train" not in found:
        raise Unusable(f"{place} has no texts to train on; it has {', '.join(found)}")
    columns = set(found["train"].column_names)
    if not any(wanted <= columns for wanted in COLUMNS):
        given = ", ".join(sorted(columns))
        raise Unusable(
            f"texts need a column text, or prompt and completion, or messages, not {given}"
        )
    if "test" in found:
        return found[split]
    indices = range(len(found["train"]))
    is_test = split == "test"
    return found["train"].select([index for index in indices if (index % 10 == 9) == is_test])


def _has_text(text: str | None) -> bool:
    return bool(text and text.strip())
