"""The step NAME."""

import pytest

from trireme.components.NAME.component import NAME
from trireme.errors import InputError
from trireme.NAME.work import work
from trireme.tracking import journal


def test_its_work():
    assert work("data") == "DATA"


def test_a_mistake_is_one_sentence():
    with pytest.raises(InputError, match="text: must not be empty"):
        work("")


def test_as_a_step_it_is_recorded(tmp_path, untracked):
    assert NAME.python_func(text="data", workspace=str(tmp_path)) == "DATA"
    assert journal.summary_of(tmp_path, "NAME".replace("_", "-")) == "4 letters"
