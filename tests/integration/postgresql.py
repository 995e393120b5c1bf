"""A real PostgreSQL on loopback, which leaves no process and no file behind."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg2
from git_servers import free_port

# Debian keeps them off the PATH.
_PLACES = map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
_PATH = os.pathsep.join([*_PLACES, os.environ["PATH"]])
POSTGRES, INITDB = (shutil.which(name, path=_PATH) for name in ("postgres", "initdb"))

USER = "trireme"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # stopped without it, what was committed is kept; only a power cut loses it
}


class PostgreSQL:
    """A server that can go away and come back.

    Attributes:
        password: Its user's.
        place: The database and its user, without the password.
        uri: The database, as MLflow wants it, with the password.
    """

    def __init__(self, directory: Path) -> None:
        self._data, self._port = directory / "data", free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.password = secrets.token_hex(8)
        self.place = f"{USER}@127.0.0.1:{self._port}/postgres"
        # The driver is named, because SQLAlchemy 2.0 and 2.1 do not mean the same one.
        self.uri = f"postgresql+psycopg2://{self.place}".replace("@", f":{self.password}@")
        file = directory / "password"
        file.write_text(self.password)
        if os.geteuid() == 0:  # as which it does not run
            for path in (directory, file):
                shutil.chown(path, "postgres", "postgres")
        options = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={file}", "--no-sync"]
        initdb = [str(INITDB), f"--pgdata={self._data}", "--encoding=UTF8", "--no-locale"]
        subprocess.run(_unprivileged([*initdb, *options]), check=True, capture_output=True)

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        command = [str(POSTGRES), "-D", str(self._data), "-p", str(self._port), *settings]
        self._process = subprocess.Popen(
            _unprivileged(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        limit = time.monotonic() + 60
        while True:
            with contextlib.suppress(psycopg2.OperationalError):
                psycopg2.connect(f"postgresql://{self.place}", password=self.password).close()
                return
            assert self._process.poll() is None, "PostgreSQL did not start"
            assert time.monotonic() < limit, "PostgreSQL does not answer"
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it at once, as a crash does: every connection breaks."""
        if self._process:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None


def _unprivileged(command: list[str]) -> list[str]:
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


@contextlib.contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """Runs a server until the end of the block."""
    # Not below pytest's directory, where only its own user may go.
    with tempfile.TemporaryDirectory(prefix="trireme-postgresql-") as directory:
        server = PostgreSQL(Path(directory))
        server.start()
        try:
            yield server
        finally:
            server.stop()
