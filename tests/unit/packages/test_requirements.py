"""Requirements of a run: what may be required, and what is no package."""

import re

import pytest
from projects import PROJECT

from trireme.errors import InputError
from trireme.packages import install, requirements


@pytest.mark.parametrize(
    "accepted",
    [
        "accelerate",
        "accelerate>=1.2; python_version > '3.8'",
        "peft @ git+https://example.org/peft.git@main",
        "peft @ git+ssh://git@example.org/peft.git",
        "requirements.txt",
        "train/requirements.in",
        "pyproject.toml",
        "sub/uv.lock",
        "pyproject.toml[train]",
        "./sub/pyproject.toml[train, gpu]",
        "pyproject.toml:train",
        "uv.lock[train]",
        "sub/uv.lock:train",
        ".",
        ".[train]",
        "./sub[train,gpu]",
        "./wheels/mine-1.0-py3-none-any.whl[train]",
        "mine-1.0.tar.gz",
        "ruamel.yaml",
        "discord.py>=2",
        "flufl-lock",
        "setup.py @ https://example.org/setup_py-1.0-py3-none-any.whl",
    ],
)
def test_a_requirement_or_what_is_in_the_repository_is_accepted(accepted):
    requirements.check([accepted])


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        ("two words", "'two words': is neither a requirement"),
        ("", "'': is neither a requirement"),
        (3, "3: must be a list of texts"),
        ("/etc/requirements.txt", "must be the path of a file in the repository"),
        ("../requirements.txt", "must be the path of a file in the repository"),
        ("poetry.lock", "of .lock files only uv.lock is taken"),
        ("setup.toml", "of .toml files only pyproject.toml is taken"),
        ("poetry.lock[train]", "'poetry.lock[train]': of .lock files only uv.lock is taken; accep"),
        ("pylock.toml:train", "of .toml files only pyproject.toml is taken"),
        ("requirements.txt[train]", ".txt files have neither extras nor groups"),
        ("requirements.in:train", ".in files have neither extras nor groups"),
        ("../pyproject.toml[train]", "must be the path of a file in the repository"),
        ("/code/pyproject.toml:train", "must be the path of a file in the repository"),
        ("./../other[train]", "must be the path of a file in the repository"),
        ("-r pyproject.toml[train]", "must be the path of a file in the repository"),
        ("pyproject.toml[]", "what is named of it is no name"),
        ("pyproject.toml[train,]", "what is named of it is no name"),
        ("pyproject.toml[a b]", "what is named of it is no name"),
        ("pyproject.toml:", "what is named of it is no name"),
        ("./sub:train", "a group is one of a file"),
        ("-e .[train]", "is neither a requirement nor in the repository"),
        ("--group train", "is neither a requirement nor in the repository"),
        ("a; " + 1_900 * "(", "is neither a requirement nor in the repository"),
        ("x @ https://token@example.org/x.whl", "hold a password or token"),
        ("x @ git+ssh://ada:pw@example.org/x.git", "hold a password or token"),
        ("x @ https://example.org/x.whl?token=token@", "hold a password or token"),
    ],
)
def test_anything_else_is_refused(refused, why):
    with pytest.raises(InputError) as error:
        requirements.check([refused])
    assert why in str(error.value)
    assert "token@" not in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        *("setup.py", "setup.py[train]", "Setup.Py", "setup.cfg", "setup.cfg[train]", "tox.ini"),
        *("Pipfile", "Pipfile[dev]", "Pipfile.lock>=1", "poetry.lock ; python_version > '3'"),
        *("requirements.txt>=1", "requirements.TXT", "requirements.in [dev]", " uv.lock "),
        *("pyproject.toml[train]>=1", "PyProject.TOML[train]", "pyproject.toml [train] ; a == 'b'"),
        *("environment.yml", "environment-gpu.yaml", "conda.yaml", "env.yaml", "train.ipynb"),
    ],
)
def test_what_is_called_as_project_files_are_is_no_package(name):
    with pytest.raises(InputError) as error:
        requirements.check([name])
    said = str(error.value)
    assert said.startswith(f"requirements {name!r}: ") and error.value.exit_status == 2
    assert "pyproject.toml[EXTRA], pyproject.toml:GROUP" in said and "\n" not in said


def test_a_package_that_is_called_as_a_file_is_has_another_spelling():
    with pytest.raises(InputError, match=r"name is meant, it is 'flufl-lock'$"):
        requirements.check(["flufl.lock>=7"])
    requirements.check(["flufl-lock>=7"])


def test_the_name_of_a_file_in_the_repository_is_no_package(tmp_path, untracked):
    for file in ("train.py", "tqdm"):
        (tmp_path / file).write_text("")
    (tmp_path / "tiny").mkdir()
    for one, instead in (
        ("train.py", "train.py>=0"),
        ("train.py[gpu]", "train.py>=0"),
        ("tqdm ; python_version > '3'", "tqdm>=0"),
    ):
        with pytest.raises(InputError, match=rf"meant, it is '{instead}'$") as error:
            install.install([one], tmp_path, tmp_path)
        assert str(error.value).startswith(f"requirements {one!r}: is the name of a file, which")
        assert not (tmp_path / "packages").is_symlink()
    requirements.check_names(["tqdm>=0", "tqdm @ https://example.org/a.whl", "tiny"], tmp_path)


@pytest.mark.parametrize(
    ("file", "line"),
    [("requirements.txt", "setup.py"), ("more.in", "pyproject.toml[train] >= 1 # its extra")],
)
def test_nor_is_it_in_a_file_of_requirements_or_one_that_it_names(tmp_path, file, line):
    (tmp_path / "a.txt").write_text(f"-r {file}\ntiny-1.0-py3-none-any.whl\n")
    (tmp_path / file).write_text(f"ruamel.yaml\n-c constraints.txt\n{line}\n")
    with pytest.raises(InputError, match=re.escape(f"'a.txt': {line!r}: is the name of a file, ")):
        requirements.check_file("a.txt", tmp_path)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ("pyproject.toml[nope]", "no extra 'nope'; there is train, every-one, odd"),
        (".[train,nope]", "there is no extra 'nope'"),
        ("pyproject.toml[dev]", "there is no extra 'dev'; give 'pyproject.toml:dev'"),
        ("uv.lock[dev]", "there is no extra 'dev'; give 'uv.lock:dev'"),
        ("pyproject.toml:nope", "no dependency group 'nope'; there is dev, more, own, odd"),
        ("pyproject.toml:train", "no dependency group 'train'; give 'pyproject.toml[train]'"),
        ("uv.lock:nope", "there is no dependency group 'nope'"),
        ("pyproject.toml[odd]", "'setup.py': is the name of a file, which no index is asked for"),
        ("pyproject.toml:odd", "'Pipfile': is the name of a file, which no index is asked for"),
        ("pyproject.toml:own", "is the project itself, which no index is asked for; give '.' b"),
        ("./sub[train]", "'./sub[train]': sub/pyproject.toml does not exist in the repository"),
        ("./a.whl", "'./a.whl': a.whl does not exist in the repository"),
    ],
)
def test_an_extra_and_a_group_have_to_be_there(tmp_path, one, said):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "uv.lock").write_text("version = 1\n")
    with pytest.raises(InputError, match=re.escape(f"requirements {one!r}")) as error:
        requirements.check_files([one], tmp_path)
    assert said in str(error.value)


def test_extras_are_those_of_one_file(tmp_path):
    requirements.check(["a/pyproject.toml", "b/pyproject.toml", "a/pyproject.toml:x"])
    requirements.check(["pyproject.toml", "./pyproject.toml[train]", "a/uv.lock[train]"])
    with pytest.raises(InputError, match=r"with extras only one of a/pyproject\.toml and b/pypro"):
        requirements.check(["a/pyproject.toml[x]", "b/pyproject.toml"])


def test_a_file_has_to_be_there_readable_and_for_this_python(tmp_path):
    with pytest.raises(InputError, match=r"'a\.txt' does not exist in the repository"):
        requirements.check_file("a.txt", tmp_path)
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"'a\.txt' cannot be read: 'utf-8' codec"):
        requirements.check_file("a.txt", tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project")
    with pytest.raises(InputError, match=r"'pyproject\.toml' cannot be read"):
        requirements.check_file("pyproject.toml", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.99"\n')
    with pytest.raises(InputError, match=r"is for Python >=3\.99, and the run has 3\."):
        requirements.check_file("pyproject.toml", tmp_path)
    (tmp_path / "uv.lock").write_text('requires-python = "==3.9.*"\n')
    with pytest.raises(InputError, match=r"'uv\.lock' is for Python ==3\.9\.\*"):
        requirements.check_file("uv.lock", tmp_path)


def test_a_password_in_a_file_is_refused_and_a_variable_is_not():
    for user in ("me:${TOKEN}", "${ME}:${TOKEN}", "${TOKEN}"):
        requirements.refuse_credentials(f"tiny @ https://{user}@example.org/tiny.whl")
    for query in ("?token=${TOKEN}", "?${TOKEN}", "?user=${ME}&token=${TOKEN}#sha256=1"):
        requirements.refuse_credentials(
            f"tiny @ https://example.org/tiny.whl{query} ; extra == 'a?'"
        )
    for url in (
        "https://me:secret@example.org/tiny.whl",
        "https://me:secret@example.org/${X}",
        "https://example.org/tiny.whl?token=secret",
        "https://example.org/tiny.whl?secret",
        "https://example.org/tiny.whl?token=${TOKEN}secret",
        "https://example.org/tiny.whl?user=${ME}&token=secret",
    ):
        with pytest.raises(InputError, match="would end up in records"):
            requirements.refuse_credentials(f"tiny @ {url}")
