"""trireme/tracking/migrating.py: a database that an older MLflow has made, by its migrations."""

import resource
import signal
import sqlite3
import subprocess
from pathlib import Path

import mlflow.store.db_migrations
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from mlflow.store.tracking.dbmodels.initial_models import Base
from sqlalchemy import create_engine, text

from trireme.errors import TriremeError
from trireme.tracking import migrating, store

MIGRATIONS = Path(mlflow.store.db_migrations.__path__[0])


def revision(file):
    with sqlite3.connect(file) as database:
        return database.execute("SELECT version_num FROM alembic_version").fetchone()[0]


@pytest.fixture
def older(untracked):
    """The database of the MLflow before the last that changed it; with a run."""
    untracked.mkdir()
    file = untracked / "mlflow.db"
    scripts = ScriptDirectory(str(MIGRATIONS))
    head = scripts.get_revision(scripts.get_current_head())
    engine = create_engine(f"sqlite:///{file}")
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, head.down_revision)
        connection.execute(
            text(
                "INSERT INTO experiments (experiment_id, name, lifecycle_stage) "
                "VALUES (7, 'of old', 'active')"
            )
        )
    engine.dispose()
    return file, head.down_revision, head.revision


@pytest.mark.slow
def test_it_is_kept_and_upgraded_and_its_experiments_stay(older, trireme):
    file, before, head = older
    status, _, errors = trireme("models")
    assert status == 0
    note, *rest = errors.splitlines()
    assert note == (
        f"note: {file} was made by an older MLflow and has been upgraded to MLflow "
        f"{mlflow.__version__}; mlflow.db.{before} beside it is as it was"
    )
    kept = file.with_name(f"mlflow.db.{before}")
    assert (revision(file), revision(kept)) == (head, before)
    assert kept.stat().st_mode & 0o077 == 0
    client = mlflow.MlflowClient(store.default_uri(file.parent))
    assert client.get_experiment_by_name("of old").experiment_id == "7"
    status, _, errors = trireme("models")
    assert (status, errors.splitlines()) == (0, rest)


@pytest.mark.slow
def test_one_that_cannot_be_upgraded_is_as_it_was(untracked, trireme):
    """It says that it is older than it is, so that MLflow adds a column that is there."""
    store.make(untracked)
    file = untracked / "mlflow.db"
    scripts = ScriptDirectory(str(MIGRATIONS))
    adds = (
        each for each in scripts.walk_revisions() if "add_column" in Path(each.path).read_text()
    )
    before = next(adds).down_revision
    with sqlite3.connect(file) as database:
        database.execute("UPDATE alembic_version SET version_num = ?", [before])
    broken = [*sqlite3.connect(file).iterdump()]
    status, _, errors = trireme("models")
    assert status == 1 and errors.count("\n") == 1
    assert "could not upgrade it (" in errors and errors.endswith("; it is as it was\n")
    assert [*untracked.glob("mlflow.db.[!u]*")] == []
    assert [*sqlite3.connect(file).iterdump()] == broken


@pytest.mark.slow
def test_an_earlier_copy_stays_and_what_has_no_room_is_told(older, monkeypatch):
    file, before, head = older
    earlier = file.with_name(f"mlflow.db.{before}")
    earlier.write_text("of before a power cut")
    copy = file.with_name(f"mlflow.db.{before}.2")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    was = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size // 2, limits[1]))
    try:
        with pytest.raises(TriremeError, match="it cannot be copied and upgraded: "):
            migrating.upgrade(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, was)
    assert (revision(file), copy.exists()) == (before, False)

    def stop(*_, **__):
        with sqlite3.connect(file) as database:
            database.execute("DROP TABLE experiments")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            migrating.upgrade(file)
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT name FROM experiments").fetchall() == [("of old",)]
    migrating.upgrade(file)
    assert (revision(file), revision(copy)) == (head, before)
    assert earlier.read_text() == "of before a power cut"


def test_one_of_a_newer_mlflow_is_told(untracked, trireme):
    untracked.mkdir()
    file = untracked / "mlflow.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('f00d')")
    status, _, errors = trireme("models")
    assert status == 1
    assert errors.startswith(f"error: {file}: a newer MLflow than {mlflow.__version__} has made it")


def test_the_last_migration_is_what_a_new_database_has(untracked):
    store.make(untracked)
    migrating.upgrade(untracked / "mlflow.db")
    assert [path.name for path in untracked.glob("mlflow.db.*")] == []


@pytest.mark.parametrize("content", [b"", b"no database"])
def test_what_is_no_database_is_left_to_mlflow(tmp_path, content):
    file = tmp_path / "mlflow.db"
    file.write_bytes(content)
    migrating.upgrade(file)
    assert file.read_bytes() == content
