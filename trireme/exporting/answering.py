"""Answers from exported files, in a process without the training code: ``python -I answering.py``.

A program, started by ``isolated.py`` as a file of its own, so that nothing of Trireme is imported,
or as a fork of a process that has loaded nothing of a user. It is told a module to load in advance
and the folder of the run's packages; then each line of standard input is a JSON list of an exported
file, a ``.npz`` of inputs, and the ``.npz`` to write its answers to, and each line of standard
output a JSON string that says what went wrong, or nothing.
"""

import importlib
import json
import logging
import os
import site
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

DESCRIPTION = "MLmodel"  # the file that makes a folder a model of MLflow
WHOLE = "config.json"  # that of transformers
ADAPTER = "adapter_config.json"  # that of an adapter of PEFT, which names its base model
TOKENS = 32  # of an answer in words
Predict = Callable[[np.ndarray], np.ndarray]


def main(module: str, *packages: str) -> None:
    """Answers until standard input ends."""
    for folder in packages:
        site.addsitedir(folder)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get between the replies
    importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(_answered(*json.loads(line))), file=replies, flush=True)


def _answered(file: str, inputs: str, answers: str) -> str:
    with np.load(inputs) as arrays:
        batches = [arrays[name] for name in arrays.files]
    try:
        named = _NAMED.get(Path(file).name)
        predict = named(file) if named else _LOADERS[Path(file).suffix](file)
        np.savez(answers, *[predict(batch) for batch in batches])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _onnx(file: str) -> Predict:
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (name,) = [item.name for item in session.get_inputs()]
    return lambda inputs: session.run(None, {name: inputs})[0]


def _program(file: str) -> Predict:
    import torch

    logged = _LastError()
    logging.getLogger("torch.export").addHandler(logged)
    try:
        module = torch.export.load(file).module()
    except RuntimeError as error:
        raise logged.cause or error from None

    def predict(inputs: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return module(torch.from_numpy(inputs)).numpy()

    return predict


def _saved_model(directory: str) -> Predict:
    import tensorflow as tf

    loaded = tf.saved_model.load(directory)
    serve = loaded.signatures["serving_default"]
    (name,) = serve.structured_input_signature[1]

    def predict(inputs: np.ndarray) -> np.ndarray:
        # The signature does not keep its variables; the model has to be there as long as it is.
        assert loaded is not None
        return next(iter(serve(**{name: tf.constant(inputs)}).values())).numpy()

    return predict


def _mlflow(file: str) -> Predict:
    import mlflow.pyfunc

    model = mlflow.pyfunc.load_model(str(Path(file).parent))

    def predict(inputs: np.ndarray) -> np.ndarray:
        answer = model.predict(_table(inputs) if inputs.dtype.names else inputs)
        if isinstance(answer, dict):  # by names, as ONNX models do
            answer = next(iter(answer.values()))
        if hasattr(answer, "to_frame"):  # a server answers with a series as with a table
            answer = answer.to_frame()
        if isinstance(answer, list) and answer and isinstance(answer[0], dict):
            answer = [[*row.values()] for row in answer]
        array = np.asarray(answer)
        return array.astype(str) if array.dtype == object else array  # words

    return predict


def _language_model(file: str) -> Predict:
    """Loads a language model, which answers texts by the logits of the next token, and in words.

    Of each token that it says there is how many characters have been said with it, and its margin:
    by how much it was likelier than the second, relative to the largest logit. Numbers that are
    computed otherwise may change a token of a small margin, and with it all that follow.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(file).parent
    if Path(file).name == ADAPTER:
        from peft import PeftModel

        base = json.loads(Path(file).read_text())["base_model_name_or_path"]
        plain = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
        model: Any = PeftModel.from_pretrained(plain, str(folder))
    else:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")  # as servers do
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model.eval()

    def answered(text: str) -> tuple[np.ndarray, str, np.ndarray, np.ndarray]:
        if tokenizer.chat_template:
            encoded = tokenizer.apply_chat_template(
                [{"role": "user", "content": text}],
                add_generation_prompt=True,
                return_dict=True,
                return_tensors="pt",
            )
        else:
            encoded = tokenizer(text, return_tensors="pt")
        inputs = {name: encoded[name] for name in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            logits = model(**inputs).logits[0, -1].float().numpy()
            generated = model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=TOKENS,
                output_scores=True,
                return_dict_in_generate=True,
            )
        tokens = generated.sequences[0, inputs["input_ids"].shape[1] :]
        answer = tokenizer.decode(tokens, skip_special_tokens=True)
        margins, ends = np.full(TOKENS, np.nan, "f4"), np.full(TOKENS, -1, "i4")
        for number, scores in enumerate(generated.scores):
            first, second = scores[0].float().topk(2).values.tolist()
            size = scores[0][scores[0].isfinite()].abs().max().item()
            margins[number] = (first - second) / size if size else 0.0
            text_so_far = tokenizer.decode(tokens[: number + 1], skip_special_tokens=True)
            # A character of several tokens is not there before its last.
            pairs = zip(text_so_far, answer, strict=False)
            ends[number] = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return logits, answer, margins, ends

    def predict(texts: np.ndarray) -> np.ndarray:
        answers = [answered(text) for text in texts.tolist()]
        longest = max(1, *(len(answer) for _, answer, _, _ in answers))
        columns = [
            ("logits", "f4", answers[0][0].shape),
            ("answer", f"U{longest}"),
            ("margins", "f4", (TOKENS,)),
            ("ends", "i4", (TOKENS,)),
        ]
        return np.array(answers, dtype=columns)

    return predict


def _table(rows: np.ndarray) -> Any:
    import pandas

    return pandas.DataFrame.from_records(rows)


class _LastError(logging.Handler):
    """Keeps the error that torch.export.load logs, and hides behind one that tells nothing."""

    cause: Any = None

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        while error is not None:
            self.cause, error = error, error.__cause__


_LOADERS = {".onnx": _onnx, ".pt2": _program, "": _saved_model}
_NAMED = {DESCRIPTION: _mlflow, WHOLE: _language_model, ADAPTER: _language_model}

if __name__ == "__main__":
    main(*sys.argv[1:])
