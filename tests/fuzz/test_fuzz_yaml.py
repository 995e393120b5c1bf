"""YAML as such: trireme/text/yaml_text.py."""

import pytest
from fuzzing import changed_text, corpus, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.text import yaml_text

VALID = [file.read_text() for file in corpus("yaml", "valid-*")]
LARGEST = yaml_text.LARGEST


def read(text):
    return yaml_text.parse(text, "it")


@pytest.mark.parametrize("file", corpus("yaml"), ids=lambda file: file.stem)
def test_the_corpus(file):
    content = read_or_refused(read, file.read_text())
    assert bool(content) == file.stem.startswith("valid-")


@pytest.mark.parametrize("part", ["[", "[1, ", "{a: ", "? ", "- ", "a: *a\n", "- &a [*a]\n", "1:1"])
def test_a_large_file_takes_no_longer(part):
    read_or_refused(read, (LARGEST // len(part) * part)[:LARGEST], within=30)


@fuzz(200, text=changed_text(VALID) | st.text())
def test_yaml_is_read_or_refused_in_a_sentence(text):
    read_or_refused(read, text)


@fuzz(50, content=st.binary())
def test_a_file_of_anything_is_read_or_refused_in_a_sentence(content, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_bytes(content)
    read_or_refused(yaml_text.read, file, "it")
