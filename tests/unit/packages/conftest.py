"""An index of packages, and projects whose own packages are built from their code."""

import re
from base64 import b64encode
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from projects import BACKEND, PROJECT, THERE, write_wheel

from trireme.packages.uv import Uv


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
