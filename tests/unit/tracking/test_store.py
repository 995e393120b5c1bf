"""components/tracking/store.py: the store of this machine."""

import os

import pytest

from trireme.components.tracking import store


def modes(home):
    return {path.name: path.stat().st_mode & 0o777 for path in (home, *home.iterdir())}


@pytest.mark.slow
def test_only_its_owner_can_read_the_store_and_its_artifacts(untracked):
    before = os.umask(0o022)
    try:
        store.make(untracked)
        assert modes(untracked) == {untracked.name: 0o700, "mlflow.db": 0o600, "mlartifacts": 0o700}
        # As an earlier version has made them.
        (untracked / "mlflow.db").chmod(0o644)
        (untracked / "mlartifacts").chmod(0o755)
        store.make(untracked)
        assert modes(untracked) == {untracked.name: 0o700, "mlflow.db": 0o600, "mlartifacts": 0o700}
    finally:
        os.umask(before)
