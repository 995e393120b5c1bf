"""Processes that are forked from one that has loaded what each of them would take seconds to load.

There is one such server for all tests that a process runs, whichever of them comes first.
"""

import multiprocessing
import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest.mock import patch

TRAINERS = Path(__file__).resolve().parents[2] / "trainers"
LOADED = [
    "language_model",
    "trireme.tracking.registry",
    "mlflow.store.model_registry.sqlalchemy_store",
    "onnx",
    "psycopg2",
    "pytest",
]


def context() -> ForkServerContext:
    """Returns the context that starts such processes."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(LOADED)
    # OpenMP counts its threads when it is loaded, whatever a process sets afterwards.
    with patch.dict(os.environ, PYTHONPATH=str(TRAINERS), OMP_NUM_THREADS="1"):
        forkserver.ensure_running()
    return found
