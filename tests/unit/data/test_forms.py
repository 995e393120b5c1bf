"""trireme/data/forms.py: whether a model can be evaluated on a dataset, told without NumPy."""

from functools import partial

import numpy as np
import pytest
from PIL import Image

from trireme.data import forms
from trireme.data.staging import stage
from trireme.evaluation import samples
from trireme.tracking import journal


def _folders(split):
    def make(folder):
        (folder / split / "cat").mkdir(parents=True)
        Image.new("L", (2, 2)).save(folder / split / "cat" / "1.PNG")

    return make


def _files(*names):
    def make(folder):
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).touch()

    return make


@pytest.mark.parametrize(
    ("make", "is_there"),
    [
        (_folders("test"), True),
        (_folders("train"), False),
        (_files("test/x.npy", "test/y.npy"), True),
        (_files("test.npz"), True),
        (_files("test.csv"), True),
        (_files("test.parquet"), True),
        (_files("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"), True),
        (_files("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"), True),
        (_files("train.npz", "data.csv", "test/readme.txt"), False),
    ],
)
def test_a_split_is_found_as_the_evaluation_finds_it(tmp_path, make, is_there):
    make(tmp_path)
    assert bool(forms.test_split(tmp_path)) is samples.has_split(tmp_path, "test") is is_there


def _npz(**arrays):
    return lambda folder: np.savez(folder / "test.npz", **arrays)


def _csv(text, about="", name="test.csv"):
    def make(folder):
        (folder / name).write_text(text)
        (folder / "dataset.json").write_text(about)

    return make


_table = partial(_csv, name="table.csv")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_files("train.csv"), "the dataset has no test split, so the model will not be evaluated"),
        (_files("test.npz"), "test.npz cannot be read: File is not a zip file, so the model will"),
        (_npz(x=np.zeros(3)), "test.npz has no array y, so the model will not be evaluated"),
        (_npz(x=np.zeros(3), y=np.zeros(3)), ""),
        (_csv("a,b\n1,2\n"), "test.csv cannot be read: test.csv does not say which column"),
        (_csv("a,b\n1,2\n", '{"label": "b"}'), ""),
        (_csv("a,y\n1,2\n", "no JSON"), ""),
        (lambda folder: None, "without a dataset no model will be evaluated or registered; give"),
    ],
)
def test_what_is_lacking_is_told_with_what_to_do(tmp_path, make, said):
    make(tmp_path)
    told = forms.unfit(tmp_path)
    assert told.startswith(said) and bool(told) is bool(said)
    assert not told or "give " in told.rpartition("; ")[2]


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (_files("train.npz"), '{"holdout": 0.2}'),
        (_table("a,y\n1,2\n"), '{"holdout": 0.2}'),
        (_table("a,price\n1,2\n"), '{"holdout": 0.2, "label": "COLUMN"}'),
        (_table("a,price\n1,2\n", '{"label": "price"}'), '{"holdout": 0.2}'),
    ],
)
def test_the_options_for_holding_out_name_a_label_where_a_table_needs_one(tmp_path, make, options):
    make(tmp_path)
    assert f"give -p dataset_options='{options}' or" in forms.unfit(tmp_path)


@pytest.mark.parametrize(
    ("options", "is_told"), [({}, True), ({"entrypoint": "evaluate.py"}, False), (None, False)]
)
def test_the_step_says_it_before_training_where_no_program_evaluates(tmp_path, options, is_told):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "data.csv").write_text("a,y\n1,2\n3,4\n")
    with journal.opened(tmp_path, "dataset"):
        stage(str(tmp_path / "source"), tmp_path / "data", tmp_path / "cache", evaluation=options)
    said = journal.summary_of(tmp_path, "dataset")
    assert ("; warning: the dataset has no test split" in said) is is_told
