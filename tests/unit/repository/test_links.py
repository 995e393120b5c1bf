"""Links: what the pages, and the messages of commands, point to is there."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
TOPS = (
    *("benchmarks", "components", "docs", "examples", "images", "manifests", "pipelines"),
    "trainers",
)
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for top in TOPS for page in (ROOT / top).rglob("*.md")),
        *DOCS.rglob("*.ipynb"),
    ]
)
MARKDOWN = MarkdownIt().enable("table")


def text_of(page: Path) -> str:
    if page.suffix != ".ipynb":
        return page.read_text()
    cells = json.loads(page.read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return "\n\n".join(texts)


def links_of(page: Path) -> Iterator[str]:
    for token in MARKDOWN.parse(text_of(page)):
        for each in token.children or []:
            link = each.attrGet("href") or each.attrGet("src")
            if link:
                yield unquote(str(link))


def anchors_of(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = set()
    tokens = MARKDOWN.parse(text_of(page))
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            name = re.sub(r"[^\w\- ]", "", words_of(inline).lower()).replace(" ", "-")
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return found


def words_of(inline: Token) -> str:
    kinds = {"text", "code_inline"}
    return "".join(each.content for each in inline.children or [] if each.type in kinds)


def is_there(page: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme:
        return True
    at = (page.parent / parts.path).resolve() if parts.path else page
    inside = at.is_relative_to(ROOT) and at.exists()
    return inside and (not parts.fragment or parts.fragment in anchors_of(at))


@pytest.mark.parametrize("page", PAGES, ids=[str(each.relative_to(ROOT)) for each in PAGES])
def test_what_a_page_links_to_is_there(page):
    assert [link for link in links_of(page) if not is_there(page, link)] == []


def test_pages_that_messages_and_comments_name_are_there():
    tops = ("trireme", *TOPS, "tests")
    files = [file for top in tops for file in (ROOT / top).rglob("*") if file.suffix != ".ipynb"]
    named = set()
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            text = file.read_bytes().decode(errors="replace")
            named |= set(re.findall(r"(?<![\w/.-])docs/[\w/-]+\.md(?:#[\w-]+)?", text))
    assert {"docs/how-to/set-up-a-cluster.md", "docs/how-to/certificates.md"} <= named
    assert [each for each in sorted(named) if not is_there(ROOT / "README.md", each)] == []


def test_headings_have_the_anchors_that_github_gives_them(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `code`, twice\n\n## It's 2.3_x\n\n```\n# none\n```\n\n# A `code`, twice\n")
    assert anchors_of(page) == {"a-code-twice", "its-23_x", "a-code-twice-1"}


def test_the_tests_that_pages_name_are_there():
    there = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"\btest_[a-z0-9_]+\.py\b", text_of(page))
    }
    assert len(named) > 50
    assert [each for each in sorted(named) if each[1] not in there] == []
