"""The tracking URI that this process has told MLflow."""

import sys
from typing import Any


def told() -> Any:
    """Returns the one that was set; None where MLflow reads the environment still.

    ``mlflow.get_tracking_uri`` names a default then, and who sets that when done has all later
    tests use one ``mlflow.db`` in the folder they were started in.
    """
    utils = sys.modules.get("mlflow.tracking._tracking_service.utils")
    return utils._tracking_uri if utils else None
