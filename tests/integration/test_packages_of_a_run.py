"""A repository that requires a package, which every program of its run finds."""

import base64
import json
import shutil
import subprocess
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from git_servers import FCGIWRAP, NGINX, PASSWORD, USER, http_server

from trireme.code import credentials
from trireme.credentials import secrets
from trireme.errors import InputError, TriremeError
from trireme.packages import present, use
from trireme.packages.install import install

pytestmark = pytest.mark.slow

USES = """
import subprocess, tiny
assert subprocess.check_output(["tiny-say"], text=True).strip() == tiny.VERSION
"""
KEEPS = """
if os.environ.get("RANK", "0") == "0":
    (model / "tiny").write_text(tiny.VERSION)
"""


def write_wheel(directory, name, version, files):
    """Writes a wheel of a package."""
    about = f"{name}-{version}.dist-info"
    files |= {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)


def build(directory, version):
    """Writes a wheel of a package with a command."""
    files = {
        "tiny/__init__.py": f"VERSION = {version!r}\ndef say():\n    print(VERSION)\n",
        f"tiny-{version}.dist-info/entry_points.txt": "[console_scripts]\ntiny-say = tiny:say\n",
    }
    write_wheel(directory, "tiny", version, files)


@pytest.fixture
def wheels(tmp_path):
    """A directory that stands for a package index."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    build(directory, "1.0")
    return directory


@pytest.fixture
def index(wheels):
    """The URL of an index that asks for a password; the log of what it was asked for."""
    told = base64.b64encode(b"ada:hunter2").decode()

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            if self.headers["Authorization"] != f"Basic {told}":
                self.send_error(401)
            elif self.path == "/simple/tiny/":
                links = "".join(
                    f'<a href="/{file.name}">{file.name}</a>' for file in wheels.iterdir()
                )
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(links.encode())
            else:
                super().do_GET()

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=wheels)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://ada:hunter2@127.0.0.1:{server.server_port}/simple"
        server.shutdown()


def test_a_private_index_is_read_with_the_secret_that_shows_nowhere(
    index, untracked, tmp_path, monkeypatch, capfd
):
    def installed():
        workspace = tmp_path / "workspace"
        workspace.mkdir(exist_ok=True)
        install(["tiny"], tmp_path, workspace, secret=secrets.given(name, "requirements"))
        return Path(use.folder(workspace))

    name = secrets.DEFAULTS["requirements"]
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.replace("ada:hunter2@", ""))
    with pytest.raises(InputError, match="lack of valid authentication credentials"):
        installed()
    monkeypatch.setenv("TRIREME_REQUIREMENTS_INDEX_URL", index)
    folder = installed()
    assert (folder / "tiny").is_dir() and (folder / "bin" / "tiny-say").is_file()
    kept = "".join(file.read_text() for file in untracked.rglob("*") if file.is_file())
    assert "hunter2" not in kept + "".join(capfd.readouterr()) and "tiny==1.0" in kept
    monkeypatch.setenv("TRIREME_REQUIREMENTS_INDEX_URL", index.replace("hunter2", "hunter3"))
    with pytest.raises(InputError) as error:
        installed()
    assert "hunter3" not in f"{error.value} {error.value.detail}"


@pytest.fixture
def requiring(graded, wheels, tmp_path):
    """The parameters of a run whose programs all need the package, of three processes."""
    parameters, code = graded(0.9), tmp_path / "repository"
    for name in ("train", "grades", "net"):
        program = code / f"{name}.py"
        program.write_text(USES + program.read_text() + (KEEPS if name == "train" else ""))
    (code / "requirements.txt").write_text(f"--no-index\n--find-links {wheels}\ntiny\n")
    git = ["git", "-C", str(code), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Second"], check=True)
    more = ("workers=1", "processes_per_worker=2", 'requirements=["requirements.txt"]')
    return [*parameters, *(word for one in more for word in ("-p", one))]


def test_every_program_finds_it_and_reproduce_installs_it_again(trireme, requiring, wheels):
    result = trireme.call("run", "pytorch-training", *requiring)
    assert result.returncode == 0, result.stderr + result.stdout
    (parent,) = trireme.parents()
    assert "gate" in parent.data.tags and "1 package installed beside it" in result.stdout
    lock = Path(trireme.nested(parent)["train"].info.artifact_uri, "packages.txt").read_text()
    assert "tiny==1.0 " in lock and f"--find-links {wheels}" in lock
    (folder,) = (path for path in (trireme.home / "packages").iterdir() if path.is_dir())
    assert parent.data.tags["packages"] == folder.name
    assert json.loads(parent.data.tags["training.inputs"])["packages"] == folder.name

    build(wheels, "2.0")
    result = trireme.call("reproduce", parent.info.run_id)
    assert result.returncode == 0, result.stderr + result.stdout
    again = trireme.parents()[0]
    assert again.data.tags["packages"] == folder.name
    assert (trireme.run_directory() / "workspace" / "model" / "tiny").read_text() == "1.0"


BACKEND = """
import zipfile
import packaging.version

def build_wheel(directory, settings=None, metadata=None):
    about = "grown-1.0.dist-info"
    name = "grown-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("grown.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\\nName: grown\\nVersion: 1.0\\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{about}/RECORD", "")
    return name
"""


def write_grown(directory, backend=BACKEND):
    """Writes a package that builds itself."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "backend.py").write_text(backend)
    requires = '["packaging"]' if "packaging" in backend else "[]"
    (directory / "pyproject.toml").write_text(
        f'[build-system]\nrequires = {requires}\nbuild-backend = "backend"\n'
        'backend-path = ["."]\n[project]\nname = "grown"\ndynamic = ["version"]\n'
    )


def test_a_package_is_built_whose_builder_is_there(untracked, wheels, tmp_path):
    """In the environment a wheel without its contents stands for the builder."""
    there = present.packages("pytorch").version("packaging")
    write_wheel(wheels, "packaging", there, {"packaging/version.py": ""})
    grown = tmp_path / "code" / "grown"
    write_grown(grown)
    listed = grown.with_name("requirements.txt")
    listed.write_text(f"--no-index\n--find-links {wheels}\n./grown\n")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    install([listed.name], listed.parent, workspace)
    assert Path(use.folder(workspace), "grown.py").is_file()


@pytest.mark.skipif(not (NGINX and FCGIWRAP), reason="needs nginx and fcgiwrap")
def test_a_repository_that_is_required_is_opened_with_the_secret_of_the_code(
    untracked, make_repository, tmp_path, monkeypatch, capfd
):
    repository = make_repository("grown")
    write_grown(repository.directory, BACKEND.replace("import packaging.version\n", ""))
    repository.commit("A package")
    bare = tmp_path / "git" / "private" / "grown.git"
    repository.git("clone", "--quiet", "--bare", ".", str(bare))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    name = secrets.given(secrets.DEFAULTS["code"], "code")

    def installed(code_url):
        workspace = tmp_path / "workspace"
        workspace.mkdir(exist_ok=True)
        with credentials.for_others(code_url, name) as git:
            install([f"grown @ git+{http.url}/private/grown.git"], tmp_path, workspace, git=git)
        return Path(use.folder(workspace))

    with http_server(tmp_path / "git") as http:
        with pytest.raises(TriremeError, match="requirements: "):
            installed(f"{http.url}/private/code.git")
        monkeypatch.setenv("TRIREME_CODE_USERNAME", USER)
        monkeypatch.setenv("TRIREME_CODE_PASSWORD", PASSWORD)
        name = secrets.given(secrets.DEFAULTS["code"], "code")
        # Another server than the code's is not told.
        with pytest.raises(TriremeError, match="requirements: "):
            installed("http://127.0.0.1:9/code.git")
        assert (installed(f"{http.url}/private/code.git") / "grown.py").is_file()
    kept = "".join(file.read_text() for file in untracked.rglob("*") if file.is_file())
    assert PASSWORD not in kept + "".join(capfd.readouterr()) and "grown @ git+http" in kept


LOADER = """
class Answer:
    def predict(self, x, params=None):
        import tiny
        return x * float(tiny.VERSION)

def _load_pyfunc(path):
    return Answer()
"""
TRIED = """
import json, os
from pathlib import Path
import numpy as np
found = Path(os.environ["EVALUATION_DIR"])
(found / "metrics.json").write_text(json.dumps({"accuracy": 1.0}))
np.save(found / "scores.npy", np.ones(8))
np.save(found / "inputs.npy", np.ones((8, 2), np.float32))
"""


def test_a_model_is_served_with_the_packages_of_its_run(trireme, requiring, tmp_path):
    code = tmp_path / "repository"
    (code / "loader.py").write_text(LOADER)
    (code / "tried.py").write_text(TRIED)
    changed = ('evaluation={"entrypoint": "tried.py"}', "model_factory=loader:_load_pyfunc")
    more = [word for one in changed for word in ("-p", one)]
    result = trireme.call("run", "pytorch-training", *requiring, *more)
    assert "answers inputs.npy through MLflow" in result.stdout, result.stderr
    shutil.rmtree(trireme.home / "packages")
    served = trireme.call("serve", "graded", "--check")
    assert "graded version 1 agrees with its file" in served.stdout, served.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("no.txt", "requirements 'no.txt' does not exist in the repository"),
        ("two words", "requirements 'two words': is neither a requirement"),
        ("Pipfile", "requirements 'Pipfile': is the name of a file, which no index is asked for"),
        ("pyproject.toml[train]", "requirements 'pyproject.toml' does not exist in the repository"),
    ],
)
def test_a_mistake_is_told_before_anything_is_created(trireme, graded, given, said):
    result = trireme.call(
        "run", "pytorch-training", *graded(0.9), "-p", f"requirements={json.dumps([given])}"
    )
    assert result.returncode == 2
    assert said in result.stderr
    assert not (trireme.home / "runs").exists()


def test_a_conflict_with_torch_is_told_before_training(trireme, graded):
    given = json.dumps(["requirements.txt"])
    code = Path(
        next(word for word in graded(0.9) if word.startswith("code_url=")).partition("=")[2]
    )
    (code / "requirements.txt").write_text("--no-index\ntorch<2\n")
    git = ["git", "-C", str(code), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Second"], check=True)
    result = trireme.call("run", "pytorch-training", *graded(0.9), "-p", f"requirements={given}")
    assert result.returncode == 2
    assert "requirements: torch<2, but torch==2" in result.stderr
    assert not (trireme.home / "runs").exists()
