"""A release: its workflow has no commands of its own, and its pages say the same versions."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_what_the_workflow_runs_is_in_the_makefile():
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    lines = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = {line.split()[1] for line in lines if line.startswith("make ")}
    assert made == {"dist", "try-dist"} <= targets
    assert [line for line in lines if not line.startswith(("make ", "gh ", "rm dist/"))] == []


def test_only_what_publishes_may_write():
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    writing = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert writing == {
        "publish": {"id-token": "write", "attestations": "write"},
        "release": {"contents": "write"},
    }
    assert jobs["publish"]["needs"] == "try"
    assert "refs/tags/v" in jobs["publish"]["if"]
    assert jobs["release"]["needs"] == "publish"


def test_the_pythons_that_are_tried_are_those_that_are_supported():
    tried = yaml.safe_load(WORKFLOW.read_text())["jobs"]["try"]["strategy"]["matrix"]["python"]
    page = (ROOT / "docs" / "reference" / "releases.md").read_text()
    (supported,) = re.findall(r"^\| Python \| ([\d., ]+)", page, re.MULTILINE)
    assert supported.split(", ") == tried
    assert PROJECT["requires-python"] == f">={tried[0]}"


def test_the_changelog_has_this_version():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert PROJECT["version"] in headings


def test_owners_are_of_what_is_there():
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    paths = [line.split()[0] for line in lines if line.startswith("/")]
    assert paths and [path for path in paths if not (ROOT / path.strip("/")).exists()] == []


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_of_an_issue_is_whole(form):
    content = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert content["blank_issues_enabled"] is False
        return
    assert {"name", "description", "body"} <= content.keys()
    ids = [field["id"] for field in content["body"]]
    assert len(ids) == len({*ids})
