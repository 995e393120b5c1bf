"""A price table, and jobs that it is used on."""

import pytest

from trireme.cost import table
from trireme.job.job import TrainingJob
from trireme.manifests import render

TABLE = """
currency: EUR
cpu_hour: 0.5
gib_hour: 0.25
gpu_hour: 2
gpu_hour_by_type:
  nvidia-tesla-a100: 4
  amd.com/gpu: 3
spot: 0.5
"""


@pytest.fixture
def no_prices(untracked, monkeypatch, tmp_path):
    """A machine without a price table; returns where one would be."""
    monkeypatch.setattr(table, "MOUNT", tmp_path / "mounted")
    untracked.mkdir()
    return untracked / "prices.yaml"


@pytest.fixture
def priced(no_prices):
    """A machine with one."""
    no_prices.write_text(TABLE)
    return no_prices


@pytest.fixture
def manifest():
    """Renders a job of a master and two workers; each costs 2 EUR an hour."""

    def make(operator="training-operator", **fields):
        fields = {"entrypoint": "train.py", "workers": 2, "cpu": 2, "memory": "4Gi"} | fields
        return render(TrainingJob.create(**fields), operator)

    return make
