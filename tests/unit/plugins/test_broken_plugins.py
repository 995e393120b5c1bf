"""Plugins that lack something, cannot be loaded, or fail: each is a sentence."""

import json
from functools import partial
from importlib.metadata import EntryPoint

import pytest
import typer

from trireme import plugins

SEVERAL = """
import json, sys
from trireme.cli.app import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["trireme", *words]
    try:
        main()
    except SystemExit as ended:
        print(f"ended {ended.code}", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def trireme_with_both(python, both):
    """Runs a command beside these packages."""
    return partial(python, both, "-m", "trireme")


@pytest.fixture(scope="module")
def several_with_both(python, both):
    """Runs commands beside these packages; returns the status of each, and its last words."""

    def run(commands):
        _, told = python(both, "-c", SEVERAL, json.dumps([*commands]))
        lines = told.splitlines()
        return [
            (int(line.removeprefix("ended ")), lines[number - 1])
            for number, line in enumerate(lines)
            if line.startswith("ended ")
        ]

    return run


def warnings(told):
    return [line for line in told.splitlines() if line.startswith("warning: ")]


FRAMEWORKS_LEFT_OUT = [
    "framework a-class of shoddy is left out: shoddy_frameworks:Failing is a class, no Framework",
    "framework ends of shoddy is left out: SystemExit: 3",
    "framework no-kind of shoddy is left out: it has no kind",
    "framework no-pattern of shoddy is left out: its injected is no pattern: missing ), "
    "unterminated subpattern at position 1",
    "framework no-roles of shoddy is left out: its roles are no tuple of Role",
    "framework other-kind of shoddy is left out: the kind PyTorchJob is there already, with "
    "another replicas",
    "framework other-name of shoddy is left out: its name is 'no-pattern', which is not that of "
    "its entry point",
    "pytorch, an entry point of shoddy, is left out: the name is Trireme's",
]
TARGETS_LEFT_OUT = [
    "kfp, an entry point of shoddy, is left out: the name is Trireme's",
    "no-target, an entry point of shoddy, is left out: the name is acme's",
    "target no-target of acme is left out: acme:hello is a function, no TargetEntry",
    "target no-tuple of shoddy is left out: its options are no tuple of Option",
    "target others of shoddy is left out: its option 'namespace' has another meaning on the "
    "command line",
    "target parallel of shoddy is left out: its option 'parallelism' has another meaning on the "
    "command line",
    "target short of shoddy is left out: its option 'partition' has another meaning on the "
    "command line",
]
COMMANDS_LEFT_OUT = [
    "hello, an entry point of shoddy, is left out: the name is acme's",
    "list, an entry point of shoddy, is left out: the name is Trireme's",
]


def test_what_is_broken_is_left_out_and_said_once(trireme_with_both):
    _, told = trireme_with_both("job", "list", "--local")
    expected = FRAMEWORKS_LEFT_OUT + TARGETS_LEFT_OUT
    assert sorted(warnings(told)) == sorted(f"warning: {each}" for each in expected)
    _, told = trireme_with_both("--help")
    assert warnings(told) == [f"warning: {each}" for each in COMMANDS_LEFT_OUT]


def test_pipelines_that_cannot_be_run_are_named(trireme_with_both):
    said, told = trireme_with_both("pipelines")
    assert said.splitlines()[-2:] == [
        "gone  From shoddy; cannot be loaded: there is no module shoddy.gone",
        "greeting  From acme",
    ]
    assert [line.partition(" ")[0] for line in said.splitlines()].count("sweep") == 1
    assert (
        "warning: sweep, an entry point of shoddy, is left out: the name is Trireme's"
    ) in warnings(told)


def test_a_framework_that_fails_is_one_sentence(several_with_both, described):
    cases = {
        ("distant", ""): (2, "framework distant: it does not run on this machine, as it has no "),
        ("unchecked", ""): (1, "framework unchecked of shoddy failed in check: KeyError: 'ring'"),
        ("unchecked", "workers: 7"): (2, ""),
        ("numbered", ""): (
            1,
            "framework numbered of shoddy failed in environment: TypeError: it returned "
            "{'RING': 0}, no texts by names",
        ),
        ("unnamed", ""): (1, "framework unnamed of shoddy failed in variables: TypeError: it "),
        ("failing", ""): (1, "framework failing of shoddy failed in variables: ValueError: no "),
    }
    ended = several_with_both(["job", "submit", described(*case), "--local"] for case in cases)
    for (status, told), (expected, said) in zip(ended, cases.values(), strict=True):
        assert (status, told.startswith(f"error: {said}")) == (expected, True), told
    assert ended[2][1].endswith(": workers 7: is too many")  # which is the check's own sentence


def test_a_framework_without_a_rendezvous_is_no_trainjob(trireme_with_both, described):
    file = described("distant", "operator: trainer")
    _, told = trireme_with_both("job", "render", file, status=2)
    assert told.splitlines()[-1] == (
        "error: framework distant: it does not become a TrainJob, as it has no rendezvous()"
    )


def test_a_target_that_fails_is_one_sentence(several_with_both):
    cases = {
        "shed": (1, "shed of shoddy failed in latest: KeyError: 'gone'"),
        "closed": (2, "closed of shoddy: shoddy:Closed cannot be opened: FileNotFoundError: "),
        "narrow": (2, "narrow of shoddy: shoddy:Narrow does not take its options: got an "),
        "absent": (2, "absent of shoddy: shoddy:Absent cannot be loaded: AttributeError: "),
        "no-module": (2, "no-module of shoddy: shoddy.gone:Place cannot be loaded: ModuleNot"),
        "no-class": (2, "no-class of shoddy: shoddy:Attic is no Target"),
        "renamed": (2, "renamed of shoddy: shoddy:Renamed needs the name 'renamed', and a title"),
    }
    lines = [["list", "--target", name] for name in cases]
    *ended, run = several_with_both([*lines, ["run", "greeting", "--target", "shed"]])
    for (status, told), (expected, said) in zip(ended, cases.values(), strict=True):
        assert (status, told.startswith(f"error: target {said}")) == (expected, True), told
    assert run == (
        1,
        "error: target shed of shoddy failed in run: TypeError: it returned None, no exit status",
    )


def test_a_data_source_and_observers_that_fail_are_one_sentence(trireme_with_both, described):
    file = described("custom", "dataset: {uri: 'attic://boxes'}")
    _, told = trireme_with_both("job", "submit", file, "--local", status=1)
    assert told.splitlines()[-1] == (
        "error: dataset_uri 'attic://boxes': Attic, a data source of shoddy, failed in list: "
        "KeyError: 'kaput'"
    )
    taken = "warning: s3, an entry point of shoddy, is left out: the name is Trireme's"
    assert warnings(told).count(taken) == 1
    _, told = trireme_with_both("job", "submit", described("custom"), "--local")
    assert {
        "warning: observer three of shoddy is left out: TypeError: int is no Observer",
        "warning: Wordy is left out, as it failed: TypeError: metrics: loss 'high' is no number",
    } <= {*warnings(told)}


def test_a_command_that_is_none_is_one_sentence(trireme_with_both):
    _, told = trireme_with_both("zero", status=2)
    assert "command zero of shoddy is no command: " in told.splitlines()[-1]


@pytest.mark.parametrize(
    "ended",
    [
        typer.Exit(3),
        typer.Abort(),
        typer.BadParameter("must be a room"),
        SystemExit(3),
        KeyboardInterrupt(),
        BrokenPipeError(),
    ],
    ids=repr,
)
def test_a_method_may_end_the_command(ended):
    class Place:
        def look(self):
            raise ended

    place = Place()
    plugins.guard(place, Place, EntryPoint("place", "acme:Place", plugins.TARGETS), {})
    with pytest.raises(type(ended)) as raised:
        place.look()
    assert raised.value is ended
