"""Measures the model in MODEL_DIR on data/test.npz; writes what was found into EVALUATION_DIR."""

import json
import os
from pathlib import Path

import numpy
import xgboost

found = Path(os.environ.get("EVALUATION_DIR", "."))
test = numpy.load(Path(os.environ.get("DATA_DIR", "data")) / "test.npz")
model = xgboost.Booster(model_file=Path(os.environ.get("MODEL_DIR", ".")) / "model.ubj")
right = model.predict(xgboost.DMatrix(test["x"])) == test["y"]
(found / "metrics.json").write_text(json.dumps({"accuracy": right.mean()}))
numpy.save(found / "scores.npy", right.astype(float))
numpy.save(found / "inputs.npy", test["x"][:8])
