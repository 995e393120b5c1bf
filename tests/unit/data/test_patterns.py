"""trireme/data/patterns.py."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.data.patterns import matcher, selector


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.jpg", ["a.jpg", "x/y/a.jpg", ".jpg"], ["a.jpg.txt", "ajpg", "a.jpg/b"]),
        ("train/*", ["train/a"], ["train", "train/a/b", "x/train/a"]),
        ("train/**", ["train/a", "train/a/b"], ["training/a", "x/train/a"]),
        ("train/", ["train/a", "x/train/a/b"], ["train", "training/a"]),
        ("a/train/", ["a/train/b"], ["x/a/train/b"]),
        ("**/train/*.csv", ["train/a.csv", "x/y/train/a.csv"], ["train/x/a.csv"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("**", ["a", "a/b"], []),
        ("?.txt", ["a.txt", "x/b.txt"], ["ab.txt", "/.txt"]),
        ("[a-c].txt", ["b.txt"], ["d.txt", "-.txt"]),
        ("[!a-c].txt", ["d.txt"], ["b.txt", "/.txt"]),
        ("[]].txt", ["].txt"], ["a.txt"]),
        ("a[.txt", ["a[.txt"], ["a.txt"]),
        ("a.b+(c)|d$", ["a.b+(c)|d$"], ["aXb+(c)|d$"]),
        ("a\nb", ["a\nb"], ["a b"]),
        ("/", ["a//b", "/b", "//", "a/b//c", "a//"], ["a/b", "a", "a/b/c"]),
        ("../", ["../a", "a/../b"], ["a/..b/c", "a../b", ".."]),
    ],
)
def test_what_a_pattern_matches(pattern, matching, others):
    matches = matcher([pattern])
    assert [path for path in matching if not matches(path)] == []
    assert [path for path in others if matches(path)] == []


def test_excluded_is_excluded_also_where_it_is_included():
    wanted = selector(["*.jpg", "labels/"], ["**/bad/**", "*.tmp"])
    paths = ["a.jpg", "x/bad/a.jpg", "labels/a.csv", "labels/b.tmp", "a.png"]
    assert [path for path in paths if wanted(path)] == ["a.jpg", "labels/a.csv"]


def test_without_patterns_all_is_wanted():
    assert selector([], [])("any/file")


@given(
    st.text("ab*?!-.", min_size=1).filter(lambda text: "**" not in text),
    st.text("ab-.!", min_size=1),
)
def test_names_match_as_in_a_shell(pattern, name):
    assert matcher([pattern])(name) == fnmatch.fnmatchcase(name, pattern)
