"""The pages are written as docs/writing.md says, as far as that can be measured: make lint."""

import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LONGEST_PARAGRAPH = 80
MEAN_SENTENCE = 17
MARKDOWN = MarkdownIt().enable("table")
# A full stop within a name or before a small letter ends no sentence. A list ends what leads to it.
END_OF_SENTENCE = re.compile(r"[.!?:;](?=\s+[\"'(]?[A-Z`]|\s*$)")


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs and list items of a page, with a word for each piece of code."""
    tokens = MARKDOWN.parse(text)
    for before, token in pairwise(tokens):
        if before.type == "paragraph_open":
            yield words_of(token)


def words_of(token: Token) -> str:
    parts = {"code_inline": "code", "softbreak": " ", "hardbreak": " "}
    return "".join(parts.get(each.type, each.content) for each in token.children or [])


def mean_sentence(text: str) -> float:
    words = sentences = 0
    for paragraph in paragraphs(text):
        words += len(paragraph.split())
        sentences += max(1, len(END_OF_SENTENCE.findall(paragraph)))
    return words / max(sentences, 1)


def names(nav: Any) -> Iterator[str]:
    """Yields the pages of a menu."""
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from names(each)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_is_read_easily(page: Path):
    text = page.read_text()
    long = [each[:60] for each in paragraphs(text) if len(each.split()) > LONGEST_PARAGRAPH]
    assert long == [], f"paragraphs of more than {LONGEST_PARAGRAPH} words"
    assert mean_sentence(text) <= MEAN_SENTENCE


def test_what_is_measured():
    text = "One two three. Four `a.b c` five:\n\n- six seven\n- eight nine; ten\n\n| a | b. C |\n"
    assert list(paragraphs(text))[:2] == ["One two three. Four code five:", "six seven"]
    assert mean_sentence("One two. Three four five six.") == 3
    assert mean_sentence("One 2.3 `x.Y` four, e.g. five.") == 6


def test_the_menu_has_each_page_once():
    menu = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(names(menu)) == [str(page.relative_to(DOCS)) for page in PAGES]


@pytest.mark.parametrize("folder", [page.parent for page in PAGES if page.name == "index.md"])
def test_the_index_of_a_folder_leads_to_each_of_its_pages(folder: Path):
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", (folder / "index.md").read_text()))
    there = {page.name for page in folder.glob("*.md")} - {"index.md"}
    assert there - linked - {"writing.md"} == set()
