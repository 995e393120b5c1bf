"""What people, or files of theirs, could hold to no good: each is one short sentence, and soon."""

import io
import re
import time
from contextlib import suppress

import pytest
import yaml

from trireme.code import failures
from trireme.code import url as urls
from trireme.data.description import of_fields
from trireme.data.patterns import matcher
from trireme.errors import InputError, TriremeError
from trireme.graph.placeholders import pieces
from trireme.job.job import TrainingJob
from trireme.job.reading import from_yaml
from trireme.packages import install, requirements
from trireme.pipeline import catalog
from trireme.step_names import without_index
from trireme.terminal import tables
from trireme.terminal.console import Console
from trireme.text import yaml_text
from trireme.text.say import say
from trireme.tracking import store

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(10 * [f'*{before}'])}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
ALIASES = "".join(f"- &a{number + 1} [*a{number}]\n" for number in range(200))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "it holds more than 50,000 values, aliases followed"),
        ("a: [" + 60_000 * "1, " + "]", "it holds more than 50,000 values"),
        ("- &a0 []\n" + ALIASES, "it is nested too deep"),
        ("a: " + 2_000 * "9", "a number has more than 1,000 digits"),
        ("a: &a {b: *a}", "an alias stands for what it is in"),
        ("a: &a [*a]", "an alias stands for what it is in"),
        ("a: " + 100_000 * "[" + 100_000 * "]", "it is nested too deep"),
        ("{" + 50_000 * '"a":{' + 50_000 * "}" + "}", "it is nested too deep"),
    ],
)
@pytest.mark.parametrize("parse", [from_yaml, lambda text: yaml_text.parse(text, "the job")])
def test_yaml_that_would_not_fit_is_refused(parse, text, said):
    with pytest.raises(InputError) as refused:
        parse(text)
    assert said in str(refused.value) and len(str(refused.value)) < 100


def test_aliases_that_people_write_are_followed():
    text = "a: &a {b: [1, 2]}\nc: *a\nd: {<<: *a, e: 3}\n"
    assert yaml_text.parse(text, "it") == yaml.safe_load(text)
    assert yaml_text.parse("", "it") is None


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "a.yaml").write_text("a: " + 5_000_000 * "x")
    with pytest.raises(InputError, match=r"^it: is larger than 1 MiB$"):
        yaml_text.read(tmp_path / "a.yaml", "it")


def test_parameters_that_are_nested_too_deep_are_refused():
    parameter = catalog.load("pytorch-training").parameters["args"]
    with pytest.raises(InputError) as refused:
        parameter.parse(50_000 * "[" + 50_000 * "]")
    assert "parameter args: " in str(refused.value) and len(str(refused.value)) < 2_100


def test_a_job_with_thousands_of_variables_is_refused():
    with pytest.raises(InputError, match=r"^env: .* at most 1000"):
        TrainingJob.create(
            name="a",
            framework="custom",
            entrypoint="a.py",
            env={f"K{number}": "v" for number in range(30_000)},
        )


def test_what_was_given_is_not_echoed_without_end():
    shown = str(TriremeError("a: " + 10_000_000 * "x" + " must be a number"))
    assert len(shown) < 2_100 and shown.startswith("a: xxx") and shown.endswith("must be a number")


def test_what_would_move_the_cursor_is_not_shown(capsys):
    assert str(TriremeError("a\x1b[31mb\x07c\x9b2Jd\x7fe\tf\ng")) == "abc2Jde\tf\ng"
    assert str(TriremeError("of \u202egnp.exe")) == "of gnp.exe"
    say("warning: without \x1b[2J\u202egnp.exe")
    assert capsys.readouterr().err == "warning: without gnp.exe\n"


@pytest.mark.parametrize(
    "pattern",
    [
        "**/a/" * 8 + "b",
        "**a" * 30 + "b",
        "a/**/*a/" * 20 + "b",
        "*a" * 30 + "*b",
        "?*" * 60 + "b",
        "*" * 300 + "b",
        "[ab]*" * 30 + "c",
        "**/*a*a*a*b",
    ],
)
def test_a_pattern_of_many_stars_takes_no_longer(pattern):
    matches = matcher([pattern])  # which would have taken hours
    assert not matches("a" * 250)
    assert not matches("/".join(20 * ["a" * 12]))
    assert not matches("a/" * 1_700 + "c")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a*b*c", "xaxbxc"),
        ("*a*b*c", "aabbcc"),
        ("*ab*ab", "abxab"),
        ("a*?b", "axxb"),
        ("*.tar.*", "x.tar.tar.gz"),
        ("**/*a*b/*c", "x/y/ab/c"),
        ("***/a", "x/y/a"),
        ("a**b**c", "a/xb/xbc"),
        ("**a*b**bc", "x/abbc"),
        ("a**/b", "a/b"),
        ("a/**/b/**/c", "a/b/b/c"),
        ("**/a/*/**/b", "a/a/b/b"),
        ("*-[0-9]*.npz", "train-07.npz"),
    ],
)
def test_stars_stand_for_what_they_stood_for(pattern, path):
    assert matcher([pattern])(path)


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (["*" * 1_001], f"'{40 * '*'}'... must have at most 1,000 characters"),
        (301 * ["*.jpg"], "there must be at most 300 patterns, not 301"),
    ],
)
def test_patterns_that_nobody_means_are_refused(patterns, said):
    with pytest.raises(InputError, match=re.escape(said)):
        of_fields("/data", {"include": patterns})


def test_what_somebody_else_has_named_cannot_change_the_terminal():
    cells = ["run\x1b[2J\x9b1m", "a\nb\tc", "\x1b]0;title\x07d", 7]
    assert tables.lines(["A", "B", "C", "D"], [cells])[1] == "run1m  a b c  d  7"
    shown = io.StringIO()
    Console(shown).facts({"Tag": "v1\x1b]8;;http://example.org\x07 \x1b[31mred"})
    assert shown.getvalue() == "  Tag  v1 red\n"


def test_names_and_placeholders_without_an_end_are_read_in_linear_time():
    began = time.process_time()
    name = "-123" * 250_000
    assert without_index(f"{name}x") == f"{name}x" and without_index(f"a{name}") == "a"
    text = "{{$" * 300_000
    assert pieces(text) == [(False, text)]
    assert pieces("a{{$b}}" + text) == [(False, "a"), (True, "b"), (False, text)]
    assert time.process_time() - began < 30  # it had been minutes


@pytest.mark.parametrize("part", ["://", "@", "a:", "://a:", "://a:@", ":", "a@", "?", "\n"])
def test_passwords_are_looked_for_in_linear_time(part):
    text = "https://" + 1_000_000 // len(part) * part
    began = time.process_time()
    for take_out in (urls.shown, failures.reason, install._shown, store.public):
        take_out(text)
    for refuse in (urls.check, lambda text: requirements.check([text])):
        with suppress(InputError):
            refuse(text)
    assert time.process_time() - began < 30  # it had been hours
