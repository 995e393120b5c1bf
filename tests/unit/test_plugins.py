"""trireme/plugins.py: what another package adds by entry points, each kind of it."""

import inspect
import json
import os
import subprocess
import sys
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import trireme
from trireme import plugins
from trireme.cli.app import app
from trireme.targets.registry import OURS, TAKEN, TARGETS

ROOT = Path(trireme.__file__).parents[1]

PACKAGE = '''
from kfp import dsl

from trireme.data.listing import Entry
from trireme.images import BASE
from trireme.observers.base import Observer
from trireme.targets.base import Run, Step, Target
from trireme.targets.registry import Option, TargetEntry


class Counting(Observer):
    """Counts lines, and has the count recorded."""

    def __init__(self, job):
        self.name, self.count = job.name, 0

    def lines(self, replica, text):
        self.count += 1 + text.count("\\n")

    def end(self, failure):
        self.record(metrics={"lines": self.count}, words=[f"{self.count} lines of {self.name}"])


class Memory:
    """Files that are held in memory."""

    readers = 1

    def __init__(self, dataset):
        self.name = dataset.place.path

    def list(self):
        return [Entry(self.name, 5, "1")]

    def read(self, entry, start, length):
        yield b"hello"[start : start + length]


class Elsewhere(Target):
    """A place that knows one run."""

    name, title = "elsewhere", "another place"

    def __init__(self, room):
        self.room = room

    def latest(self):
        return [Run(f"a-run-in-{self.room}", "FINISHED", 0.0, 1.0)]


ELSEWHERE = TargetEntry("acme:Elsewhere", "elsewhere", (Option("room", "Which room."),))


def hello(name: str = "you"):
    """Says hello."""
    print(f"hello {name}")


@dsl.component(base_image=BASE)
def greet() -> str:
    return "hello"


@dsl.pipeline(name="greeting")
def greeting():
    greet()
'''

FRAMEWORK = """
from trireme.frameworks.pytorch import Custom, PyTorch


class Lightning(PyTorch):
    name, connects_by = "acme-torch", "as PyTorch"


class Ring(Custom):
    name, connects_by = "acme-ring", "a ring"

    def environment(self, job, pod, network):
        return super().environment(job, pod, network) | {"RING": f"{pod.index} of {self.name}"}


LIGHTNING, RING = Lightning(), Ring()
"""

ENTRY_POINTS = """
[trireme.observers]
counting = acme:Counting
broken = acme:nothing

[trireme.data_sources]
memory = acme:Memory

[trireme.targets]
elsewhere = acme:ELSEWHERE
no-target = acme:hello

[trireme.frameworks]
acme-torch = acme_framework:LIGHTNING
acme-ring = acme_framework:RING

[trireme.commands]
hello = acme:hello
gone = acme.gone:command

[trireme.pipelines]
greeting = acme:greeting
"""


SHODDY = '''
from pathlib import Path

from trireme.observers.base import Observer
from trireme.targets.base import Run, Target
from trireme.targets.registry import NAMESPACE, Option, TargetEntry


class Wordy(Observer):
    """Records a text as a number."""

    def __init__(self, job):
        pass

    def end(self, failure):
        self.record(metrics={"loss": "high"})


def no_observer(job):
    return 3


class Attic:
    """Files that cannot be listed."""

    readers = 1

    def __init__(self, dataset):
        pass

    def list(self):
        return {}["kaput"]

    def read(self, entry, start, length):
        yield b""


class Shed(Target):
    """A place that fails at all."""

    name, title = "shed", "the shed"

    def __init__(self, namespace):
        pass

    def run(self, pipeline, arguments, name, console, *, wait):
        pass

    def latest(self):
        return {}["gone"]


class Renamed(Shed):
    name = "elsewhere"


class Closed(Shed):
    name = "closed"

    def __init__(self, namespace):
        Path("/nowhere/at/all").read_text()


class Narrow(Shed):
    name = "narrow"

    def __init__(self):
        pass


def place(name, *options):
    return TargetEntry(f"shoddy:{name}", "somewhere", options)


SHED, RENAMED, CLOSED, NARROW, ABSENT, NO_TARGET = (
    place(name, NAMESPACE)
    for name in ("Shed", "Renamed", "Closed", "Narrow", "Absent", "Attic")
)
NO_MODULE = TargetEntry("shoddy.gone:Place", "somewhere")
NO_TUPLE = TargetEntry("shoddy:Shed", "somewhere", [NAMESPACE])
PARALLEL = place("Shed", Option("parallelism", "How many."))
SHORT = place("Shed", Option("partition", "Where.", flags=("-p",)))
OTHERS = place("Shed", Option("namespace", "The room."))

hello = "no function"
'''

SHODDY_FRAMEWORKS = """
from trireme.frameworks.base import Framework, Role
from trireme.frameworks.kinds import of_training_operator
from trireme.frameworks.pytorch import Custom, PyTorch
from trireme.images import BASE


class NoKind(Framework):
    name, connects_by, image, injected = "no-kind", "nothing", BASE, "X"
    roles = (Role("worker", default=1, is_leader=True),)


class OtherKind(NoKind):
    name = "other-kind"
    kind = of_training_operator("PyTorchJob", "ringSpecs", "pytorch", longest_end="-worker-999")


class NoRoles(OtherKind):
    name = "no-roles"
    roles = Role("worker")
    kind = Custom.kind


class NoPattern(NoRoles):
    name, injected = "no-pattern", "("
    roles = NoKind.roles


class Distant(NoPattern):
    name, injected = "distant", "X"


class Unchecked(Custom):
    name = "unchecked"

    def check(self, job):
        if job.workers == 7:
            raise ValueError("workers 7: is too many")
        raise KeyError("ring")


class Numbered(Custom):
    name = "numbered"

    def environment(self, job, pod, network):
        return {"RING": 0}


class Unnamed(Custom):
    name = "unnamed"

    def variables(self, job, role):
        return [{"value": "0"}]


class Failing(Custom):
    name = "failing"

    def variables(self, job, role):
        raise ValueError("no ring")


no_kind, other_kind, no_roles, no_pattern = NoKind(), OtherKind(), NoRoles(), NoPattern()
distant, unchecked, numbered = Distant(), Unchecked(), Numbered()
unnamed, failing, taken = Unnamed(), Failing(), PyTorch()
"""

SHODDY_ENTRY_POINTS = """
[trireme.observers]
wordy = shoddy:Wordy
three = shoddy:no_observer

[trireme.data_sources]
attic = shoddy:Attic
s3 = shoddy:Attic

[trireme.targets]
shed = shoddy:SHED
closed = shoddy:CLOSED
narrow = shoddy:NARROW
absent = shoddy:ABSENT
no-target = shoddy:NO_TARGET
no-class = shoddy:NO_TARGET
no-module = shoddy:NO_MODULE
renamed = shoddy:RENAMED
no-tuple = shoddy:NO_TUPLE
parallel = shoddy:PARALLEL
short = shoddy:SHORT
others = shoddy:OTHERS
kfp = shoddy:SHED

[trireme.frameworks]
no-kind = shoddy_frameworks:no_kind
other-kind = shoddy_frameworks:other_kind
no-roles = shoddy_frameworks:no_roles
no-pattern = shoddy_frameworks:no_pattern
other-name = shoddy_frameworks:no_pattern
distant = shoddy_frameworks:distant
unchecked = shoddy_frameworks:unchecked
numbered = shoddy_frameworks:numbered
unnamed = shoddy_frameworks:unnamed
failing = shoddy_frameworks:failing
pytorch = shoddy_frameworks:taken
a-class = shoddy_frameworks:Failing
ends = shoddy_ends:framework

[trireme.commands]
hello = shoddy:hello
list = shoddy:place
zero = shoddy:hello

[trireme.pipelines]
sweep = shoddy:place
gone = shoddy.gone:pipeline
"""


def install(site, name, entry_points, **modules):
    """Installs a package of some modules."""
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    (info / "RECORD").write_text("")


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
def python(tmp_path_factory):
    """Runs Python beside the packages of some folders."""
    home = tmp_path_factory.mktemp("home")

    def run(sites, *words, status=0):
        own = {"HOME": str(home), "TRIREME_HOME": str(home / "trireme")}
        done = subprocess.run(
            [sys.executable, *words],
            env=os.environ | own | {"PYTHONPATH": ":".join(map(str, [*sites, ROOT]))},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr

    return run


@pytest.fixture(scope="module")
def acme(tmp_path_factory):
    """The folder with a package that adds one of each kind."""
    site = tmp_path_factory.mktemp("site")
    install(site, "acme", ENTRY_POINTS, acme=PACKAGE, acme_framework=FRAMEWORK)
    return site


@pytest.fixture(scope="module")
def trireme_with_acme(python, acme):
    """Runs a command beside that package."""
    return partial(python, [acme], "-m", "trireme")


@pytest.fixture(scope="module")
def both(acme, tmp_path_factory):
    """The folders with that package, and with one whose parts are broken."""
    site = tmp_path_factory.mktemp("shoddy")
    install(
        site,
        "shoddy",
        SHODDY_ENTRY_POINTS,
        shoddy=SHODDY,
        shoddy_frameworks=SHODDY_FRAMEWORKS,
        shoddy_ends="raise SystemExit(3)",
    )
    return [acme, site]


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


@pytest.fixture
def described(tmp_path):
    """Describes a job of a framework that prints a variable; returns the file."""

    def make(framework, more=""):
        (tmp_path / "train.py").write_text("import os\nprint(os.environ.get('RING'))\n")
        file = tmp_path / f"{framework}{len(more)}.yaml"
        file.write_text(
            f"name: {framework}\nframework: {framework}\nentrypoint: train.py\n"
            f"code_dir: '{tmp_path}'\n{more}\n"
        )
        return str(file)

    return make


def warnings(told):
    return [line for line in told.splitlines() if line.startswith("warning: ")]


def test_a_command(trireme_with_acme):
    assert trireme_with_acme("hello", "--name", "all")[0] == "hello all\n"
    assert "  hello        From acme.\n" in trireme_with_acme("--help")[0]


def test_a_target_with_its_options(trireme_with_acme):
    said, warned = trireme_with_acme("list", "--target", "elsewhere", "--room", "two")
    assert "a-run-in-two" in said
    assert warnings(warned) == [
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
    ) in warnings(told)


def test_a_framework_that_shares_its_kind_has_its_own_methods(trireme_with_acme, described):
    file = described("acme-ring")
    said, _ = trireme_with_acme("job", "submit", file, "--local")
    assert "[master-0] 0 of acme-ring" in said.splitlines()
    made, _ = trireme_with_acme("job", "submit", file, "--local", "--name", "x", "--dry-run")
    assert "trireme.dev/framework: acme-ring" in made


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


def test_a_command_that_is_none_is_one_sentence(trireme_with_both):
    _, told = trireme_with_both("zero", status=2)
    assert "command zero of shoddy is no command: " in told.splitlines()[-1]


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
