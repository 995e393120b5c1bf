"""Packages with plugins, Python beside them, and a job of a framework of theirs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from acme_package import ENTRY_POINTS, FRAMEWORK, PACKAGE
from shoddy_package import SHODDY, SHODDY_ENTRY_POINTS, SHODDY_FRAMEWORKS

import trireme

ROOT = Path(trireme.__file__).parents[1]


def install(site, name, entry_points, **modules):
    """Installs a package of some modules."""
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    (info / "RECORD").write_text("")


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
