"""A database of MLflow's that an older MLflow has made: kept as it is, then brought up to date."""

import itertools
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from trireme.errors import TriremeError
from trireme.text.say import say

_REVISION = re.compile(r"^revision = [\"'](\w+)[\"']", re.MULTILINE)
_BEFORE = re.compile(r"^down_revision = [\"'](\w+)[\"']", re.MULTILINE)


def upgrade(file: Path) -> None:
    """Upgrades this machine's own database if it is older than the MLflow that is installed.

    Raises:
        TriremeError: it is newer, or could not be upgraded; it is as it was then.
    """
    if not _old(file):
        return
    try:
        with FileLock(file.with_name(f"{file.name}.upgrade.lock")):
            if schema := _old(file):  # else somebody else was faster
                _upgrade(file, schema)
    except (OSError, sqlite3.Error) as error:  # as of a full disk, or another user's folder
        raise TriremeError(
            f"{file}: an older MLflow has made it, and it cannot be copied and upgraded: {error}"
        ) from None


def _upgrade(file: Path, schema: str) -> None:
    kept = _kept(file, schema)
    uri = f"sqlite:///{file}"
    words = [sys.executable, "-m", "mlflow", "db", "upgrade", uri]
    is_upgraded = False
    try:
        done = subprocess.run(words, capture_output=True, text=True)
        is_upgraded = not done.returncode and not _old(file)
    finally:
        if not is_upgraded:  # or somebody has pressed Ctrl-C
            _copy(kept, file)
            kept.unlink()
    if not is_upgraded:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise TriremeError(
            f"{file}: an older MLflow has made it, and MLflow {version('mlflow')} could not "
            f"upgrade it ({said[-1]}); it is as it was"
        )
    say(
        f"note: {file} was made by an older MLflow and has been upgraded to MLflow "
        f"{version('mlflow')}; {kept.name} beside it is as it was"
    )


def _kept(file: Path, schema: str) -> Path:
    """Copies a database to beside it, over no earlier copy: that may be of before a kill."""
    name = f"{file.name}.{schema}"
    names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(2)))
    kept = next(path for path in map(file.with_name, names) if not path.exists())
    try:
        _copy(file, kept)
    except (OSError, sqlite3.Error):
        kept.unlink(missing_ok=True)
        raise
    return kept


def _old(file: Path) -> str:
    """Returns the schema of a database, if it is older than MLflow's own; else an empty text.

    Raises:
        TriremeError: it is one that this MLflow does not know.
    """
    found = _schema(file)
    # Alembic would take two seconds to say which is the last.
    migrations = [each.read_text() for each in _folder().glob("*.py")] if found else []
    if not migrations:
        return ""
    known = {each for text in migrations for each in _REVISION.findall(text)}
    if found not in known:
        raise TriremeError(
            f"{file}: a newer MLflow than {version('mlflow')} has made it (its schema is {found}); "
            "install that, or set TRIREME_HOME to another place"
        )
    return found if found in {each for text in migrations for each in _BEFORE.findall(text)} else ""


def _schema(file: Path) -> str:
    """Returns which schema a database has; empty where that cannot be read."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database,
    ):
        row = database.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else ""
    return ""


def _copy(source: Path, target: Path) -> None:
    """Copies a database as a whole, also one that is in use; only its owner can read it."""
    target.touch(mode=0o600)
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _folder() -> Path:
    """Returns where MLflow has its migrations; it is not loaded for that."""
    spec = find_spec("mlflow")
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places or [""]))) / "store" / "db_migrations" / "versions"
