"""The images, looked at from inside and outside. ``make images`` builds them."""

import pytest

from images import build
from tests.images.containers import Containers, engine, inspected, is_built

GB = 1_000_000_000
BUDGET = {"base": 0.3 * GB, "pytorch": 1.5 * GB, "mpi": 1.6 * GB}

pytestmark = pytest.mark.images


@pytest.fixture(params=build.IMAGES)
def image(request):
    if not is_built(request.param):
        pytest.skip(f"the image {build.IMAGES[request.param]} is not built here")
    return request.param


@pytest.fixture
def containers(tmp_path):
    tmp_path.chmod(0o777)
    made = Containers(tmp_path)
    yield made
    made.close()


def test_it_holds_what_it_should_and_nothing_else(image, containers):
    done = containers.run(image, "python", "/usr/share/trireme/check.py", image)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_it_says_where_it_comes_from(image):
    labels = inspected(image)["Config"]["Labels"]
    kept = {key.rpartition(".")[2]: value for key, value in labels.items()}
    assert kept["version"] == build.IMAGES[image].rpartition(":")[2]
    assert len(kept["revision"].removesuffix("-dirty")) == 40
    assert kept["source"] == build.SOURCE


def test_its_user_is_a_number_that_kubernetes_takes_for_no_root(image):
    assert inspected(image)["Config"]["User"] == "1000:1000"


def test_it_is_small(image):
    if image in BUDGET:
        assert inspected(image)["Size"] < BUDGET[image]


def test_a_program_that_knows_no_signals_ends_at_once_when_it_is_told_to(image, containers):
    sleeping = containers.start(image, "sleep", "600", name="sleeping")
    engine("stop", "--time", "60", sleeping)
    status, _ = containers.wait(sleeping)
    assert status == 143


def test_the_server_answers(containers, eventually):
    if not is_built("mlflow"):
        pytest.skip(f"the image {build.IMAGES['mlflow']} is not built here")
    store = f"sqlite:///{containers.workspace}/mlflow.db"
    files = str(containers.workspace / "artifacts")
    containers.start(
        "mlflow",
        *("mlflow", "server", "--host", "0.0.0.0", "--allowed-hosts", "*"),
        *("--backend-store-uri", store, "--artifacts-destination", files),
        name="server",
    )
    ask = "import urllib.request as r; print(r.urlopen('http://server:5000/health').read())"

    def answers():
        return containers.run("mlflow", "python", "-c", ask).stdout == "b'OK'\n"

    assert eventually(answers, seconds=180)
