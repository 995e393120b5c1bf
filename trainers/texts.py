"""Texts that language models are fine-tuned on and measured by; to be copied along with programs.

They are files of any kind that the library ``datasets``, which it needs, reads by itself: JSON
lines, CSV, Parquet, plain text. A file whose name has ``test`` in it holds what models are measured
by; without one that is every tenth text. The columns are one of

    text                    all of it is learnt
    prompt, completion      only the completion is learnt
    messages                a conversation, for the tokenizer's chat template
    chosen, rejected        answers, of which the first is preferred; with prompt or without

A prompt, a completion and answers are texts, or lists of messages.
"""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

FORMS = (
    frozenset({"messages"}),
    frozenset({"chosen", "rejected"}),
    frozenset({"prompt", "completion"}),
    frozenset({"text"}),
    frozenset({"prompt"}),
)
"""The columns of each form, the one that is meant first where there are those of several."""

KNOWN = "text, or prompt and completion, or messages, or chosen and rejected"


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
    form(found["train"])
    if "test" in found:
        return found[split]
    indices = range(len(found["train"]))
    is_test = split == "test"
    return found["train"].select([index for index in indices if (index % 10 == 9) == is_test])


def _has_text(text: str | None) -> bool:
    return bool(text and text.strip())


def form(found: Any) -> frozenset[str]:
    """Returns the columns that are meant of those that texts have."""
    columns = set(found.column_names)
    meant = next((each for each in FORMS if each <= columns), None)
    if not meant:
        raise Unusable(f"texts need a column {KNOWN}, not {', '.join(sorted(columns))}")
    if not len(found):
        raise Unusable("there are no texts to learn")
    for name in sorted(meant):
        value = found[0][name]
        if not (are_messages(value) or (isinstance(value, str) and name != "messages")):
            what = "a list of messages" if name == "messages" else "a text or a list of messages"
            raise Unusable(
                f'the column {name} needs {what}, as [{{"role": "user", "content": …}}], and '
                f"begins with {str(value)[:60]!r}"
            )
    return meant


def are_messages(value: Any) -> bool:
    """Tells whether a value is a conversation."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and {"role", "content"} <= each.keys() for each in value)
    )


def need_template(found: Any) -> bool:
    """Tells whether texts are conversations, for which a tokenizer needs a chat template."""
    return any(are_messages(found[0][name]) for name in form(found))


def learnt(row: dict[str, Any], answer: str = "chosen") -> dict[str, Any]:
    """Returns a text as it is learnt: of answers that were compared, one."""
    if answer not in row:
        return row
    if "prompt" in row:
        return {"prompt": row["prompt"], "completion": row[answer]}
    return {"messages" if are_messages(row[answer]) else "text": row[answer]}


def question(row: dict[str, Any]) -> tuple[Any, str]:
    """Returns what a model is asked, a text or messages, and what a text answers to that."""
    row = learnt(row)
    if "messages" in row:
        *before, last = row["messages"]
        return before, str(last["content"])
    if "prompt" in row:
        answer = row.get("completion", "")
        return row["prompt"], str(answer[-1]["content"]) if are_messages(answer) else answer
    words = row["text"].split(" ")
    half = max(1, len(words) // 2)
    return " ".join(words[:half]), " ".join(words[half:])
