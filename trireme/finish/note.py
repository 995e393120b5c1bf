"""A run in a few lines of markdown: the description that MLflow shows of it."""

import re
from collections.abc import Mapping
from pathlib import Path

from trireme.finish import outcome
from trireme.pages import REPORT
from trireme.tracking import journal, runs
from trireme.tracking.runs import PAGE, PipelineRunId
from trireme.tracking.store import TRAINING

LONGEST = 4000  # characters; MLflow takes 5,000 in a tag

_MEANT = re.compile(r"([\\`*_{}\[\]<>#|~&])")  # what markdown takes for its own
_HERE = ("Model", "Report", "MLflow", "Next")
"""Facts that are paths of one machine, or that are told otherwise."""


def write(
    workspace: Path, status: str, reason: str, commands: Mapping[str, str], whole: PipelineRunId
) -> str:
    """Returns what came of a run.

    Args:
        reason: Why it failed; empty where it did not.
        commands: What a person may do with it, by what that is.
    """
    facts = outcome.facts(workspace)
    links = [f"[{name}]({link})" for name, link in _links(workspace, whole).items()]
    head = " · ".join([runs.HEAD.format(status), *links])
    lines = [f"- {_escaped(reason.splitlines()[0])}"] if reason else []
    lines += [f"- {name}: {_escaped(said)}" for name, said in facts.items() if name not in _HERE]
    if "Next" in facts:
        commands = {"Next": facts["Next"].partition(";")[0]} | dict(commands)
    lines += [f"- {name}: `{command}`" for name, command in commands.items()]
    return "\n".join([head, "", *lines])[:LONGEST]


def _links(workspace: Path, whole: PipelineRunId) -> dict[str, str]:
    """Returns pages of artifacts, wherever MLflow's UI is opened."""

    def link(run: str, name: str) -> str:
        return f"#/experiments/{whole.experiment_id}/runs/{run}/artifacts/{name}{TRAINING}"

    found = {"The run": link(whole.run_id, PAGE)}
    for step in journal.steps(workspace):
        named = journal.run_path(workspace, step)
        files = [Path(record.get("artifact", "")).name for record in journal.read(workspace, step)]
        if REPORT in files and named.exists():  # that of export, which comes last, has its files
            found["Report on the model"] = link(named.read_text(), REPORT)
    return found


def _escaped(text: str) -> str:
    return _MEANT.sub(r"\\\1", text)
