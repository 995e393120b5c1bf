"""The server of transformers as ``trireme serve`` starts it, for this machine alone."""

import sys
import time
from typing import Any

from trireme.deployment.serving import HOST, NAMES


def main(model: str, port: str) -> None:
    """Serves a model, a folder where this process is, by OpenAI's API."""
    import uvicorn
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import JSONResponse
    from transformers.cli.serve import Serve

    configured = uvicorn.Config

    def guarded(app: Any, **options: Any) -> uvicorn.Config:
        async def listing(scope: Any, receive: Any, send: Any) -> None:
            # It would list what is in the cache of Hugging Face, and fail where there is none.
            is_asked = scope["type"] == "http" and scope["path"] == "/v1/models"
            await (JSONResponse(models) if is_asked else app)(scope, receive, send)

        # A page on the web whose name is made to lead here could ask the server otherwise.
        asked = TrustedHostMiddleware(listing, allowed_hosts=NAMES, www_redirect=False)
        return configured(asked, **options)

    about = {"id": model, "object": "model", "created": int(time.time()), "owned_by": "trireme"}
    models = {"object": "list", "data": [about]}
    uvicorn.Config = guarded  # type: ignore[assignment, misc]  # which Serve makes by itself
    Serve(force_model=model, host=HOST, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
