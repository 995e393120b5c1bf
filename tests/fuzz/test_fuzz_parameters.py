"""Parameters of pipelines: trireme/pipeline/pipeline.py, and what each pipeline refuses."""

import json

import pytest
import yaml
from fuzzing import SNIPPETS, changed_text, changed_value, corpus, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.pipeline import catalog
from trireme.pipeline.pipeline import TYPES, Parameter

VALID = [file.read_text() for file in corpus("params", "valid-*")]
PIPELINES = ["pytorch-training", "tensorflow-training", "sweep", "retraining"]
PAIRS = [
    *(
        "workers=2",
        "args=[1, 2]",
        'gate={"most": {"rmse": 2.5}}',
        "warm_start=true",
        "min_accuracy=.5",
    ),
    *("code=@name", "dataset=@name", "model_name=a/b", "experiment=é", 'job={"gpu": 1}'),
]
JSON = ["7", "-7.5e3", "true", "null", '"a\\u0041"', '{"a": [1, {"b": null}]}', "[[[]]]", "NaN"]


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Has what all of them import loaded before any is timed."""
    for name in PIPELINES:
        check({}, name)


def check(values, name="sweep"):
    """Does what a command for a cluster does before it asks the cluster."""
    pipeline = catalog.load(name)
    return pipeline.complete(pipeline.accept(values), ["nas"])


def read(text, file):
    file.write_bytes(text.encode(errors="surrogatepass"))
    given = catalog.load("sweep").given([], file)
    return check(given)


@pytest.mark.parametrize("file", corpus("params"), ids=lambda file: file.stem)
def test_the_corpus(file, tmp_path, untracked):
    values = read_or_refused(read, file.read_text(), tmp_path / "params.yaml")
    assert bool(values) == file.stem.startswith("valid-")


@fuzz(100, text=changed_text(VALID))
def test_a_file_of_parameters_is_read_or_refused_in_a_sentence(text, tmp_path, untracked):
    read_or_refused(read, text, tmp_path / "params.yaml")


@fuzz(
    120,
    values=changed_value([yaml.safe_load(text) for text in VALID]),
    name=st.sampled_from(PIPELINES),
)
def test_parameters_are_taken_or_refused_in_a_sentence(values, name, untracked):
    if isinstance(values, dict) and all(isinstance(each, str) for each in values):
        read_or_refused(check, values, name)


@fuzz(
    200,
    kind=st.sampled_from(list(TYPES)),
    text=changed_text(JSON) | st.sampled_from(SNIPPETS) | st.text(),
)
def test_a_value_is_taken_or_refused_in_a_sentence(kind, text):
    value = read_or_refused(Parameter("p", kind, None, "").parse, text)
    json.dumps(value)


@fuzz(100, pairs=st.lists(changed_text(PAIRS) | st.text(), max_size=3))
def test_a_pair_is_taken_or_refused_in_a_sentence(pairs, untracked):
    read_or_refused(catalog.load("retraining").given, pairs, None)
