"""A data source of another package: what it gives is looked at, and whose it is is said."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from trireme import plugins
from trireme.data import cache
from trireme.data.description import Dataset
from trireme.data.listing import Entry
from trireme.errors import InputError, TriremeError

URI = "shelf://attic/flowers"


class Shelf:
    """One file; a test changes what it lists and reads."""

    readers = 1
    listed = (Entry("a.txt", 5, "1"),)
    pieces = (b"hel", b"lo")

    def __init__(self, dataset):
        assert dataset.place.host == "attic"

    def list(self):
        return self.listed

    def read(self, entry, start, length):
        return self.pieces


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    """Fetches a dataset of a Shelf with some attributes, or without them."""
    module = ModuleType("acme_shelf")
    monkeypatch.setitem(sys.modules, "acme_shelf", module)
    entry = EntryPoint("shelf", "acme_shelf:Shelf", plugins.DATA_SOURCES)
    monkeypatch.setattr(plugins, "_all", lambda: [entry])

    def fetch(**attributes):
        module.Shelf = type("Shelf", (Shelf,), attributes)
        return cache.fetch(Dataset.from_text(URI), tmp_path / "cache")

    return fetch


@pytest.mark.parametrize(
    "listed",
    [Shelf.listed, [("a.txt", 5, "1")], iter([Entry("a.txt", 5, "1")])],
    ids=["a tuple", "no Entry", "an iterator"],
)
def test_what_it_lists_becomes_a_list_of_entries(fetched, listed, tmp_path):
    fetched(listed=listed)
    assert [file.read_text() for file in (tmp_path / "cache").rglob("a.txt")] == ["hello"]


def fail(self):
    raise OSError("the door is shut")


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"list": fail}, "failed in list: OSError: the door is shut"),
        ({"list": lambda self: {}["kaput"]}, "failed in list: KeyError: 'kaput'"),
        ({"listed": None}, "failed in list: TypeError: 'NoneType' object is not iterable"),
        ({"listed": ["a.txt"]}, "failed in list: TypeError: 'a.txt' is no Entry"),
        ({"listed": [("a.txt", "5", "1")]}, "failed in list: TypeError: size '5' of 'a.txt' is no"),
        (
            {"listed": [("a.txt", 5, 1)]},
            "failed in list: TypeError: version 1 of 'a.txt' is no str",
        ),
        ({"listed": [("a.txt", -5, "")]}, "failed in list: ValueError: size -5 of 'a.txt' is less"),
        ({"pieces": None}, "failed in read: TypeError: 'NoneType' object is not iterable"),
        ({"pieces": ["hello"]}, "failed in read: TypeError: memoryview: a bytes-like object is"),
        ({"__init__": lambda self: None}, "failed in __init__: TypeError: "),
        ({"list": None}, "has no list"),
        ({"read": 3}, "has no read"),
        ({"readers": "many"}, "has no readers, a number from 1"),
    ],
)
def test_what_is_wrong_is_one_sentence(fetched, attributes, said):
    with pytest.raises(TriremeError) as refused:
        fetched(**attributes)
    whose = f"dataset_uri {URI!r}: Shelf, a data source of acme_shelf, "
    assert str(refused.value).startswith(whose + said)


def test_its_own_sentences_stay(fetched):
    def closed(self):
        raise InputError("the attic is closed")

    with pytest.raises(InputError, match=r"^the attic is closed$"):
        fetched(list=closed)


def test_its_scheme_is_among_what_is_accepted(fetched):
    with pytest.raises(InputError, match="https://, http://, shelf://, and builtin://none for no"):
        Dataset.from_text("cupboard://attic/flowers")
