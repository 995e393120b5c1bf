"""The commands that the pages show: trireme takes them, with the parameters that there are."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from command_lines import in_blocks, parsed

from trireme.parameters import PARAMETERS

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINES = [
    pytest.param(line, id=f"{page.relative_to(ROOT)}: {line[:60]}")
    for page in PAGES
    for line in in_blocks(page.read_text())
]
OF_A_NAME = {"code", "dataset", "base_model"}  # -p code=@NAME
OF_OWN_PIPELINES = {"./digits.py", "./flowers.py"}


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A folder with the names that the pages use, those of the page about them."""
    page = (ROOT / "docs" / "reference" / "trireme-yaml.md").read_text()
    (tmp_path / "trireme.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # a workspace sets it
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_pages_is_taken(line: str, named):
    context = parsed(line.replace("…", "x"))
    if context.params.get("pipeline") in OF_OWN_PIPELINES:
        return
    for pair in context.params.get("param") or []:
        name, _, value = pair.partition("=")
        assert name in PARAMETERS or name in OF_A_NAME
        if value.startswith(("[", "{")):
            json.loads(value)


def test_the_extras_of_the_page_about_installing_are_those_there_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text().partition("| extra |")[2]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall("`([a-z]+)`", row)]
    assert sorted(named) == sorted(project["optional-dependencies"])


def test_what_pages_make_is_in_the_makefile():
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {
        name for page in PAGES for name in re.findall(r"^make ([a-z-]+)", page.read_text(), re.M)
    }
    assert {"run", "images"} <= named
    assert named <= set(targets.split())


def test_there_are_many():
    assert len(LINES) > 200
    assert list(in_blocks("```\ntrireme run a \\\n  -p b='{\n}'\n$ trireme list\nls\n```\n")) == [
        "run a    -p b='{ }'",
        "list",
    ]
