"""The run that a person means."""

import pytest

from trireme.errors import InputError
from trireme.targets.base import NoSuchRun, Run, Target
from trireme.targets.meant import meant

ID = "0b9e1b0c-7c0d-4e0a-9f5e-3d6f2a1b4c5d"


class Place(Target[Run]):
    """A place with some runs."""

    name = title = "here"

    def __init__(self, *names):
        self.runs = [Run(name, "FINISHED", 0.0, 1.0) for name in names]

    def latest(self):
        return self.runs

    def find(self, name):
        for run in self.runs:
            if name in (run.name, run.id):
                return run
        raise NoSuchRun(name)


@pytest.fixture
def place():
    return Place("sweep-2", "20261128-200636-015b-churn", "sweep-1")


def test_the_newest_is_meant_where_nothing_is_said(place):
    assert meant(place, "") == meant(place, "latest") == "sweep-2"
    with pytest.raises(InputError, match="no runs yet"):
        meant(Place(), "")


def test_a_beginning_of_one_is_that_one(place):
    assert meant(place, "20261128-2006") == "20261128-200636-015b-churn"
    assert meant(place, "sweep-1") == "sweep-1"
    assert meant(place, "nothing") == "nothing"  # which who looks for it tells
    with pytest.raises(InputError, match="'sweep' is the beginning of 2 runs: sweep-2, sweep-1"):
        meant(place, "sweep")


def test_an_id_is_a_name_too_and_a_whole_name_is_not_looked_for(place, monkeypatch):
    place.runs.append(Run("other", "FINISHED", 0.0, 1.0, id=ID))
    assert meant(place, ID[:6]) == meant(place, "oth") == ID
    monkeypatch.setattr(Place, "latest", None)
    assert meant(place, ID) == ID
    assert meant(place, "20261128-200636-ffff-churn") == "20261128-200636-ffff-churn"
