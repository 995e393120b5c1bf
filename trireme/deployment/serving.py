"""A server of a model on this machine: started, asked, and ended with whoever started it.

MLflow's scoring server or, of a language model, one of OpenAI's API.
"""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from trireme.deployment.openai_api import NoAnswer, OpenAIApi
from trireme.errors import InputError, TriremeError, exit_in_words
from trireme.files.home import home, make_home, unwritable
from trireme.models.language import MODEL
from trireme.packages.install import of_model
from trireme.runner.local.supervised import supervised

if TYPE_CHECKING:
    import requests

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""What a request may call the server, in its header Host."""

BODY_LIMIT = 1 << 28  # bytes of a request; read as JSON it takes several times as much memory
GRACE = 5.0  # seconds the server gets to finish its requests when it is ended
START_LIMIT = 300.0  # seconds in which it has to have loaded the model
ANSWER_LIMIT = 120.0  # seconds for one answer
POLL = 0.1  # seconds between two looks whether it listens
TAIL = 20  # lines of its log that are shown when it ends by itself

JSON = {"Content-Type": "application/json"}

LOCAL_CHAT = "trireme.deployment.local_chat"
APP = ("--factory", "trireme.deployment.local_app:make")

# A model's code is somebody's, and needs no way to the registry it came from.
_WITHHELD = (
    "HF_TOKEN",
    "MLFLOW_TRACKING_",
    "MLFLOW_REGISTRY_",
    "MLFLOW_RUN_ID",
    "MLFLOW_EXPERIMENT_",
)


class ServingFailed(TriremeError):
    """The scoring server ended, or does not predict; ``detail`` holds its last lines."""


def check_port(port: int) -> None:
    """Refuses a port that the server could not listen on."""
    with socket.socket() as probe:
        # As the server does: a connection that has just ended is not in its way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise _unusable(port, str(error.strerror).lower()) from None


def listens(port: int) -> bool:
    """Tells whether a server takes connections on a port of this machine."""
    with contextlib.suppress(OSError):
        socket.create_connection((HOST, port), timeout=1).close()
        return True
    return False


def log_file(port: int) -> Path:
    """Returns the file that holds what the server on a port prints."""
    return home() / "serving" / f"{port}.log"


class Server:
    """A scoring server that runs; see ``started``.

    Args:
        api: How a language model is asked; none: as MLflow's scoring server.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        port: int,
        log: BinaryIO,
        show: Callable[[str], None],
        api: OpenAIApi | None = None,
    ) -> None:
        self.base_url = f"http://{HOST}:{port}"
        self.url = f"{self.base_url}{api.path if api else '/invocations'}"
        self._api = api
        self._process, self._port, self._log, self._show = process, port, log, show
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def first_answer(self, request: str) -> str:
        """Waits until the server has loaded the model, and really predicts."""
        limit = time.monotonic() + START_LIMIT
        while not listens(self._port):  # which MLflow's server does once the model is loaded
            if self._process.poll() is not None:
                self.wait()
            if time.monotonic() > limit:
                raise ServingFailed(
                    f"the scoring server did not load the model within {START_LIMIT:.0f} s",
                    self._last_lines(),
                )
            time.sleep(POLL)
        return self.answer(request)

    def answer(self, request: str) -> str:
        """Returns the answer to a request, as MLflow's scoring server has both."""
        if not self._api:
            return self._post(request)
        try:
            return self._api.answer(request, lambda body: json.loads(self._post(json.dumps(body))))
        except NoAnswer as error:
            raise ServingFailed(str(error)) from None

    def _post(self, request: str) -> str:
        import requests

        with requests.Session() as session:
            session.trust_env = False  # a proxy of this environment has no way to here
            try:
                response = session.post(
                    self.url, data=request.encode(), headers=JSON, timeout=ANSWER_LIMIT
                )
            except requests.RequestException as error:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE)
                    self.wait()
                raise ServingFailed(
                    f"the scoring server does not answer: {error}", self._last_lines()
                ) from None
        if response.status_code != 200:
            raise ServingFailed(
                f"the scoring server refuses the request ({response.status_code}): "
                f"{_reason(response)}"
            )
        return response.text

    def wait(self) -> NoReturn:
        """Waits until the server ends by itself."""
        status = self._process.wait()
        self._reader.join(GRACE)
        words = exit_in_words(status)
        raise ServingFailed(
            f"the scoring server {words}; its log is {self._log.name}", self._last_lines()
        )

    def end(self) -> None:
        """Ends the server and everything it started."""
        self._process.terminate()
        self._process.wait()
        self._reader.join(GRACE)

    def _read(self) -> None:
        assert self._process.stdout is not None
        while raw := self._process.stdout.readline(1 << 16):
            with contextlib.suppress(OSError):  # a full disk does not stop the server
                self._log.write(raw)
                self._log.flush()
            line = raw.decode(errors="replace").rstrip()
            self._tail.append(line)
            with contextlib.suppress(OSError):  # nor does a terminal that has gone
                self._show(line)

    def _last_lines(self) -> str:
        return "\n".join(self._tail)


@contextmanager
def started(
    files: Path, port: int, show: Callable[[str], None], api: OpenAIApi | None = None
) -> Iterator[Server]:
    """Starts the scoring server on a model; afterwards no process of it is left."""
    command, environment = _of_openai(files, port, api) if api else _command(files, port)
    # Not in the model's directory: Python would look for modules there.
    directory = _named(files, api.model) if api else log_file(port).parent
    with _log(port) as log:
        process = supervised(command, GRACE, environment, directory)
        server = Server(process, port, log, show, api)
        try:
            yield server
        finally:
            server.end()


def _command(files: Path, port: int) -> tuple[list[str], dict[str, str]]:
    """Returns what ``mlflow models serve --env-manager local`` ends in: uvicorn with MLflow's app.

    That command takes as long to start as the server itself, and stays in memory beside it. The app
    is guarded, see ``local_app.py``.
    """
    from mlflow.pyfunc import scoring_server

    command, environment = scoring_server.get_cmd(str(files), port, HOST)
    env = _kept(environment, of_model(files))
    return [sys.executable, "-m", *shlex.split(command)[:-1], *APP], env


def _kept(environment: Mapping[str, str], packages: str) -> dict[str, str]:
    """Returns the environment of a server, with a folder of the model's packages."""
    env = {key: value for key, value in environment.items() if not key.startswith(_WITHHELD)}
    env["MLFLOW_DISABLE_TELEMETRY"] = "true"
    if packages:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [packages, env.get("PYTHONPATH")]))
    return env


def _named(files: Path, name: str) -> Path:
    """Returns a folder with a language model by its name, which is what requests call it."""
    folder = files.with_name("served")
    folder.mkdir()
    (folder / name).symlink_to(files / MODEL)
    return folder


def _of_openai(files: Path, port: int, api: OpenAIApi) -> tuple[list[str], dict[str, str]]:
    """Returns what serves a language model: vLLM, where it is installed, or transformers."""
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}  # all of it is here
    bin = Path(sys.executable).parent
    if vllm := shutil.which("vllm", path=f"{bin}{os.pathsep}{os.environ.get('PATH', '')}"):
        of_port = ["--host", HOST, "--port", str(port)]
        # It would answer any page on the web that a browser here shows.
        of_port += ["--allowed-origins", "[]"]
        command = [vllm, "serve", api.model, "--served-model-name", api.model, *of_port]
        # It may be of another environment, and has all packages that it needs.
        return command, _kept(os.environ, "") | offline
    packages = of_model(files)
    for module in ("transformers", "openai"):
        if not find_spec(module) and not Path(packages, module).is_dir():
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
    # What is in the working directory is the model, and no module.
    command = [sys.executable, "-P", "-m", LOCAL_CHAT, api.model, str(port)]
    return command, _kept(os.environ, packages) | offline


@contextmanager
def _log(port: int) -> Iterator[BinaryIO]:
    """Opens the log of a port, for one server: another that has the port will listen only later."""
    file = log_file(port)
    try:
        make_home()
        file.parent.mkdir(exist_ok=True)
        log = file.open("ab", buffering=0)
    except OSError as error:
        raise unwritable(error) from None
    with log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _unusable(port, "another server is starting there") from None
        log.truncate(0)
        yield log


def _unusable(port: int, reason: str) -> InputError:
    return InputError(f"--port {port}: {reason}; name another")


def _reason(response: "requests.Response") -> str:
    """Returns the first line of MLflow's reason; a traceback follows it."""
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text
    return (message.strip().splitlines() or ["no reason given"])[0]
