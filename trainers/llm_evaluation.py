"""Measure a language model of transformers on held-out texts, beside the model it was made from.

An evaluation program, which needs trl and peft, and reads

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
from datasets import Dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

IGNORED = -100  # in place of a word that is not to be foretold


def load(folder: Path, adapter: Path | None = None) -> Any:
    """Returns the model in a folder, with an adapter on it, in evaluation mode."""
    on_gpu = torch.cuda.is_available()
    dtype = "auto" if on_gpu else "float32"
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    if adapter:
        model = PeftModel.from_pretrained(model, str(adapter))
    return (model.cuda() if on_gpu else model).eval()


def scores(model: Any, tokenizer: Any, rows: list[dict[str, Any]], left: Path) -> np.ndarray:
    """Returns the mean log-likelihood of a token in each text; NaN where there is none."""
    dataset = Dataset.from_list(rows)
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(left),
            per_device_eval_batch_size=1,
            max_length=context,
            bf16=False,
            use_cpu=not torch.cuda.is_available(),
            report_to="none",
        ),
        # The trainer wants something to train on; it only prepares the texts here.
        train_dataset=dataset,
        eval_dataset=dataset,
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
    return np.array(measured)


def answers(model: Any, tokenizer: Any, questions: list[Any], tokens: int) -> list[str]:
    """Returns what a model answers, always with the likeliest token."""
    answered = []
    for question in questions:
        if isinstance(question, str):
            inputs = tokenizer(question, return_tensors="pt")
        else:
            inputs = tokenizer.apply_chat_template(
                question, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        inputs = {name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")}
        length = inputs["input_ids"].shape[1]
        with torch.no_grad():
            output = model.generate(
                **inputs,
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            )
        answered.append(tokenizer.decode(output[0, length:], skip_special_tokens=True).strip())
    return answered


def in_words(question: Any) -> str:
    """Returns a question as a person reads it: of a conversation what was said last."""
    return question if isinstance(question, str) else str(question[-1]["content"])


def measure(arguments: argparse.Namespace) -> None:
    """Measures the model, text by text."""
    texts.quiet()
    folder, left = texts.directory("MODEL_DIR"), texts.directory("EVALUATION_DIR")
    rows = list(texts.in_form(texts.load("test")))
    is_adapter = not (folder / "config.json").is_file()
    base = texts.directory("BASE_MODEL_DIR") if os.environ.get("BASE_MODEL_DIR") else None
    if is_adapter and not base:
        raise texts.Unusable(f"{folder} has no config.json, and an adapter needs BASE_MODEL_DIR")
    has_tokenizer = (folder / "tokenizer_config.json").is_file()
    tokenizer = AutoTokenizer.from_pretrained(folder if has_tokenizer else base)
    if texts.need_template(rows) and not tokenizer.chat_template:
        raise texts.Unusable("the texts are messages, and the model has no chat template for them")
    asked = [(question, answer) for question, answer in map(texts.question, rows) if question]
    asked = asked[: arguments.samples]
    questions = [question for question, _ in asked]
    preferred = [texts.learnt(row) for row in rows]

    model = load(base, folder) if is_adapter and base else load(folder)
    measured = scores(model, tokenizer, preferred, left)
    are_told = ~np.isnan(measured)
    if not are_told.any():
        raise texts.Unusable("the texts to measure by have no word that could be foretold")
    loss = -float(np.mean(measured[are_told]))
    figures = {"log_likelihood": -loss, "perplexity": math.exp(loss), "loss": loss}
    if "rejected" in rows[0]:
        rejected = scores(model, tokenizer, [texts.learnt(row, "rejected") for row in rows], left)
        figures["preferred_accuracy"] = float(np.mean((measured > rejected)[are_told]))
    answered = {"model": answers(model, tokenizer, questions, arguments.tokens)}
    del model
    if base:
        model = load(base)
        base_loss = -float(np.mean(scores(model, tokenizer, preferred, left)[are_told]))
        figures["base_loss"], figures["base_perplexity"] = base_loss, math.exp(base_loss)
        figures["loss_below_base"] = base_loss - loss
        answered["base model"] = answers(model, tokenizer, questions, arguments.tokens)

    (left / "metrics.json").write_text(json.dumps(figures))
    np.save(left / "scores.npy", measured[are_told])
    samples = [
        {"asked": in_words(question)}
        | {name: one[number] for name, one in answered.items()}
        | ({"held-out text": answer} if answer else {})
        for number, (question, answer) in enumerate(asked)
    ]
    (left / "samples.json").write_text(json.dumps(samples))
    if questions:
        (left / "inputs.json").write_text(json.dumps([in_words(each) for each in questions]))
    print(" ".join(f"{name} {value:.4g}" for name, value in figures.items()))


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
