"""Measure a language model of transformers on held-out texts, beside the model it was made from.

An evaluation program, which needs trl, and reads

    MODEL_DIR       the model and its tokenizer, as ``save_pretrained`` leaves them, or an adapter
    BASE_MODEL_DIR  the model that it was made from, if there is one
    DATA_DIR        texts, see texts.py
    EVALUATION_DIR  what it leaves: metrics.json; scores.npy, the mean log-likelihood of a token in
                    each text, by which models are compared; samples.json, answers of both models;
                    inputs.json, what they were asked

Copy along: texts.py
"""

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import texts
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

IGNORED = -100  # in place of a word that is not to be foretold


def load(place: Path) -> Any:
    """Returns the model in a folder, in evaluation mode."""
    on_gpu = torch.cuda.is_available()
    dtype = "auto" if on_gpu else "float32"
    model: Any = AutoModelForCausalLM.from_pretrained(place, dtype=dtype)
    return (model.cuda() if on_gpu else model).eval()


def scores(model: Any, tokenizer: Any, found: Any, left: Path) -> list[float]:
    """Returns the mean log-likelihood of a token in each text; NaN where there is none."""
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(left),
            per_device_eval_batch_size=1,
            max_length=model.config.get_text_config().max_position_embeddings,
            bf16=False,
            use_cpu=not torch.cuda.is_available(),
            report_to="none",
        ),
        # The trainer wants something to train on; it only prepares the texts here.
        train_dataset=found,
        eval_dataset=found,
        processing_class=tokenizer,
    )
    measured = []
    with torch.no_grad():
        for batch in trainer.get_eval_dataloader():
            if (batch["labels"][:, 1:] == IGNORED).all():
                measured.append(math.nan)  # the first word is given, and it has no other
                continue
            inputs = {name: value.to(model.device) for name, value in batch.items()}
            measured.append(-float(model(**inputs).loss))
    return measured


def answers(model: Any, tokenizer: Any, questions: list[Any], tokens: int) -> list[str]:
    """Returns what a model answers, always with the likeliest token."""
    said = []
    for asked in questions:
        if isinstance(asked, str):
            inputs = tokenizer(asked, return_tensors="pt")
        else:
            inputs = tokenizer.apply_chat_template(
                asked, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        inputs = {name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")}
        length = inputs["input_ids"].shape[1]
        with torch.no_grad():
            found = model.generate(
                **inputs,
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            )
        said.append(tokenizer.decode(found[0, length:], skip_special_tokens=True).strip())
    return said


def in_words(asked: Any) -> str:
    """Returns a question as a person reads it: of a conversation what was said last."""
    return asked if isinstance(asked, str) else str(asked[-1]["content"])


def measure(arguments: argparse.Namespace) -> None:
    """Measures the model, text by text."""
    texts.quiet()
    place, left = texts.directory("MODEL_DIR"), texts.directory("EVALUATION_DIR")
    found = texts.load("test")
    is_alone = not (place / "tokenizer_config.json").is_file()  # an adapter, as PEFT saves it
    tokenizer = AutoTokenizer.from_pretrained(
        texts.directory("BASE_MODEL_DIR") if is_alone else place
    )
    if texts.need_template(found) and not tokenizer.chat_template:
        raise texts.Unusable("the texts are messages, and the model has no chat template for them")
    rows = list(found)
    meant = [texts.learnt(row) for row in rows]
    asked = [(*texts.question(row), row) for row in rows][: arguments.samples]
    questions = [question for question, _, _ in asked if question]
    models = {"model": place}
    if os.environ.get("BASE_MODEL_DIR"):
        models["base model"] = texts.directory("BASE_MODEL_DIR")
    measured, said = {}, {}
    for name, where in models.items():
        model = load(where)
        measured[name] = np.array(scores(model, tokenizer, _dataset(meant), left))
        if name == "model" and "rejected" in rows[0]:
            rejected = _dataset([texts.learnt(row, "rejected") for row in rows])
            measured["rejected"] = np.array(scores(model, tokenizer, rejected, left))
        said[name] = answers(model, tokenizer, questions, arguments.tokens)
        del model
    are_told = ~np.isnan(measured["model"])
    if not are_told.any():
        raise texts.Unusable("the texts to measure by have no word that could be foretold")
    loss = {name: -float(np.mean(values[are_told])) for name, values in measured.items()}
    figures = {
        "log_likelihood": -loss["model"],
        "perplexity": math.exp(loss["model"]),
        "loss": loss["model"],
    }
    if "base model" in loss:
        figures["base_loss"] = loss["base model"]
        figures["base_perplexity"] = math.exp(loss["base model"])
        figures["loss_below_base"] = loss["base model"] - loss["model"]
    if "rejected" in measured:
        is_preferred = measured["model"] > measured["rejected"]
        figures["preferred_accuracy"] = float(np.mean(is_preferred[are_told]))
    (left / "metrics.json").write_text(json.dumps(figures))
    np.save(left / "scores.npy", measured["model"][are_told])
    shown = [
        {"asked": in_words(question), **{name: one[number] for name, one in said.items()}}
        | ({"held-out text": answer} if answer else {})
        for number, (question, answer, _) in enumerate(each for each in asked if each[0])
    ]
    (left / "samples.json").write_text(json.dumps(shown))
    if questions:
        asked_in_words = [in_words(question) for question in questions]
        (left / "inputs.json").write_text(json.dumps(asked_in_words))
    print(" ".join(f"{name} {value:.4g}" for name, value in figures.items()))


def _dataset(rows: list[dict[str, Any]]) -> Any:
    from datasets import Dataset

    return Dataset.from_list(rows)


def main() -> None:
    """Measures the model; what cannot be used is one sentence and exit status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=8, help="questions whose answers are shown")
    parser.add_argument("--tokens", type=int, default=64, help="of an answer, at most")
    try:
        measure(parser.parse_args())
    except texts.Unusable as error:
        print(error, flush=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
