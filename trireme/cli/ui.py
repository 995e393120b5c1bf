"""``trireme ui``: MLflow's UI."""

import os
import sys
from typing import Annotated

import typer


def ui(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1, default 5000.")
    ] = None,
) -> None:
    """Open MLflow's UI with the runs of this machine."""
    from trireme.deployment.serving import check_port
    from trireme.files.home import home, make_home, unwritable
    from trireme.tracking.store import TRAINING, UI_PORT, check_reachable, default_uri, public

    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(home())
    if uri.startswith(("http://", "https://")):
        typer.echo(f"The runs are at {public(uri)}")
        return
    port = port or UI_PORT
    check_port(port)
    check_reachable(uri)
    try:
        make_home()
    except OSError as error:
        raise unwritable(error) from None
    page = f"http://127.0.0.1:{port}/#/experiments{TRAINING}"
    typer.echo(f"{page} shows {public(uri)}; Ctrl-C stops it")
    sys.stdout.flush()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1", "--uvicorn-opts", "--log-level=warning"]
    environment = {
        "MLFLOW_BACKEND_STORE_URI": uri,  # here, as it may hold a password: anybody sees arguments
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes for what we do not use
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "PYTHONWARNINGS": "ignore",  # of MLflow's own code
    }
    os.umask(0o077)  # where there is no database yet, the server makes it
    os.execve(command[0], command, os.environ | environment)
