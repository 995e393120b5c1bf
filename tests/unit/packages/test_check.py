"""Packages of a run before there is one: what cannot be installed is refused, nothing built."""

import re
from functools import partial

import pytest
from projects import DYNAMIC

from trireme.compiling import loading
from trireme.errors import InputError
from trireme.kubernetes.errors import Unavailable
from trireme.packages import requirements
from trireme.packages.check import check, check_for_pods
from trireme.pipeline import catalog


class Place:
    """A cluster whose namespace has these Secrets; None for one that does not answer."""

    is_here = False

    def __init__(self, secrets):
        self.secrets, self.namespace = secrets, "team"

    def cluster(self):
        if self.secrets is None:
            raise Unavailable("it is away")
        return self

    def find(self, resource, name, namespace):
        return {} if name in self.secrets else None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["old"], "requirements: old needs torch<2, but torch=="),
        (["torch==1.0"], "requirements: torch==1.0, but torch=="),
        (["tiny", "nothing-of-that-name"], "there is no package nothing-of-that-name in the index"),
    ],
)
def test_what_pods_cannot_install_is_refused_unless_they_may_ask_another_index(
    index, capsys, wanted, said
):
    pipeline = catalog.load("pytorch-training")
    with pytest.raises(InputError, match=re.escape(said)):
        loading.ready(pipeline, {"requirements": wanted}, Place([]))
    for place in (Place(None), Place(["trireme-requirements"])):
        loading.ready(pipeline, {"requirements": wanted}, place)
        assert (
            f"warning: requirements: {said.removeprefix('requirements: ')}"
            in capsys.readouterr().err
        )


def test_what_pods_can_install_and_what_nobody_here_knows_is_not_refused(
    index, tmp_path, monkeypatch, capsys
):
    pipeline = catalog.load("pytorch-training")
    loading.ready(pipeline, {"requirements": ["tiny"]}, Place([]))
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1")
    loading.ready(pipeline, {"requirements": ["nothing-of-that-name"]}, Place([]))
    assert capsys.readouterr().err == ""


def test_files_for_another_python_than_the_images_are_refused(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.12"\n')
    with pytest.raises(InputError, match=r"is for Python >=3\.12, and the run has 3\.11\.2"):
        check_for_pods(["pyproject.toml"], tmp_path, "pytorch")


@pytest.mark.parametrize("check", [check_for_pods, partial(check, secret="", git={})])
def test_before_a_run_all_files_of_a_folder_here_are_known(code, check):
    with pytest.raises(InputError, match=r"there is no extra 'nope'; there is train, every-one$"):
        check(["pyproject.toml[nope]"], code, "pytorch")
    with pytest.raises(InputError, match=r"'backend\.py': is the name of a file, which no index"):
        check(["backend.py"], code, "pytorch")
    check(["pyproject.toml[train]", "uv.lock:dev"], code, "pytorch")


@pytest.mark.parametrize("check", [check_for_pods, partial(check, secret="", git={})])
@pytest.mark.parametrize("wanted", [".", "pyproject.toml"])
def test_before_a_run_no_code_of_a_package_runs(code, hostile, check, wanted, capsys):
    check([wanted], code, "pytorch")  # static, so all is known
    assert not hostile.exists() and "note" not in capsys.readouterr().err
    build = (code / "pyproject.toml").read_text().partition("[build-system]")[2]
    for project in ("", DYNAMIC):
        (code / "pyproject.toml").write_text(f"{project}[build-system]{build}")
        check([wanted], code, "pytorch")
        assert not hostile.exists()
        assert "requires only its own code tells, such as a setup.py" in capsys.readouterr().err


def test_a_repositorys_file_names_no_secret_of_the_environment(code, hostile):
    line = "other @ https://127.0.0.1:9/${AWS_SECRET_ACCESS_KEY}/other-1-py3-none-any.whl"
    (code / "deep.txt").write_text(f"{line}\n")
    for own in (line, "--index-url https://127.0.0.1:9/?${AWS_SECRET_ACCESS_KEY}", "-r deep.txt"):
        (code / "requirements.txt").write_text(f"small\n{own}\n")
        with pytest.raises(InputError, match=r"\$\{AWS_SECRET_ACCESS_KEY\} of your environment"):
            check(["requirements.txt"], code, "pytorch", "", {})
    (code / "requirements.txt").write_text(f"{line.replace('AWS_SECRET_ACCESS_KEY', 'MAX_JOBS')}\n")
    requirements.check_files(["requirements.txt"], code)
