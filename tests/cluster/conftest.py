"""Runs on a real cluster: that of the KUBECONFIG, with the engines that are on it.

``make test-cluster`` runs all, ``make test-cluster ENGINE=argo`` what is about one. A case is a run
that a person could make, seen through the command line and MLflow. Nothing is played: what the
cluster lacks is skipped by name. TRIREME_TEST_IMAGES names a file as ``--images`` takes it.
"""

import json
import os
import time
from pathlib import Path

import place as places
import pytest
import yaml
from engines import Argo, Kubeflow, Trainer, TrainingOperator

ENGINES = {"argo": Argo, "kfp": Kubeflow, "training-operator": TrainingOperator, "trainer": Trainer}
GROUPS = {"jobs": ["training-operator", "trainer"]}
"""What ENGINE may say besides, and what it means."""

VARIABLE = "TRIREME_TEST_ENGINE"
PAUSE = 10  # seconds between two looks: each is a command, which takes seconds of a core
IMAGES = "TRIREME_TEST_IMAGES"

if VARIABLE not in os.environ:
    collect_ignore_glob = ["test_*.py"]  # they take an hour, and a cluster


def _wanted():
    named = os.environ[VARIABLE].split() or list(ENGINES)
    return [engine for name in named for engine in GROUPS.get(name, [name])]


def pytest_configure(config):
    """Makes the place, once for all processes of the test run."""
    if VARIABLE not in os.environ or hasattr(config, "workerinput"):
        return
    if unknown := set(_wanted()) - set(ENGINES):
        raise pytest.UsageError(f"ENGINE {' '.join(unknown)}: there are jobs, {', '.join(ENGINES)}")
    images = yaml.safe_load(Path(os.environ[IMAGES]).read_text()) if IMAGES in os.environ else {}
    made = places.make(images)
    os.environ[places.VARIABLE] = json.dumps(made)
    for name in _wanted():
        if not ENGINES[name].lacking():
            ENGINES[name].set_up(made["namespace"], made["password"])


def pytest_unconfigure(config):
    """Removes the place."""
    if places.VARIABLE in os.environ and not hasattr(config, "workerinput"):
        namespace = json.loads(os.environ.pop(places.VARIABLE))["namespace"]
        for name in _wanted():
            if not ENGINES[name].lacking():
                ENGINES[name].tear_down(namespace)
        places.remove(namespace)


def pytest_generate_tests(metafunc):
    """Has each case run on every engine it is for."""
    for fixture, names in (("engine", ("argo", "kfp")), ("operator", GROUPS["jobs"])):
        if fixture in metafunc.fixturenames:
            chosen = [name for name in names if name in _wanted()]
            metafunc.parametrize(fixture, chosen, indirect=True, scope="session")


def pytest_collection_modifyitems(items):
    """Puts what takes longest first, or the last case would run for minutes beside nothing."""
    items.sort(key=lambda item: not item.get_closest_marker("slow"))


@pytest.fixture(scope="session")
def place():
    """Where the cases run."""
    return places.Place.given()


@pytest.fixture(scope="session")
def tracking(place):
    """The URL of MLflow, as this machine reaches it, with the user's name and password set."""
    with place.tracking() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
        patch.setenv("MLFLOW_TRACKING_PASSWORD", place.password)
        yield url


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """An empty HOME for the command line."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def engine(request, place, tracking, home):
    """An engine of pipelines, if the cluster has it."""
    return _open(ENGINES[request.param], place, tracking, home)


@pytest.fixture(scope="session")
def operator(request, place, tracking, home):
    """What runs training jobs, if the cluster has it."""
    return _open(ENGINES[request.param], place, tracking, home)


def _open(kind, place, tracking, home):
    lacking = kind.lacking()
    if lacking:
        pytest.skip(f"the cluster has no {lacking}")
    return kind(place, tracking, home, os.environ.get(IMAGES, ""))


@pytest.fixture
def within():
    """Waits until something is so, and says what it was otherwise."""

    def wait(seconds, look, is_so=bool, pause=PAUSE):
        end = time.monotonic() + seconds
        while not is_so(seen := look()):
            assert time.monotonic() < end, f"after {seconds} s it is still {seen!r}"
            time.sleep(pause)
        return seen

    return wait


def pytest_terminal_summary(terminalreporter):
    """Shows what each case took, engine by engine."""
    if VARIABLE not in os.environ:
        return
    rows = []
    for outcome in ("passed", "failed", "skipped", "error"):
        for report in terminalreporter.getreports(outcome):
            if report.when == "call" or outcome in ("skipped", "error"):
                case, _, given = report.nodeid.rpartition("::")[2].rstrip("]").partition("[")
                engine = next((name for name in ENGINES if given.startswith(name)), given)
                more = given.removeprefix(engine).replace("-", " ")
                case = case.removeprefix("test_").replace("_", " ") + more
                rows.append((engine, case, outcome, report.duration))
    terminalreporter.section("cases")
    for engine, case, outcome, seconds in sorted(rows):
        terminalreporter.write_line(f"{engine:18} {case:65} {outcome:8} {seconds:6.0f} s")
