"""trireme/evaluation/samples.py: held-out samples of a CSV or Parquet file."""

import json

import numpy as np
import pandas as pd
import pytest

from trireme.data import forms
from trireme.evaluation import samples
from trireme.evaluation.held_out import held_out
from trireme.models.trained import NotLoadable

TABLE = pd.DataFrame({"a": [1.5, 2.5, None], "b": [1, 2, 3], "target": [0, 2, 1]})


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("labels", "about", "kind", "expected"),
    [
        ([0, 2, 1], {}, "i", [0, 2, 1]),
        ([0.5, 2.0, 1.0], {}, "f", [0.5, 2, 1]),
        (["ant", "cat", "bee"], {"classes": ["ant", "bee", "cat"]}, "i", [0, 2, 1]),
        ([7, 9, 8], {"classes": [7, 8, 9]}, "i", [0, 2, 1]),
        ([True, False, True], {"classes": ["False", "True"]}, "i", [1, 0, 1]),
    ],
)
def test_a_table_is_numbers_and_labels(tmp_path, suffix, labels, about, kind, expected):
    table = TABLE.assign(target=labels)
    if suffix == ".csv":
        table.to_csv(tmp_path / "test.csv", index=False, sep=";")
    else:
        table.to_parquet(tmp_path / "test.parquet")
    (tmp_path / "dataset.json").write_text(json.dumps(about))
    assert forms.test_split(tmp_path) == f"test{suffix}"
    assert samples.has_split(tmp_path, "test") and not samples.has_split(tmp_path, "validation")
    found = held_out(tmp_path)
    assert found.inputs.dtype == np.float32
    assert np.array_equal(found.inputs, [[1.5, 1], [2.5, 2], [np.nan, 3]], equal_nan=True)
    assert (found.labels.dtype.kind, found.labels.tolist()) == (kind, expected)


def test_a_dataset_says_which_column_is_the_label(tmp_path):
    TABLE.to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "dataset.json").write_text('{"label": "b"}')
    assert held_out(tmp_path).labels.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n", "does not say which column is the label; name one with dataset.json in the"),
        ("text,y\ngood film,1\n", "the column 'text' of test.csv holds what is no number, 'good f"),
        ("a,y\n1,cat\n", "test.csv has texts as 'y'; list them in dataset.json"),
        ("a,y\n1,\n", "test.csv has no 'y' in row 1"),
        ("a,y\n", "test.csv has no rows"),
        ("", "test.csv does not name two columns"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_in_one_sentence(tmp_path, content, said):
    (tmp_path / "test.csv").write_text(content)
    with pytest.raises(NotLoadable) as refused:
        held_out(tmp_path)
    assert said in str(refused.value)
