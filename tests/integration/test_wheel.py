"""The wheel, installed where somebody else's packages are called as ours are in the tree."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

OWN = """
from kfp import dsl
from trireme import WORKSPACE, checkout, finishing

from components.rows import LIMIT
from pipelines.names import NAME


@dsl.component(base_image="example.org/own:1", install_kfp_package=False)
def count(rows: int) -> int:
    from components.rows import LIMIT

    return rows * LIMIT


@dsl.pipeline(name=NAME, pipeline_config=WORKSPACE)
def own(rows: int = LIMIT):
    with finishing(NAME):
        checkout()
        count(rows=rows)
"""

TYPED = """
from trireme import checkout
from trireme.job.job import TrainingJob

reveal_type(TrainingJob.workers)
reveal_type(checkout)
TrainingJob(nothing_of_it=1)
"""


# mypy reads all of torch, mlflow and the rest for minutes otherwise.
MYPY = """
[mypy]
follow_imports = skip

[mypy-trireme.*,kfp.*,pydantic.*,pydantic_core.*]
follow_imports = normal
"""


def built(tree, place):
    """Builds the wheel of a tree; returns the file."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", place, tree], check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with the wheel in it, and what that needs in reach; returns its Python."""
    place = tmp_path_factory.mktemp("wheel")
    wheel = built(ROOT, place)
    venv.create(place / "venv", symlinks=True)
    target = sysconfig.get_path("purelib", vars={"base": str(place / "venv")})
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
    subprocess.run([*install, wheel], check=True)
    # Further on the path than the wheel, and without what makes this tree importable.
    (Path(target) / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "venv" / "bin" / "python", Path(target)


@pytest.fixture(scope="module")
def without_links(tmp_path_factory):
    """The tree as a ZIP file or a checkout with core.symlinks=false has it: links are text."""
    tree = tmp_path_factory.mktemp("zip") / "trireme"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines() or pytest.skip("this tree is no checkout"):
        if (ROOT / name).exists() and not name.startswith(("tests/", "manifests/")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                (tree / name).write_text(str((ROOT / name).readlink()))
            else:
                shutil.copy(ROOT / name, tree / name)
    return tree


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """What is in the sdist."""
    place = tmp_path_factory.mktemp("sdist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", place]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (sdist,) = place.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    return place / sdist.name.removesuffix(".tar.gz")


@pytest.fixture
def folder(tmp_path):
    """A repository with packages called components and pipelines."""
    for name, content in (("components/rows", "LIMIT = 7"), ("pipelines/names", "NAME = 'own'")):
        file = tmp_path / f"{name}.py"
        file.parent.mkdir()
        (file.parent / "__init__.py").touch()
        file.write_text(content)
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def test_it_installs_one_name(installed):
    _, packages = installed
    mine = [path.name for path in packages.iterdir() if re.match(r"(?!needed|bin)", path.name)]
    assert sorted(mine) == ["trireme", "trireme_pipelines-0.1.0.dist-info"]
    assert (packages / "trireme" / "py.typed").exists()
    assert (packages / "trireme" / "examples" / "ci" / ".github/workflows/train.yml").exists()


@pytest.mark.slow
@pytest.mark.parametrize("source", ["without_links", "unpacked"])
def test_a_tree_without_links_and_the_sdist_have_the_same_wheel_and_train(
    source, installed, tmp_path_factory, request
):
    tree = request.getfixturevalue(source)
    with zipfile.ZipFile(built(tree, tmp_path_factory.mktemp("wheel"))) as wheel:
        names = {name for name in wheel.namelist() if name.startswith("trireme/")}
    _, packages = installed
    there = [file for file in (packages / "trireme").rglob("*") if "__pycache__" not in file.parts]
    assert names == {str(file.relative_to(packages)) for file in there if file.is_file()}
    home = tmp_path_factory.mktemp("home")
    words = ["run", "pytorch-training", "-p", "workers=0", "-p", 'args=["--epochs", "1"]']
    done = subprocess.run(
        [sys.executable, "-m", "trireme", *words, "-p", "min_accuracy=0.1"],
        cwd=home,
        # Other tests may have left what leads to their MLflow.
        env={name: text for name, text in os.environ.items() if not name.startswith("MLFLOW_")}
        | {"PYTHONPATH": str(tree), "TRIREME_HOME": str(home / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"export +finished", done.stdout)


@pytest.mark.slow
def test_a_pipeline_uses_both(installed, folder):
    python, packages = installed
    variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [python, "-m", "trireme", "run", "own.py", "-p", "rows=2"],
        cwd=folder,
        env=variables | {"TRIREME_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"checkout +finished .* the trainers of Trireme 0\.1\.0", done.stdout)
    assert re.search(r"count +finished", done.stdout)
    where = [python, "-c", "import trireme; print(trireme.__file__)"]
    found = subprocess.run(where, cwd=folder, env=variables, capture_output=True, text=True)
    assert found.stdout.strip() == str(packages / "trireme" / "__init__.py")


@pytest.mark.slow
def test_a_type_checker_sees_its_types(installed, folder):
    python, _ = installed
    (folder / "typed.py").write_text(TYPED)
    (folder / "mypy.ini").write_text(MYPY)
    check = [sys.executable, "-m", "mypy", "--python-executable", python, "--no-incremental"]
    more = ["--config-file", "mypy.ini", "--cache-dir", os.devnull, "typed.py"]
    variables = {name: value for name, value in os.environ.items() if "MYPY" not in name}
    done = subprocess.run(
        [*check, *more], cwd=folder, env=variables, capture_output=True, text=True
    )
    assert 'note: Revealed type is "int' in done.stdout or "builtins.int" in done.stdout
    assert "def (url: Any =, revision: Any =" in done.stdout.replace("*", "")
    assert 'Unexpected keyword argument "nothing_of_it"' in done.stdout
