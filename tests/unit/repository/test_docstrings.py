"""Docstrings of modules: each begins with a verb or a noun, and says what is in the file."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
QUESTIONS = {"What", "Whether", "Which", "Where", "How", "Who", "When", "Why", "That"}


@pytest.mark.parametrize("top", ["trireme", "components", "pipelines", "trainers"])
def test_a_module_is_told_by_a_noun_or_a_verb(top):
    files = [each for each in (ROOT / top).rglob("*.py") if "__pycache__" not in each.parts]
    assert files
    said = {file: ast.get_docstring(ast.parse(file.read_text())) or "" for file in files}
    empty = {file for file, text in said.items() if not text and file.read_text().strip()}
    questions = {file for file, text in said.items() if {*text.split()[:1]} & QUESTIONS}
    assert not empty and not questions
