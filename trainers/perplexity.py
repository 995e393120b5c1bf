"""Measure a language model of transformers by how well it foretells held-out texts.

An evaluation program, which needs trl, and reads

    MODEL_DIR       the model and its tokenizer, as ``save_pretrained`` leaves them
    DATA_DIR        texts, see texts.py
    EVALUATION_DIR  what it leaves: metrics.json, and scores.npy, the mean log-likelihood of a
                    token in each text, by which models are compared

Copy along: texts.py
"""

import json
import math
from typing import Any

import numpy as np
import texts
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

IGNORED = -100  # in place of a word that is not to be foretold


def measure() -> None:
    """Measures the model, text by text."""
    texts.quiet()
    model, left = texts.directory("MODEL_DIR"), texts.directory("EVALUATION_DIR")
    on_gpu = torch.cuda.is_available()
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="auto" if on_gpu else "float32"),
        args=SFTConfig(
            output_dir=str(left),
            per_device_eval_batch_size=1,
            max_length=None,
            bf16=False,
            use_cpu=not on_gpu,
            report_to="none",
        ),
        # The trainer wants something to train on; it only prepares the texts here.
        train_dataset=texts.load("test"),
        eval_dataset=texts.load("test"),
        processing_class=AutoTokenizer.from_pretrained(model),
    )
    network: Any = trainer.model
    network.eval()
    scores = []
    with torch.no_grad():
        for batch in trainer.get_eval_dataloader():
            if (batch["labels"][:, 1:] == IGNORED).all():
                continue  # the first word is given, and it has no other
            inputs = {name: value.to(network.device) for name, value in batch.items()}
            scores.append(-float(network(**inputs).loss))
    if not scores:
        raise texts.Unusable("the texts to measure by have no word that could be foretold")
    mean = float(np.mean(scores))
    figures = {"log_likelihood": mean, "perplexity": math.exp(-mean)}
    (left / "metrics.json").write_text(json.dumps(figures))
    np.save(left / "scores.npy", np.array(scores))
    print(" ".join(f"{name} {value:.4g}" for name, value in figures.items()))


def main() -> None:
    """Measures the model; what cannot be used is one sentence and exit status 2."""
    try:
        measure()
    except texts.Unusable as error:
        print(error, flush=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
