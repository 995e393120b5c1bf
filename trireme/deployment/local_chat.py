"""The server of transformers as ``trireme serve`` starts it, for this machine alone."""

import sys
import time
from typing import Any

from trireme.deployment.serving import HOST, NAMES


def make(model: str) -> Any:
    """Returns the app that serves a model, a folder where this process is, by OpenAI's API."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import JSONResponse
    from starlette.routing import Mount, Route
    from transformers.cli.serving.chat_completion import ChatCompletionHandler
    from transformers.cli.serving.completion import CompletionHandler
    from transformers.cli.serving.model_manager import ModelManager
    from transformers.cli.serving.response import ResponseHandler
    from transformers.cli.serving.server import build_server
    from transformers.cli.serving.systemone import SystemOneHandler
    from transformers.cli.serving.transcription import TranscriptionHandler
    from transformers.cli.serving.utils import GenerationState

    manager, state = ModelManager(force_model=model), GenerationState()
    app = build_server(
        manager,
        ChatCompletionHandler(manager, state),
        CompletionHandler(manager, state),
        ResponseHandler(manager, state),
        TranscriptionHandler(manager, state),
        SystemOneHandler(manager, state),
        state,
    )
    about = {"id": model, "object": "model", "created": int(time.time()), "owned_by": "trireme"}

    def models(_: Any) -> JSONResponse:
        # The server would list what is in the cache of Hugging Face, and fail where there is none.
        return JSONResponse({"object": "list", "data": [about]})

    # A page on the web whose name is made to lead here could ask the server otherwise.
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=NAMES, www_redirect=False)
    return Starlette(routes=[Route("/v1/models", models), Mount("/", app)], middleware=[guard])


def main(model: str, port: str) -> None:
    """Serves a model by its name."""
    import uvicorn

    uvicorn.run(make(model), host=HOST, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
