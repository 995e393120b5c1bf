"""The journal of a step: trireme/tracking/journal.py."""

import pytest
from fuzzing import changed_bytes, corpus, fuzz, read_or_refused

from trireme.finish import outcome
from trireme.tracking import journal

VALID = [file.read_bytes() for file in corpus("journal", "valid-*")]


def read(workspace):
    journal.read_all(workspace)
    assert isinstance(journal.summary_of(workspace, "train"), str)
    assert isinstance(journal.end_of(workspace, "train"), str)
    assert isinstance(journal.status_of(workspace, "train"), str)
    journal.span_of(workspace, "train")
    return True


def write(content, workspace):
    file = journal.journal_path(workspace, "train")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


@pytest.mark.parametrize("file", corpus("journal"), ids=lambda file: file.stem)
def test_the_corpus(file, tmp_path):
    write(file.read_bytes(), tmp_path)
    assert bool(read_or_refused(read, tmp_path)) == file.stem.startswith("valid-")


@fuzz(200, content=changed_bytes(VALID))
def test_a_journal_is_read_or_refused_in_a_sentence(content, tmp_path, untracked):
    write(content, tmp_path)
    read_or_refused(read, tmp_path)
    read_or_refused(outcome.read, tmp_path, "sweep", "run", "FAILED", "it failed")
