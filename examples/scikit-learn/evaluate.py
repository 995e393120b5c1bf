"""Measures the model in MODEL_DIR on data/test.csv; writes what was found into EVALUATION_DIR."""

import json
import os
import pickle
from pathlib import Path

import numpy
import pandas
from sklearn.metrics import roc_auc_score

found = Path(os.environ.get("EVALUATION_DIR", "."))
rows = pandas.read_csv(Path(os.environ.get("DATA_DIR", "data")) / "test.csv")
y = rows.pop("label").to_numpy()
x = rows.to_numpy()
model = pickle.loads((Path(os.environ.get("MODEL_DIR", ".")) / "model.pkl").read_bytes())
right = model.predict(x) == y
metrics = {"accuracy": right.mean(), "roc_auc": roc_auc_score(y, model.predict_proba(x)[:, 1])}
(found / "metrics.json").write_text(json.dumps(metrics))
numpy.save(found / "scores.npy", right.astype(float))
numpy.save(found / "inputs.npy", x[:8])
