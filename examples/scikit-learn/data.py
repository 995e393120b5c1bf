"""Writes data/train.csv and data/test.csv: 569 tumours by 30 measurements, benign (1) or not."""

from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

rows = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "label"})
train, test = train_test_split(rows, test_size=0.3, random_state=0, stratify=rows["label"])
Path("data").mkdir(exist_ok=True)
train.to_csv("data/train.csv", index=False)
test.to_csv("data/test.csv", index=False)
print(f"data/train.csv {len(train)} rows, data/test.csv {len(test)} rows")
