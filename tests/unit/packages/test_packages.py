"""The packages of a run: what may be required, what is there, and what is said of failures."""

import json
import re
import subprocess
import zipfile
from base64 import b64encode
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from trireme.compiling import loading
from trireme.errors import InputError, TriremeError
from trireme.job.job import TrainingJob
from trireme.kubernetes.errors import Unavailable
from trireme.manifests import render
from trireme.packages import install, present, requirements, use
from trireme.packages.check import check, check_for_pods
from trireme.packages.present import Present
from trireme.packages.uv import NotBuilt, Uv, explained
from trireme.pipeline import catalog
from trireme.runner.inputs import inputs_of
from trireme.tracking import journal

THERE = Present({"torch==2.13.0+cpu": "", "tqdm==4.66.0": "", "tensorflow-cpu==2.21.0": ""})


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


PROJECT = """
[project]
name = "mine"
version = "1"
dependencies = ["small"]
[project.optional-dependencies]
train = ["big"]
Every_One = ["mine[train]"]
odd = ["setup.py"]
[dependency-groups]
dev = ["grouped", {include-group = "More"}]
more = ["further"]
own = ["mine[train]"]
odd = [{include-group = "dev"}, "Pipfile"]
"""


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


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "error: No solution found when resolving dependencies\n  cause: Because you require "
            "torch==2.5.1 and torch==2.13.0+cpu, we can conclude that your requirements are "
            "unsatisfiable.",
            "requirements: torch==2.5.1, but torch==2.13.0+cpu is there already and stays",
        ),
        (
            "  cause: Because torchvision==0.15.2 depends on torch==2.0.1 and torch==2.13.0+cpu, "
            "we can\n         conclude that torchvision==0.15.2 cannot be used.",
            "requirements: torchvision==0.15.2 needs torch==2.0.1, but torch==2.13.0+cpu is there "
            "already and stays",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because nothing was "
            "not found in the package registry and you require nothing, we can conclude that your "
            "requirements are unsatisfiable.",
            "requirements: there is no package nothing in the index",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because "
            "nothing-at-all was not found in the package registry\n         and you require "
            "nothing-at-all, we can conclude that your\n         requirements are unsatisfiable.",
            "requirements: there is no package nothing-at-all in the index",
        ),
        (
            "cause: Because there is no version of tiny==9 and you require tiny==9, we can "
            "conclude that your requirements are unsatisfiable.",
            "requirements: there is no package tiny==9 in the index",
        ),
    ],
)
def test_what_cannot_be_met_is_said_in_a_sentence(said, meant):
    error = explained(said, THERE)
    assert (str(error), error.exit_status) == (meant, 2)


BUILDER = """error: Failed to build `old @ file:///code/old`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)

         [stdout]
         running build_ext

         [stderr]
{}

hint: Build failures usually indicate a problem with the package or the build environment
"""


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            (
                "Traceback (most recent call last):",
                '  File "<string>", line 2, in <module>',
                "ModuleNotFoundError: No module named 'torch'",
            ),
            "ModuleNotFoundError: No module named 'torch'",
        ),
        (
            (
                "a.c:1: warning: unused",
                "cc1: fatal error: a.c: No such file or directory",
                "compilation terminated.",
                "error: Command '['gcc', '-c', 'a.c']' returned non-zero exit status 1.",
            ),
            "cc1: fatal error: a.c: No such file or directory",
        ),
    ],
)
def test_of_a_package_that_cannot_be_built_the_last_error_is_told(lines, why):
    said = BUILDER.format("\n".join(f"         {line}" for line in lines))
    error = explained(said, THERE, builds=True)
    assert isinstance(error, NotBuilt)
    assert str(error) == f"requirements: old @ file:///code/old cannot be built: {why}"
    assert error.output == said
    assert lines[-1] in error.detail


def test_only_what_is_in_the_way_is_blamed():
    said = (
        "Because accelerate==1.0 depends on torch>=2.0.0,<3 and on torch-geometric==1.0 and you "
        "require tqdm<4, we can conclude that your requirements are unsatisfiable."
    )
    assert "is there already" not in str(explained(said, THERE))


def test_an_index_that_does_not_answer_is_nobodys_mistake():
    said = (
        "error: Failed to fetch: https://a.example/simple/x/\n  cause: error sending request for "
        "url (https://a.example/simple/x/)\n  cause: client error (Connect)\n  cause: dns error\n"
    )
    error = explained(said, THERE)
    assert not isinstance(error, InputError)
    assert str(error).startswith("requirements: the package index does not answer: Failed to fetch")
    assert "\n" not in str(error)


def test_a_secret_that_is_not_there_is_refused(untracked, tmp_path):
    with pytest.raises(InputError, match="there is no such Secret with one of index-url"):
        Uv(tmp_path, "mine", THERE)


def test_neither_the_index_nor_its_password_reaches_what_is_shown(untracked, tmp_path, monkeypatch):
    secret = untracked / "secrets" / "mine"
    secret.mkdir(parents=True)
    (secret / "index-url").write_text("https://ada:hunter2@a.example/simple")
    commands = []

    def run(command, env, input, **more):
        commands.append(command)
        assert env["UV_DEFAULT_INDEX"] == "https://a.example/simple"
        assert input == "--extra-index-url https://ada:hunter2@a.example/simple\n"
        return subprocess.CompletedProcess(command, 1, "", "https://ada:hunter2@a.example refuses")

    monkeypatch.setattr(subprocess, "run", run)
    uv = Uv(tmp_path, "mine", THERE)
    with pytest.raises(InputError) as error:
        uv("pip", "compile")
    assert "hunter2" not in f"{commands} {error.value} {error.value.detail}"
    assert install._shown("--index-url https://ada:hunter2@a.example") == (
        "--index-url https://a.example"
    )
    assert install._shown("--find-links https://a.example/all?token=hunter2") == (
        "--find-links https://a.example/all"
    )
    said = "error: Failed to download `x @ https://a.example/x.whl?token=hunter2`\n  why? (404)"
    assert str(explained(said, THERE)).endswith("`x @ https://a.example/x.whl` why? (404)")


def test_wheels_stand_for_what_is_there(tmp_path):
    there = present.packages("pytorch")
    there.write_wheels(tmp_path)
    assert there.version("packaging") and not there.version("no-such-package")
    assert there.version("tensorflow") == there.version("tensorflow-cpu")
    stem = f"packaging-{there.version('packaging')}"
    (file,) = tmp_path.glob(f"{stem}-*.whl")
    with zipfile.ZipFile(file) as wheel:
        assert b"Name: packaging" in wheel.read(f"{stem}.dist-info/METADATA")


def test_in_a_pod_the_list_of_the_frameworks_image_says_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(present, "in_a_pod", lambda: True)
    monkeypatch.setattr(present, "LOCKS", tmp_path)
    with pytest.raises(TriremeError, match=r"has no .*tensorflow-cpu\.txt"):
        present.packages("tensorflow")
    (tmp_path / "tensorflow-cpu.txt").write_text(
        "six==1.17.0 \\\n    --hash=sha256:1\ntensorflow-cpu==2.21.0 \\\n    --hash=sha256:2\n"
    )
    there = present.packages("tensorflow")
    assert there.held == ["tensorflow-cpu==2.21.0", "tensorflow==2.21.0"]
    assert there.version("six") == "1.17.0"


@pytest.mark.parametrize(
    "start",
    [
        b"#!/opt/trireme/bin/python3\n",
        b"#!/bin/sh\n'''exec' '/a long/python' \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_commands_run_with_the_python_that_is_first_in_path(tmp_path, start):
    script = tmp_path / "accelerate"
    script.write_bytes(start + b"import sys\n")
    script.chmod(0o755)
    install._make_movable(script)
    assert script.read_bytes() == b"#!/usr/bin/env python3\nimport sys\n"
    assert script.stat().st_mode & 0o111


def test_a_lock_of_another_python_is_not_installed_again(tmp_path):
    lock = tmp_path / "packages.txt"
    lock.write_text("--find-links wheels\n# Python 2.7 on linux-vax\ntiny==1.0\n")
    with pytest.raises(InputError, match=r"were chosen for Python 2\.7 on linux-vax, and this is"):
        install._read(str(lock))


@pytest.mark.parametrize("content", ["", "absl-py==2.1.0\n", "# Python packages\n", "\xff\0"])
def test_a_models_own_file_of_the_same_name_is_no_lock(tmp_path, content):
    (tmp_path / "packages.txt").write_text(content, "latin-1")
    assert install.of_model(tmp_path) == ""
    (tmp_path / "packages.txt").write_text("--no-index\n# Python 2.7 on linux-vax\n")
    with pytest.raises(InputError, match=r"were chosen for Python 2\.7"):
        install.of_model(tmp_path)


def test_of_a_pins_hashes_those_count_that_the_repository_wants(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("A_b==1 \\\n    --hash=sha256:2 --hash=sha256:9\n-r more.txt\nc\n")
    hashes = install._hashes(file)
    assert hashes == {"a-b==1": ["sha256:2", "sha256:9"]}
    (tmp_path / "more.txt").write_text(
        "c[x] == 1.0.0; python_version > '3' \\\n--hash=sha256:4\n-r requirements.txt\n"
    )
    assert install._hashes(file)["c==1"] == ["sha256:4"]
    (tmp_path / "requirements.txt").write_text(f"-r ../{tmp_path.name}/requirements.txt\na==1\n")
    assert install._hashes(file) == {}
    entry = "a-b==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2"
    kept = install._with_hashes(entry, hashes["a-b==1"])
    assert kept == "a-b==1 \\\n    --hash=sha256:2"
    assert install._with_hashes(entry, None) == entry
    with pytest.raises(InputError, match=r"a-b==1 has none of the hashes that the repository"):
        install._with_hashes(entry, ["sha256:3"])


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


def test_a_run_without_requirements_has_no_packages(tmp_path, capsys):
    install.install([], tmp_path, tmp_path)
    assert (use.folder(tmp_path), capsys.readouterr()) == ("", ("", ""))
    (tmp_path / "requirements.txt").write_text("tiny\n")
    install.install([], tmp_path, tmp_path)
    assert "a requirements.txt, which is used only with -p req" in capsys.readouterr().err


def test_replicas_find_the_packages_after_the_code():
    job = TrainingJob(entrypoint="train.py", packages="/workspace/packages/abc$")
    (pod,) = [
        part["template"]["spec"] for part in render(job)["spec"]["pytorchReplicaSpecs"].values()
    ]
    (container,) = pod["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert values["PYTHONPATH"] == "/root/code:/workspace/packages/abc$$"
    assert container["command"][:2] == ["sh", "-c"]
    assert container["command"][3] == "/workspace/packages/abc$$"
    assert container["command"][-2:] == ["python3", "train.py"]
    own = job.model_copy(update={"env": {"PYTHONPATH": "/mine"}})
    (pod,) = [
        part["template"]["spec"] for part in render(own)["spec"]["pytorchReplicaSpecs"].values()
    ]
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert env["PYTHONPATH"] == "/mine:/workspace/packages/abc$$"


def test_a_worker_of_an_mpi_job_still_runs_what_the_operator_has_it_run():
    job = TrainingJob(framework="mpi", entrypoint="train.py", packages="/packages")
    worker = render(job)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert "command" not in worker


def test_other_packages_are_a_change_and_another_place_is_none():
    before, moved, changed = (
        inputs_of(TrainingJob(entrypoint="train.py", packages=place))
        for place in ("/a/1234", "/b/1234", "/a/5678")
    )
    assert before == moved != changed
    assert "packages" not in inputs_of(TrainingJob(entrypoint="train.py"))


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


def write_wheel(folder, name, *needs):
    """Writes a wheel of a package with one module."""
    folder.mkdir(parents=True, exist_ok=True)
    about = [f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0", *needs]
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", "\nRequires-Dist: ".join(about) + "\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


@pytest.fixture
def index(tmp_path, untracked, monkeypatch):
    """An index, which uv asks, with a package that needs a torch of long ago, and another."""
    write_wheel(tmp_path / "index" / "tiny", "tiny", "tqdm")
    write_wheel(tmp_path / "index" / "old", "old", "torch<2")

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            needed = server.login and f"Basic {b64encode(server.login.encode()).decode()}"
            if self.headers.get("Authorization", "") == needed:
                super().do_GET()
            else:
                self.send_error(401)

        def log_message(self, *_):
            return

    folder = partial(Handler, directory=tmp_path / "index")
    with ThreadingHTTPServer(("127.0.0.1", 0), folder) as server:
        server.login = ""
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("UV_NO_CACHE", "1")
        yield server
        server.shutdown()


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


BACKEND = """
import zipfile
from base64 import b64encode

def build_wheel(directory, settings=None, metadata=None):
    name = "mine-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("mine.py", "")
        about = "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n"
        wheel.writestr("mine-1.dist-info/METADATA", about)
        wheel.writestr("mine-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("mine-1.dist-info/RECORD", "")
    return name
"""


@pytest.fixture
def code(index, tmp_path):
    """A project with extras, groups and a lock, whose index has packages called as files are."""
    for name in ("small", "big", "grouped", "further", "pyproject_toml", "setup_py", "pipfile"):
        write_wheel(tmp_path / "index" / name.replace("_", "-"), name)
    folder = tmp_path / "code"
    write_wheel(folder, "beside")
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(re.sub("odd = .*\n", "", PROJECT) + build)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "sub").mkdir()
    (folder / "sub" / "pyproject.toml").write_text(
        '[project]\nname = "other"\nversion = "1"\n[dependency-groups]\ndev = ["further"]\n'
    )
    Uv(folder, "", THERE)("lock")
    return folder


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["pyproject.toml", "pipfile"], "pipfile small"),
        (["./pyproject.toml[every.one]", "pyproject.toml"], "big small"),
        (["pyproject.toml[train]", "sub/pyproject.toml:dev"], "big further small"),
        (["pyproject.toml:dev"], "further grouped"),
        (["pyproject.toml:own", "."], ". big small"),
        (["uv.lock", "uv.lock:more"], "further small"),
        (["uv.lock[train]"], "big small"),
        (["uv.lock:own", "./sub"], "./sub big small"),
        (["beside-1.0-py3-none-any.whl"], "./beside-1.0-py3-none-any.whl"),
    ],
)
def test_what_is_named_of_the_repository_is_what_is_resolved(code, wanted, found):
    there = present.packages("pytorch")
    lock, _ = install.resolved(wanted, "pytorch", there, Uv(code, "", there))
    entries = (entry.split()[0] for entry in install._entries(lock))
    assert sorted(entry.removesuffix("==1.0") for entry in entries) == found.split()


def test_a_package_of_the_repository_is_installed_with_its_extra(code, tmp_path):
    (tmp_path / "workspace").mkdir()
    install.install([".[train]"], code, tmp_path / "workspace")
    files = {file.stem for file in Path(use.folder(tmp_path / "workspace")).glob("*.py")}
    assert files == {"mine", "small", "big", "sitecustomize"}


@pytest.mark.parametrize("check", [check_for_pods, partial(check, secret="", git={})])
def test_before_a_run_all_files_of_a_folder_here_are_known(code, check):
    with pytest.raises(InputError, match=r"there is no extra 'nope'; there is train, every-one$"):
        check(["pyproject.toml[nope]"], code, "pytorch")
    with pytest.raises(InputError, match=r"'backend\.py': is the name of a file, which no index"):
        check(["backend.py"], code, "pytorch")
    check(["pyproject.toml[train]", "uv.lock:dev"], code, "pytorch")


@pytest.fixture
def hostile(code, monkeypatch, tmp_path):
    """Code that tells what its builder is given, once that runs, of a user who has passwords."""
    told = tmp_path / "told"
    spy = f"import os, json\nopen({str(told)!r}, 'w').write(json.dumps(dict(os.environ)))\n"
    (code / "backend.py").write_text(spy + BACKEND)
    given = {
        **dict.fromkeys(("MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"), "x"),
        **dict.fromkeys(("SSH_AUTH_SOCK", "TRIREME_CODE_PASSWORD", "UV_INDEX_OWN_PASSWORD"), "x"),
        "WAREHOUSE": "postgresql://me:x@example.org/data",
        "MAX_JOBS": "2",
        "TOKENIZERS_PARALLELISM": "false",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return told


DYNAMIC = '[project]\nname = "mine"\nversion = "1"\ndynamic = ["dependencies"]\n'


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


def test_what_builds_a_package_is_given_nothing_that_opens_servers(code, hostile, tmp_path):
    (tmp_path / "workspace").mkdir()
    git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "x"}
    install.install(["."], code, tmp_path / "workspace", git=git)
    given = json.loads(hostile.read_text())
    assert "x" not in given.values() and "WAREHOUSE" not in given
    assert (given["MAX_JOBS"], given["TOKENIZERS_PARALLELISM"]) == ("2", "false")


@pytest.mark.parametrize("where", ["UV_DEFAULT_INDEX", "UV_INDEX", "PIP_INDEX_URL", "index-url"])
def test_nor_the_password_of_the_index_that_it_is_from(
    index, code, hostile, untracked, tmp_path, monkeypatch, where
):
    index.login = "ada:hunter2"
    url = f"http://{index.login}@127.0.0.1:{index.server_port}"
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    if where == "UV_INDEX":
        (tmp_path / "empty").mkdir()
        monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "empty").as_uri())
        url = f"own={url}"
    if where == "index-url":
        (untracked / "secrets" / "mine").mkdir(parents=True)
        (untracked / "secrets" / "mine" / where).write_text(url)
    else:
        monkeypatch.setenv(where, url)
    build = (code / "pyproject.toml").read_text().partition("[build-system]")[2]
    (code / "pyproject.toml").write_text(f"{DYNAMIC}[build-system]{build}")
    (code / "backend.py").write_text(
        f"{(code / 'backend.py').read_text()}\ndef get_requires_for_build_wheel(settings=None):\n"
        "    return ['grouped']\n"
    )
    (tmp_path / "workspace").mkdir()
    install.install(
        [".", "small"], code, tmp_path / "workspace", secret="mine" if where == "index-url" else ""
    )
    files = {file.stem for file in Path(use.folder(tmp_path / "workspace")).glob("*.py")}
    assert files == {"mine", "small", "sitecustomize"}
    kept = "".join(file.read_text() for file in untracked.rglob(journal.PACKAGES))
    assert "hunter2" not in hostile.read_text() + kept and "small==1.0" in kept


def test_a_requirements_file_may_want_nothing_built(code, hostile, tmp_path):
    (code / "requirements.txt").write_text("--only-binary :all:\n.\n")
    (tmp_path / "workspace").mkdir()
    with pytest.raises(InputError, match=r"^requirements: mine has no wheel, and a requirements "):
        install.install(["requirements.txt"], code, tmp_path / "workspace")
    assert not hostile.exists()


def test_a_repositorys_file_names_no_secret_of_the_environment(code, hostile):
    line = "other @ https://127.0.0.1:9/${AWS_SECRET_ACCESS_KEY}/other-1-py3-none-any.whl"
    (code / "deep.txt").write_text(f"{line}\n")
    for own in (line, "--index-url https://127.0.0.1:9/?${AWS_SECRET_ACCESS_KEY}", "-r deep.txt"):
        (code / "requirements.txt").write_text(f"small\n{own}\n")
        with pytest.raises(InputError, match=r"\$\{AWS_SECRET_ACCESS_KEY\} of your environment"):
            check(["requirements.txt"], code, "pytorch", "", {})
    (code / "requirements.txt").write_text(f"{line.replace('AWS_SECRET_ACCESS_KEY', 'MAX_JOBS')}\n")
    requirements.check_files(["requirements.txt"], code)


def test_what_this_user_requires_may_name_one(code, hostile):
    server = "https://127.0.0.1:9"
    wanted = [f"other @ {server}/x.whl?token=${{HF_TOKEN}}", f"more @ git+{server}/more.git"]
    uv = Uv(code, "", THERE, {"GIT_CONFIG_COUNT": "0"}, wanted)
    assert uv.environment["HF_TOKEN"] == uv.environment["SSH_AUTH_SOCK"] == "x"
    assert uv.environment["GIT_CONFIG_COUNT"] == "0"
    assert "AWS_SECRET_ACCESS_KEY" not in uv.environment
