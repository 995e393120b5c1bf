"""The MLflow store that is meant: a server, or the database of what has run on this machine."""

import glob
import json
import os
import re
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from trireme.credentials import certificates
from trireme.errors import InputError, first_line
from trireme.files.home import home

if TYPE_CHECKING:
    import ssl

UI_PORT = 5000  # where "trireme ui" shows a database's runs
TRAINING = "?workflowType=machine_learning"  # on MLflow 3's pages, which else are about prompts
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
CA_VARIABLES = ("MLFLOW_TRACKING_SERVER_CERT_PATH", "REQUESTS_CA_BUNDLE")
"""Variables by which MLflow's client finds the CAs that it trusts, the first before the second."""

ANSWER_LIMIT = 10.0  # seconds within which a tracking server has to answer before we start

# Of what answers 200 to everything, health tells nothing.
_PROBE = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=Default"
_PROBE_SIZE = 1 << 16  # bytes; more than MLflow answers

_DRIVERS = {
    "MySQLdb": "mysqlclient",
    "mysql": "mysql-connector-python",
    "psycopg": "'psycopg[binary]'",
    "psycopg2": "psycopg2-binary",
}
"""Packages by drivers that come with them and are called otherwise."""

_FILE = re.compile(r"sqlite(?:\+\w+)?:///([^?]+)")
"""The URI of a database in a file."""

_REFUSAL = re.compile("FATAL|Access denied|Login failed")
"""What PostgreSQL, MySQL and SQL Server say where they are there and do not take us."""


def use() -> str:
    """Makes MLflow use the store that MLFLOW_TRACKING_URI names, by default this machine's own."""
    at = uri()
    check_reachable(at)
    if at == default_uri(home()) and not (home() / "mlflow.db").exists():
        raise InputError(
            f"nothing has run on this machine yet: there is no {home() / 'mlflow.db'}; run a "
            "pipeline, or set MLFLOW_TRACKING_URI to a server"
        )
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    import mlflow

    quiet()
    mlflow.set_tracking_uri(at)
    return at


def uri() -> str:
    """Returns what MLFLOW_TRACKING_URI names, by default this machine's own store."""
    return os.environ.get("MLFLOW_TRACKING_URI") or default_uri(home())


def quiet() -> None:
    """Keeps MLflow from logging, which tells much, and the password in its URI as well."""
    import logging

    import mlflow  # which sets its loggers up when it is loaded

    # Where tqdm is installed, it draws one for all files that it brings.
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    for chatty in ("alembic", mlflow.__name__):
        logging.getLogger(chatty).setLevel(logging.ERROR)


def default_uri(home: Path) -> str:
    """Returns the tracking URI of the SQLite store in Trireme's data directory."""
    return f"sqlite:///{home / 'mlflow.db'}"


def make(home: Path) -> None:
    """Makes the SQLite store in a data directory where there is none, whole or not at all.

    MLflow makes it in many steps, and cannot go on where it was killed among them. Only its owner
    can read it, and its artifacts.
    """
    file, partial = home / "mlflow.db", home / "mlflow.db.partial"
    artifacts = home / "mlartifacts"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    artifacts.mkdir(exist_ok=True)
    with suppress(PermissionError):  # somebody else's, who shares them
        artifacts.chmod(0o700)
        if file.exists():
            file.chmod(0o600)
    if file.exists():
        return
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    quiet()
    for left in home.glob(f"{partial.name}*"):  # with SQLite's own files beside it
        left.unlink()
    sql_store = SqlAlchemyStore(f"sqlite:///{partial}", str(artifacts))
    sql_store._dispose_engine()
    partial.chmod(0o600)
    partial.rename(file)


def page_of(uri: str, experiment_id: str, run_id: str) -> str:
    """Returns a run's page in MLflow's UI: the server's, or that which ``trireme ui`` starts."""
    is_server = uri.startswith(("http://", "https://"))
    server = public(uri).rstrip("/") if is_server else f"http://127.0.0.1:{UI_PORT}"
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}{TRAINING}"


def called(label: str, uri: str) -> str:
    """Returns what a page in MLflow's UI is called, with when it can be opened."""
    is_server = uri.startswith(("http://", "https://"))
    return label if is_server else f"{label} (while trireme ui runs)"


def seen_from_here(page: str) -> str:
    """Returns a page of the server that MLFLOW_TRACKING_URI names, whatever pods call it."""
    own_uri, (server, separator, rest) = uri(), page.partition("/#/experiments/")
    is_page = separator and {"http", "https"} >= {
        address.partition("://")[0] for address in (own_uri, server)
    }
    return f"{public(own_uri).rstrip('/')}{separator}{rest}" if is_page else page


def public(uri: str) -> str:
    """Returns a URI without user name and password."""
    scheme, separator, rest = uri.partition("://")
    if scheme == "sqlite":
        return uri  # a path, in which @ is a letter
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else uri


def reason_of(error: Exception) -> str:
    """Returns in a line what MLflow, or a driver of its, says is wrong, without the password."""
    # Not by MLflow, which may be what cannot be loaded.
    return first_line(error).replace(uri(), public(uri()))


def check_writable(uri: str) -> None:
    """Refuses a store that is not there, or a file that we may not write to."""
    check_reachable(uri)
    match = _FILE.match(uri)
    if not match:
        return
    file, is_own = Path(match[1]), uri == default_uri(home())
    # SQLite has files of its own beside it.
    paths = [file.parent, *file.parent.glob(f"{glob.escape(file.name)}*")]
    if is_own:
        paths += [file.with_name(name) for name in ("mlflow.lock", "mlartifacts", "unsent")]
    for path in paths:
        if path.exists() and not os.access(path, os.W_OK):
            variable = "TRIREME_HOME" if is_own else "MLFLOW_TRACKING_URI"
            raise InputError(f"{path}: {_why_not(path)}, or set {variable} to another place")


def _why_not(path: Path) -> str:
    """Returns why we may not write to a place where MLflow's records are, and what to do."""
    user, owner = os.getuid(), path.stat().st_uid
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return "its file system is read-only, and MLflow's records are there; mount it writable"
    if user == owner:
        return f"user {user} may not write to it, and MLflow's records are there; change its mode"
    return (
        f"user {user} may not write to what belongs to user {owner}, and MLflow's records are "
        "there; change its owner"
    )


def check_reachable(uri: str) -> None:
    """Refuses a store that is not there or cannot be read, sooner and clearer than MLflow would."""
    try:
        Path.home()
    except RuntimeError:
        raise InputError(
            f"HOME: must be a directory, which MLflow looks for; user {os.getuid()} has none"
        ) from None
    if not uri.startswith(("http://", "https://")):
        _check_kind(uri)
        if find_spec("sqlalchemy") is None:
            raise ModuleNotFoundError(name="sqlalchemy")
        if uri.partition(":")[0].partition("+")[0] in DATABASES[1:]:
            _check_database(uri)
        elif uri == default_uri(home()):
            from trireme.tracking import migrating

            migrating.upgrade(home() / "mlflow.db")
        return
    import http.client
    import urllib.error
    import urllib.request

    address = f"{public(uri).rstrip('/')}{_PROBE}"
    try:
        try:
            answer = urllib.request.urlopen(address, timeout=ANSWER_LIMIT, context=_trusted())
        except urllib.error.HTTPError as error:
            if error.code in (401, 403, 429) or error.code >= 500:
                return  # it answers; whether it accepts us, the first call shows
            answer = error
        with answer:
            is_it = _is_of_mlflow(answer.read(_PROBE_SIZE))
    except http.client.IncompleteRead:
        return  # the way to it is bad, for which calls have patience
    except http.client.HTTPException:  # another protocol
        is_it = False
    except (OSError, ValueError) as error:
        if refused := certificates.refused(
            str(error), f"MLFLOW_TRACKING_URI {public(uri)}", CA_VARIABLES[-1]
        ):
            raise refused from None
        raise _away(uri, getattr(error, "reason", error)) from None
    if not is_it and not _answers_its_client(uri):
        raise InputError(
            f"MLFLOW_TRACKING_URI {public(uri)}: what answers there is not MLflow; set it to the "
            "URL of an MLflow server, with the prefix of its path if it has one, or unset the "
            "variable to record into a local file"
        )


def _is_of_mlflow(answer: bytes) -> bool:
    """Tells whether an answer to ``_PROBE`` is MLflow's: an experiment, or that there is none."""
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    if not isinstance(content, dict):
        return False
    experiment = content.get("experiment")
    return isinstance(experiment, dict) or content.get("error_code") == "RESOURCE_DOES_NOT_EXIST"


def _answers_its_client(uri: str) -> bool:
    """Tells whether a server is MLflow for who logs in as MLflow's client does.

    What stands before one may lead others to a page, and there are plugins that log in.
    """
    hasty = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": f"{ANSWER_LIMIT:.0f}",
    }
    before = {name: os.environ[name] for name in hasty if name in os.environ}
    os.environ |= hasty
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    quiet()
    try:
        experiment = MlflowClient(uri).get_experiment_by_name("Default")
    except MlflowException as error:
        return error.get_http_status_code() in (401, 403)
    except Exception:  # of whatever reads an answer of another form
        return False
    finally:
        for name in hasty:
            del os.environ[name]
        os.environ |= before
    return experiment is None or bool(experiment.experiment_id)


def _away(uri: str, reason: object) -> InputError:
    return InputError(
        f"MLFLOW_TRACKING_URI {public(uri)} does not answer: {reason}; start that server, "
        "or unset the variable to record into a local file"
    )


def _check_database(uri: str) -> None:
    """Refuses a database whose driver is missing, and one that takes no connection."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError
    from sqlalchemy.pool import NullPool

    setting = f"MLFLOW_TRACKING_URI {public(uri)}"
    try:
        engine = create_engine(uri, poolclass=NullPool, connect_args=_certificates(uri))
    except ModuleNotFoundError as error:
        package = _DRIVERS.get(error.name or "", error.name)
        raise InputError(
            f"{setting}: its driver {error.name} is not installed: pip install {package}, or name "
            "the one that you have, as in postgresql+psycopg2://"
        ) from None
    except (ArgumentError, ImportError) as error:
        raise InputError(f"{setting}: {first_line(error)}") from None
    except ValueError:  # of the port, which may be a part of the password
        engine = None
    if engine is None or "@" in (engine.url.host or ""):
        raise InputError(
            f"{setting}: must be as in postgresql+psycopg2://user:password@host:5432/mlflow, with "
            "%40 for an @ in the password"
        )
    problem: list[Exception] = []

    def connect() -> None:
        try:
            engine.connect().close()
        except Exception as error:
            problem.append(error)

    # Each driver calls its limit otherwise, and some have none.
    connecting = threading.Thread(target=connect, daemon=True)
    connecting.start()
    connecting.join(ANSWER_LIMIT)
    if connecting.is_alive():
        raise _away(uri, "timed out")
    for wrong in problem:
        text = first_line(getattr(wrong, "orig", None) or wrong).replace(uri, public(uri))
        raise InputError(f"{setting}: {text}") if _REFUSAL.search(text) else _away(uri, text)


def _certificates(uri: str) -> dict[str, str]:
    """Returns those with which MLflow connects to MySQL."""
    names = ("ssl_ca", "ssl_cert", "ssl_key") if uri.startswith("mysql") else ()
    settings = {name: os.environ.get(f"MLFLOW_MYSQL_{name.upper()}", "") for name in names}
    return {name: value for name, value in settings.items() if value}


def _trusted() -> "ssl.SSLContext | None":
    """Returns the CAs that MLflow trusts, where somebody names them."""
    import ssl

    paths = [Path(os.environ[name]) for name in CA_VARIABLES if os.environ.get(name)]
    if not paths:
        return None
    path = str(paths[0])
    if paths[0].is_dir():
        return ssl.create_default_context(capath=path)
    return ssl.create_default_context(cafile=path)


def _check_kind(uri: str) -> None:
    """Refuses a store of a kind that this MLflow, with its plugins, cannot use."""
    from importlib.metadata import entry_points

    scheme = uri.partition(":")[0] if ":" in uri else ""
    if scheme in ("", "file") and os.environ.get("MLFLOW_ALLOW_FILE_STORE") == "true":
        return
    plugins = [point.name for point in entry_points(group="mlflow.tracking_store")]
    if scheme.partition("+")[0] not in (*DATABASES, "databricks", *plugins):
        raise InputError(
            f"MLFLOW_TRACKING_URI {public(uri)}: must be a server, as in http://host:5000, or a "
            f"database, as in sqlite:////folder/mlflow.db, of {', '.join(DATABASES)}"
        )
