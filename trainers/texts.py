"""Texts that language models are fine-tuned on and measured by; to be copied along with programs.

They are files of any kind that the library ``datasets``, which it needs, reads by itself: JSON
lines, CSV, Parquet, plain text. A file whose name has ``test`` in it holds what models are measured
by; without one that is every tenth text. The columns are one of

    text                    all of it is learnt
    prompt, completion      only the completion is learnt
    messages                a conversation, for the tokenizer's chat template
    chosen, rejected        answers, of which the first is preferred; with prompt or without

A prompt, a completion and answers are texts, or lists of messages. Columns of the other forms are
left out.
"""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

COMPARED = ("chosen", "rejected")
MESSAGES = ("messages",)
COMPLETED = ("prompt", "completion")
TEXT = ("text",)
ASKED = ("prompt",)

FORMS = (COMPARED, MESSAGES, COMPLETED, TEXT)
"""The columns of each form, the one that is meant first where there are those of several."""

COLUMNS = {name for form in FORMS for name in form}


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

    folder = directory("DATA_DIR")
    with tempfile.TemporaryDirectory() as cache:
        try:
            splits = load_dataset(str(folder), cache_dir=cache, keep_in_memory=True)
            if all("text" in columns for columns in splits.column_names.values()):
                # A text that is blank, such as an empty line, has nothing to be learnt.
                splits = splits.filter(_has_text, input_columns="text", keep_in_memory=True)
        except (ValueError, OSError, DatasetGenerationError) as error:
            why = str(error.__cause__ or error).partition("\n")[0]
            raise Unusable(f"{folder} holds no texts that can be read: {why}") from None
    if "train" not in splits:
        raise Unusable(f"{folder} has no texts to train on; it has {', '.join(splits)}")
    if "test" in splits:
        return splits[split]
    rows, is_test = splits["train"], split == "test"
    return rows.select([index for index in range(len(rows)) if (index % 10 == 9) == is_test])


def _has_text(text: str | None) -> bool:
    return bool(text and text.strip())


def in_form(rows: Any, forms: tuple[tuple[str, ...], ...] = FORMS) -> Any:
    """Returns texts without the columns of other forms than the first that they have."""
    columns = set(rows.column_names)
    form = next((form for form in forms if columns.issuperset(form)), None)
    if not form:
        choices = ", or ".join(" and ".join(form) for form in forms)
        raise Unusable(f"texts need a column {choices}, not {', '.join(sorted(columns))}")
    if not len(rows):
        raise Unusable(
            "there are no texts; to measure by are those in files with test in their names, or "
            "every tenth"
        )
    first = rows[0]
    for name in form:
        if not (are_messages(first[name]) or (isinstance(first[name], str) and form != MESSAGES)):
            expected = "a list of messages" if form == MESSAGES else "a text or a list of messages"
            raise Unusable(
                f'the column {name} needs {expected}, as [{{"role": "user", "content": …}}], and '
                f"begins with {str(first[name])[:60]!r}"
            )
    used = set(form)
    if form == COMPARED and are_messages(first.get("prompt")) == are_messages(first["chosen"]):
        used.add("prompt")  # otherwise the answers begin with it
    return rows.remove_columns(sorted(columns & COLUMNS - used))


def are_messages(value: Any) -> bool:
    """Tells whether a value is a conversation."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(message, dict) and {"role", "content"} <= message.keys() for message in value
        )
    )


def need_template(rows: Any) -> bool:
    """Tells whether texts are conversations, for which a tokenizer needs a chat template."""
    return any(are_messages(value) for name, value in rows[0].items() if name in COLUMNS)


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
