"""Writes data/train.csv and data/test.csv: 178 wines of three growers, by 13 measurements."""

from pathlib import Path

from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

wines = load_wine(as_frame=True).frame.rename(columns={"target": "label"})
train, test = train_test_split(wines, test_size=60, random_state=0, stratify=wines["label"])
Path("data").mkdir(exist_ok=True)
train.to_csv("data/train.csv", index=False)
test.to_csv("data/test.csv", index=False)
print(f"data/train.csv {len(train)} rows, data/test.csv {len(test)} rows")
