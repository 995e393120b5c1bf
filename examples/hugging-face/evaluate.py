"""Measures the model in MODEL_DIR on data/test.jsonl; writes what was found into EVALUATION_DIR."""

import json
import os
from pathlib import Path

import numpy
from transformers import pipeline

found = Path(os.environ.get("EVALUATION_DIR", "."))
data = Path(os.environ.get("DATA_DIR", "data"))
reviews = [json.loads(line) for line in (data / "test.jsonl").read_text().splitlines()]
classify = pipeline("text-classification", os.environ.get("MODEL_DIR", "model"))
answers = classify([review["text"] for review in reviews], batch_size=32)
right = numpy.array(
    [
        (answer["label"] == "good") == review["label"]
        for answer, review in zip(answers, reviews, strict=True)
    ]
)
(found / "metrics.json").write_text(json.dumps({"accuracy": right.mean()}))
numpy.save(found / "scores.npy", right.astype(float))
(found / "inputs.json").write_text(json.dumps([review["text"] for review in reviews[:8]]))
