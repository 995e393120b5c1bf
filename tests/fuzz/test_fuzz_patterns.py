"""Patterns of files: trireme/data/patterns.py."""

import re

from fuzzing import changed_text, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.data.description import described
from trireme.data.patterns import matcher, selector

PATTERNS = ["*.jpg", "train/**/*.csv", "**/bad/", "[!a-c]?[]x].txt", "a/**/b/**/c/*-[0-9]*.npz"]
PATHS = ["train/a/b.csv", "x/bad/a.jpg", "a" * 255, "/".join(["a" * 12] * 200), "a/b/" * 60 + "c"]
LONGEST = 3_500  # characters of a path, as a listing has it


def parts(alphabet):
    """Returns what is made of few pieces, again and again, which is where matching is slow."""
    pieces = st.lists(st.sampled_from(alphabet), min_size=1, max_size=6).map("".join)
    return st.builds(
        lambda piece, times, end: times * piece + end, pieces, st.integers(1, 900), pieces
    )


def select(include, exclude, path):
    dataset = described("/data", "", {"include": include, "exclude": exclude})
    return selector(dataset.include, dataset.exclude)(path)


def plainly_matches(pattern, path):
    """Whether a pattern of ``*``, ``**``, ``/`` and letters matches, in whatever time it takes."""
    if "/" not in pattern.rstrip("/"):
        pattern = f"**/{pattern}"
    if pattern.endswith("/"):
        pattern += "**"
    expression = re.sub(r"(?<![^/])\*\*/|\*\*|\*", lambda found: WORDS[found[0]], pattern)
    return re.fullmatch(expression, path) is not None


WORDS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*"}

pattern = parts(["*", "**", "/", "?", "a", "[ab]", "[!b]", "b"]) | changed_text(PATTERNS)
path = parts(["a", "/", "b", "aa"]) | changed_text(PATHS) | st.sampled_from(PATHS)


@fuzz(150, include=st.lists(pattern, max_size=5), exclude=st.lists(pattern, max_size=2), path=path)
def test_a_path_is_matched_soon_or_the_pattern_refused(include, exclude, path):
    read_or_refused(select, include, exclude, path[:LONGEST])


@fuzz(
    500,
    pattern=st.lists(st.sampled_from(["*", "**", "/", "/**/", "a", "b"]), max_size=9),
    path=st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=5),
)
def test_it_matches_what_it_says(pattern, path):
    pattern, path = "".join(pattern).strip("/"), "/".join(path)
    if pattern:
        assert matcher([pattern])(path) == plainly_matches(pattern, path)
