"""MLflow's scoring server as ``trireme serve`` starts it, for this machine alone."""

from typing import Any

from trireme.deployment.serving import BODY_LIMIT, NAMES


def make() -> Any:
    """Returns the app, with the model that the environment names loaded."""
    from mlflow.pyfunc.scoring_server.app import app
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    app.max_body_size = BODY_LIMIT
    # A page on the web whose name is made to lead here could ask the server otherwise, and read it.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=NAMES, www_redirect=False)
    return app
