"""Fits a forest to data/train.csv."""

import argparse
import os
import pickle
from pathlib import Path

import pandas
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

parser = argparse.ArgumentParser()
parser.add_argument("--trees", type=int, default=200)
args = parser.parse_args()

rows = pandas.read_csv("data/train.csv")
y = rows.pop("label")
model = make_pipeline(
    StandardScaler(), RandomForestClassifier(n_estimators=args.trees, random_state=0)
)
for fold, accuracy in enumerate(cross_val_score(model, rows.to_numpy(), y, cv=5), 1):
    print(f"step {fold}: val accuracy {accuracy:.4f}")
model.fit(rows.to_numpy(), y)
(Path(os.environ.get("MODEL_DIR", ".")) / "model.pkl").write_bytes(pickle.dumps(model))
