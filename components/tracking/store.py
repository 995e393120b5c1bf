"""The MLflow store that commands ask: a server, or the database of what has run here."""

import logging
import os

from components.errors import InputError
from components.home import home
from components.tracking.pipeline_run import default_uri, must_answer


def use() -> str:
    """Makes MLflow use the store that MLFLOW_TRACKING_URI names, by default this machine's own.

    Returns:
        Its URI.

    Raises:
        InputError: It is a server that does not answer, or there is none here.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(home())
    if uri.startswith(("http://", "https://")):
        must_answer(uri)
    elif uri == default_uri(home()) and not (home() / "mlflow.db").exists():
        raise InputError(
            f"nothing has run here yet: there is no {home() / 'mlflow.db'}; run a pipeline, or set "
            "MLFLOW_TRACKING_URI to a server"
        )
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    import mlflow

    for chatty in ("alembic", "mlflow"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    mlflow.set_tracking_uri(uri)
    return uri
