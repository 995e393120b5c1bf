"""trireme/data/holdout.py: a dataset without a test split gets one."""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from trireme.data.description import described
from trireme.data.holdout import for_evaluation
from trireme.data.staging import stage
from trireme.errors import InputError
from trireme.evaluation.held_out import held_out
from trireme.evaluation.kinds import class_names
from trireme.job.job import TrainingJob
from trireme.trainers import splits


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def split(source, tmp_path):
    """Stages the source with options; returns what training sees, and what the evaluation sees."""

    def staged(**options):
        dataset = described(str(source), "", {"holdout": 0.2, **options})
        result = stage(dataset, tmp_path / "workspace" / "data", tmp_path / "cache")
        return Path(result.path), for_evaluation(Path(result.path)), result

    return staged


def flowers(count=100, label="species", names=("rose", "tulip")):
    """Returns rows of a table: every fifth is of the second class."""
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "width": draw.normal(size=count).round(4),
            "height": draw.integers(0, 9, count),
            label: [names[number % 5 == 0] for number in range(count)],
        }
    )


def write(table, file):
    table.to_csv(file, index=False) if file.suffix == ".csv" else table.to_parquet(file)


def read(file):
    return pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)


@pytest.mark.parametrize("name", ["flowers.csv", "more/train.csv", "train.parquet"])
def test_a_table_is_split_by_its_classes_and_training_does_not_see_the_other_part(
    source, split, name
):
    file = source / name
    file.parent.mkdir(exist_ok=True)
    (source / "readme.md").write_text("flowers")
    write(flowers(), file)
    data, whole, result = split(label="species")
    assert {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()} == {
        name,
        "readme.md",
    }
    training, test = read(data / name), read(whole / f"test{file.suffix}")
    assert read(whole / name).equals(training)
    assert Counter(training.species) == {"tulip": 16, "rose": 64}
    assert Counter(test.species) == {"tulip": 4, "rose": 16}
    both = pd.concat([training, test]).sort_values(["width", "height"], ignore_index=True)
    assert both.equals(flowers().sort_values(["width", "height"], ignore_index=True))
    samples = held_out(whole)
    assert samples.inputs.dtype == np.float32
    assert np.allclose(samples.inputs, test[["width", "height"]])
    assert class_names(whole) == ["rose", "tulip"]
    assert samples.labels.tolist() == (test.species == "tulip").astype(int).tolist()
    assert result.files == 4  # with test.csv and dataset.json


def test_the_same_data_are_split_alike_and_a_share_or_label_of_its_own_is_another_dataset(
    source, split, tmp_path
):
    write(flowers(), source / "flowers.csv")
    data, whole, first = split(label="species")
    rows = set((whole / "test.csv").read_text().splitlines())
    of_training = (data / "flowers.csv").resolve()
    _, _, again = split(label="species")
    assert again.fingerprint == first.fingerprint and of_training.exists()
    fingerprints = {first.fingerprint}
    for options in ({"label": "height"}, {"label": "species", "holdout": 0.3}):
        fingerprints.add(split(**options)[2].fingerprint)
    plain = stage(str(source), tmp_path / "other", tmp_path / "cache")
    assert len(fingerprints | {plain.fingerprint}) == 4
    # In another order, and with more rows, most of those held out are so still.
    grown = pd.concat([flowers(), flowers(10).assign(width=7.5)])
    write(grown.sample(frac=1, random_state=1), source / "flowers.csv")
    _, whole, _ = split(label="species")
    assert len(rows & set((whole / "test.csv").read_text().splitlines())) > 18


def test_rows_are_kept_letter_by_letter(source, split):
    lines = ["\ufefftext;label", '"a ""quoted""; text";1', '"two\r\nlines";0', "ü;1", "é ;0"]
    (source / "texts.csv").write_bytes("\r\n".join(lines).encode())
    data, whole, _ = split(holdout=0.5)
    with (whole / "test.csv").open(newline="") as stream:
        assert stream.readline() == "\ufefftext;label\r\n"
    kept = b"".join(
        file.read_bytes().partition(b"\r\n")[2] for file in (data / "texts.csv", whole / "test.csv")
    )
    for line in lines[1:]:
        assert line.encode() in kept
    assert len(kept) == len("\r\n".join(lines[1:]).encode()) + len("\n")


@pytest.mark.parametrize("y", ["classes", "floats", "one hot"])
def test_train_npz_is_split_whatever_its_labels_are(source, split, y):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(50, 2, 3)).astype(np.float32)
    labels = np.arange(50) % 10 == 0
    y = {
        "classes": labels.astype(np.int64),
        "floats": x[:, 0, 0],
        "one hot": np.eye(2)[labels * 1],
    }[y]
    np.savez_compressed(
        source / "train.npz", x=x, y=y, names=np.array(["ä", "b"]), odd=np.float64(3)
    )
    data, whole, _ = split()
    with np.load(data / "train.npz") as training, np.load(whole / "test.npz") as test:
        assert (len(training["x"]), len(test["x"])) == (40, 10)
        assert training["names"].tolist() == test["names"].tolist() == ["ä", "b"]
        assert training["odd"] == 3
        both = np.concatenate([training["x"], test["x"]])
        for name, array in (("x", x), ("y", y)):
            joined = np.concatenate([training[name], test[name]])
            assert joined.dtype == array.dtype
            for row, sample in zip(joined, both, strict=True):
                (place,) = np.flatnonzero((x == sample).all((1, 2)))
                assert np.array_equal(row, array[place])
        if y.dtype == np.int64:
            assert (training["y"].sum(), test["y"].sum()) == (4, 1)
    assert not (data / "test.npz").exists()


@pytest.mark.parametrize("folder", ["", "train"])
def test_pictures_are_split_class_by_class(source, split, folder):
    for name, count in (("cat", 10), ("dog", 5), ("rare", 1)):
        (source / folder / name).mkdir(parents=True)
        for number in range(count):
            picture = Image.new("L", (4, 3), number)
            picture.save(source / folder / name / f"{number}.png")
    data, whole, _ = split()
    counted = {one: len([*(data / folder / one).iterdir()]) for one in ("cat", "dog", "rare")}
    assert counted == {"cat": 8, "dog": 4, "rare": 1}
    assert not (data / "test").exists()
    x, y = splits.load(whole, "test", ValueError)
    assert (x.shape, sorted(y)) == ((3, 1, 3, 4), [0, 0, 1])
    assert class_names(whole) == ["cat", "dog", "rare"]
    assert splits.load(whole, "train", ValueError)[0].shape == (13, 1, 3, 4)


def test_whole_numbers_that_are_no_classes_are_split_too(source, split):
    table = flowers().assign(price=range(100)).drop(columns="species")
    write(table, source / "prices.csv")
    data, whole, _ = split(label="price")
    assert (len(read(data / "prices.csv")), len(read(whole / "test.csv"))) == (80, 20)
    assert held_out(whole).labels.dtype == np.int64


def _csv(text):
    return lambda folder: (folder / "a.csv").write_text(text)


def _pictures_of_parts(folder):
    for name in ("train", "val"):
        (folder / name).mkdir()
        Image.new("L", (2, 2)).save(folder / name / "1.png")


def _two(folder):
    for name in "ab":
        (folder / f"{name}.csv").write_text("x,y\n1,2\n")


def _objects(folder):
    np.savez(folder / "train.npz", x=np.zeros(3), y=np.array([1, "a", None], object))


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (_csv("a,b\n1,2\n"), {}, "a.csv does not say which column is the label; name one with "),
        (_csv("a,b\n1,2\n"), {"label": "c"}, "a.csv has no column 'c'; name one with "),
        (_csv("a,y\n1,2\n3,\n"), {}, "a.csv has no 'y' in row 2"),
        (_csv("a,y\n1,2\n3\n"), {}, "a.csv has 2 columns, and 1 in line 3"),
        (_csv("a,y\n1,2\n"), {}, "a share of 0.2 of 1 samples leaves one part without any"),
        (_csv('a,y\n1,"2\n'), {}, "a.csv cannot be read as CSV: unexpected end of data"),
        (_two, {}, "the dataset holds a.csv and b.csv; dataset_options.include and exclude"),
        (_pictures_of_parts, {}, "the pictures are in a folder train, and not in one for each"),
        (_objects, {}, "the array y holds objects or records, and not numbers"),
        (lambda folder: (folder / "a.txt").touch(), {}, "the dataset holds nothing that can be"),
        (
            lambda folder: (folder / "train.npz").write_bytes(b"no archive"),
            {},
            "File is not a zip file",
        ),
        (
            lambda folder: (folder / "test.csv").touch(),
            {},
            "the dataset has a test split already, test.csv",
        ),
    ],
)
def test_what_cannot_be_split_is_refused_in_one_sentence(
    source, split, make, options, said, tmp_path
):
    make(source)
    with pytest.raises(InputError) as refused:
        split(**options)
    assert str(refused.value).startswith(f"dataset_options.holdout: {said}")
    assert [*(tmp_path / "cache" / "partial").iterdir()] == []


def test_without_pyarrow_a_parquet_file_is_refused(source, split, monkeypatch):
    write(flowers(), source / "flowers.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"flowers\.parquet is read with pyarrow, which this step"):
        split(label="species")


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("/data", {"holdout": 1.0}, "dataset_options.holdout: Input should be less than 1"),
        ("/data", {"label": "a"}, "label goes with holdout"),
        ("pvc://claim/a", {"holdout": 0.2}, "holdout does not go with pvc:// that is mounted"),
    ],
)
def test_options_that_do_not_go_together_are_refused(uri, options, said):
    with pytest.raises(InputError, match=said):
        described(uri, "", options)


def test_a_job_has_no_evaluation_to_hold_samples_out_for():
    with pytest.raises(ValueError, match="goes with a pipeline"):
        TrainingJob.model_validate(
            {
                "name": "a",
                "framework": "pytorch",
                "entrypoint": "a.py",
                "dataset": {"uri": "/a", "holdout": 0.2},
            }
        )


def test_what_somebody_has_written_to_is_made_anew(source, split):
    write(flowers(), source / "flowers.csv")
    _, whole, _ = split(label="species")
    kept = (whole / "test.csv").read_text()
    file = whole / "test.csv"
    file.chmod(0o644)
    file.write_text("x")
    _, whole, _ = split(label="species")
    assert (whole / "test.csv").read_text() == kept


def test_what_a_dataset_says_of_itself_stays(source, split):
    write(flowers(label="target"), source / "flowers.csv")
    (source / "dataset.json").write_text('{"licence": "CC0"}')
    data, whole, _ = split()
    about = json.loads((whole / "dataset.json").read_text())
    assert about == {
        "licence": "CC0",
        "label": "target",
        "classes": ["rose", "tulip"],
        "holdout": {"share": 0.2, "training": 80, "held_out": 20},
    }
    assert (data / "dataset.json").read_text() == '{"licence": "CC0"}'
