"""Job files: trireme/job/."""

import pytest
import yaml
from fuzzing import changed_text, changed_value, corpus, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.job import reading
from trireme.job.job import TrainingJob
from trireme.manifests import render, to_yaml
from trireme.pipeline import saved

VALID = [file.read_text() for file in corpus("job", "valid-*")]


def read(text):
    return described(reading.from_yaml(text))


def described(fields):
    """Does with a job's fields what ``trireme job render`` does, but for what they name."""
    job = TrainingJob.create(**saved.expanded_job(fields))
    return to_yaml(render(job))


@pytest.mark.parametrize("file", corpus("job"), ids=lambda file: file.stem)
def test_the_corpus(file):
    manifest = read_or_refused(read, file.read_text())
    assert bool(manifest) == file.stem.startswith("valid-")


@fuzz(120, text=changed_text(VALID) | st.text())
def test_a_job_file_is_read_or_refused_in_a_sentence(text):
    read_or_refused(read, text)


@fuzz(200, fields=changed_value([yaml.safe_load(text) for text in VALID]))
def test_the_fields_of_a_job_are_taken_or_refused_in_a_sentence(fields):
    if isinstance(fields, dict) and all(isinstance(name, str) for name in fields):
        read_or_refused(described, fields)
