"""trireme/cli: a command is loaded when it is called, so what its group says of it is apart."""

import re
from typing import Any

import pytest
from command_lines import parsed
from typer.main import get_command
from typer.testing import CliRunner

from trireme.cli import job
from trireme.cli.app import START, app
from trireme.cli.examples import EXAMPLES

GROUPS = {(): get_command(app).lazy, ("job",): get_command(job.app).lazy}
EVERY = [[*group, name] for group, commands in GROUPS.items() for name in commands]


def parsed_group(words: list[str]) -> Any:
    """Returns the command that these words name."""
    return GROUPS[tuple(words[:-1])][words[-1]].load()


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_each_command_is_where_its_group_says(words: list[str]):
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="trireme")
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"Usage: trireme {' '.join(words)} ")
    assert "completion" not in done.output


@pytest.mark.parametrize("group", ["dataset", "config", "schedule", "webhook"])
def test_help_of_other_groups_has_no_line_that_is_cut_off(group: str):
    done = CliRunner().invoke(app, [group, "--help"])
    assert "..." not in done.output.partition("Commands:\n")[2]


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_help_of_a_group_has_each_command_in_a_line(group: tuple[str, ...]):
    done = CliRunner().invoke(app, [*group, "--help"])
    lines = [line for line in done.output.splitlines() if line.startswith("  ")]
    shown = {name: each.help for name, each in GROUPS[group].items() if not each.is_hidden}
    width = max(map(len, shown))
    for name, help in shown.items():
        assert lines.count(f"  {name:<{width}}  {help}") == 1


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_each_command_is_in_a_section(group: tuple[str, ...]):
    done = CliRunner().invoke(app, [*group, "--help"])
    assert "\nStart:\n  " in done.output
    assert "More commands" not in done.output, "add it to the sections of its group"


def test_without_a_command_it_says_where_to_start():
    done = CliRunner().invoke(app, [])
    assert (done.exit_code, done.output) == (0, START)
    for line in re.findall(r"^  trireme (.*?)   ", START, re.MULTILINE):
        parsed(line)


EVERY_COMMAND = [
    " ".join(words + more)
    for words in EVERY
    if words[-1] not in ("job", "retry")
    for command in [parsed_group(words)]
    for more in ([[name] for name in command.commands] if hasattr(command, "commands") else [[]])
]


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_the_help_of_a_command_has_two_examples_that_it_takes(name: str):
    done = CliRunner().invoke(app, [*name.split(), "--help"], prog_name="trireme")
    examples = EXAMPLES[name]
    assert len(set(examples)) >= 2
    lines = "".join(f"  trireme {example}\n" for example in examples)
    assert done.output.endswith(f"\nExamples:\n{lines}")
    for example in examples:
        assert example.startswith(name)
        parsed(example)


def test_there_are_no_examples_of_what_is_no_command():
    assert EXAMPLES.keys() == set(EVERY_COMMAND)


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_what_stands_for_a_value_is_in_capitals(name: str):
    done = CliRunner().invoke(app, [*name.split(), "--help"], prog_name="trireme")
    options = re.findall(r"^  (?:-\w, )?--[\w-]+ (\S+)", done.output, re.MULTILINE)
    of_a_choice = {"text|json|yaml", "FILE|json|yaml"}
    assert [each for each in options if each != each.upper() and each not in of_a_choice] == []


def test_options_of_a_cluster_are_in_a_section_of_their_own():
    done = CliRunner().invoke(app, ["run", "--help"])
    own, _, cluster = done.output.partition("\nCluster options:\n")
    assert "--param" in own and "--target" in own
    assert "--namespace" in cluster and "--images" in cluster and "--param" not in cluster


def test_tab_completes_commands_and_their_options():
    def completed(words: str) -> list[str]:
        environment = {
            "_TRIREME_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        done = CliRunner().invoke(app, [], prog_name="trireme", env=environment)
        return done.output.split()

    assert completed("trireme rep") == ["report", "reproduce"]
    assert completed("trireme job st") == ["status"]
    assert "--data" in completed("trireme run --d")


def test_a_command_that_there_is_not_is_refused_with_the_nearest():
    done = CliRunner().invoke(app, ["job", "lsit"])
    assert done.exit_code == 2
    assert "No such command 'lsit'. Did you mean 'list'" in done.output
