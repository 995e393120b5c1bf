"""trireme/cli: a command is loaded when it is called, so what its group says of it is apart."""

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from trireme.cli import job
from trireme.cli.app import app

GROUPS = {(): get_command(app).lazy, ("job",): get_command(job.app).lazy}
EVERY = [[*group, name] for group, commands in GROUPS.items() for name in commands]


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
    listed = done.output.partition("Commands:\n")[2].splitlines()
    shown = {name: each.help for name, each in GROUPS[group].items() if not each.is_hidden}
    width = max(map(len, shown))
    assert listed == [f"  {name:<{width}}  {help}" for name, help in shown.items()]


def test_a_command_that_there_is_not_is_refused_with_the_nearest():
    done = CliRunner().invoke(app, ["job", "lsit"])
    assert done.exit_code == 2
    assert "No such command 'lsit'. Did you mean 'list'" in done.output
