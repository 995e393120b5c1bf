"""Plugins that another package adds by entry points, each kind of them."""

import inspect
from functools import partial

import pytest
from typer.main import get_command

import trireme
from trireme.cli.app import app
from trireme.targets.registry import OURS, TAKEN, TARGETS


@pytest.fixture(scope="module")
def trireme_with_acme(python, acme):
    """Runs a command beside that package."""
    return partial(python, [acme], "-m", "trireme")


def test_a_command(trireme_with_acme):
    assert trireme_with_acme("hello", "--name", "all")[0] == "hello all\n"
    assert "  hello        From acme.\n" in trireme_with_acme("--help")[0]


def test_a_target_with_its_options(trireme_with_acme):
    said, warned = trireme_with_acme("list", "--target", "elsewhere", "--room", "two")
    assert "a-run-in-two" in said
    assert [line for line in warned.splitlines() if line.startswith("warning: ")] == [
        "warning: target no-target of acme is left out: acme:hello is a function, no TargetEntry"
    ]
    _, refused = trireme_with_acme("status", "x", "--target", "elsewhere", status=2)
    assert refused.endswith("error: --target elsewhere: another place does not find runs\n")


def test_a_pipeline(trireme_with_acme):
    assert "greeting" in trireme_with_acme("pipelines")[0]
    assert "greet" in trireme_with_acme("plan", "greeting")[0]


def test_a_framework_a_data_source_and_an_observer(trireme_with_acme, tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, pathlib\nprint(pathlib.Path(os.environ['DATA_DIR'], 'a.txt').read_text())\n"
    )
    (tmp_path / "job.yaml").write_text(
        "name: digits\nframework: acme-torch\nentrypoint: train.py\n"
        f"code_dir: '{tmp_path}'\ndataset: {{uri: 'memory://shelf/a.txt'}}\n"
    )
    said, told = trireme_with_acme("job", "submit", str(tmp_path / "job.yaml"), "--local")
    assert "[master-0] hello" in said
    assert "1 lines of digits" in told
    assert (
        "warning: observer broken of acme is left out: AttributeError: module 'acme' has no "
        "attribute 'nothing'"
    ) in told.splitlines()


def test_a_framework_that_shares_its_kind_has_its_own_methods(trireme_with_acme, described):
    file = described("acme-ring")
    said, _ = trireme_with_acme("job", "submit", file, "--local")
    assert "[master-0] 0 of acme-ring" in said.splitlines()
    made, _ = trireme_with_acme("job", "submit", file, "--local", "--name", "x", "--dry-run")
    assert "trireme.dev/framework: acme-ring" in made


def test_the_options_that_no_target_can_have_are_those_of_the_command_line():
    """Which are one list, as most commands are not loaded when a target is."""
    words = {
        f"--{name.replace('_', '-')}"
        for name, each in inspect.signature(trireme.run).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    }
    options = {each.name for place in OURS for each in TARGETS[place].options}
    for command in _commands(get_command(app)):
        if any(each.name == "target" for each in command.params):
            for each in command.params:
                words.add(f"--{each.name.replace('_', '-')}")
                written = [*each.opts, *each.secondary_opts] if each.name not in options else []
                words.update(word for word in written if word.startswith("-"))
    words -= {f"--{name.replace('_', '-')}" for name in options}
    assert sorted(words) == TAKEN.split()


def _commands(group):
    for lazy in group.lazy.values():
        command = lazy.load()
        inner = getattr(command, "commands", None)
        if hasattr(command, "lazy"):
            yield from _commands(command)
        else:
            yield from inner.values() if inner else [command]
