"""Language models, asked by OpenAI's API: https://platform.openai.com/docs/api-reference."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from trireme.deployment.model_version import DownloadedModel
from trireme.errors import TriremeError
from trireme.models import language
from trireme.models.language import CHAT, COMPLETIONS, MODEL

SHOWN = 200  # characters of an answer that is none

PATHS = {CHAT: "/v1/chat/completions", COMPLETIONS: "/v1/completions"}
"""Where models of MLflow's tasks are asked."""


class NoAnswer(TriremeError):
    """A server has answered something else than a language model does."""


class OpenAIApi(NamedTuple):
    """The requests of a language model.

    Attributes:
        task: MLflow's.
        model: What requests call it.
    """

    task: str
    model: str

    @property
    def path(self) -> str:
        """Where it is asked."""
        return PATHS[self.task]

    def request(self, body: dict[str, Any]) -> dict[str, Any]:
        """Returns a request that names the model."""
        return {"model": self.model} | body

    def greedy(self, text: str) -> dict[str, Any]:
        """Returns a request for the answer with always the likeliest token."""
        from trireme.exporting.answering import TOKENS  # with numpy, which plans do without

        messages = {"messages": [{"role": "user", "content": text}]}
        question = messages if self.task == CHAT else {"prompt": text}
        return self.request(question | {"max_tokens": TOKENS, "temperature": 0})

    def in_python(self, base_url: str) -> str:
        """Returns a line of Python that asks the model by the package openai."""
        name = "chat.completions" if self.task == CHAT else "completions"
        words = ", ".join(f"{key}={value!r}" for key, value in self.greedy("Hello").items())
        client = f"openai.OpenAI(base_url={f'{base_url}/v1'!r}, api_key='none')"
        return f"import openai; print({client}.{name}.create({words}))"

    def words(self, answer: Any) -> str:
        """Returns what a model has said."""
        try:
            (choice,) = answer["choices"]
            words = choice["message"]["content"] if self.task == CHAT else choice["text"]
        except (KeyError, TypeError, ValueError):
            raise NoAnswer(f"the server does not answer: {str(answer)[:SHOWN]}") from None
        return str(words or "")  # null where it has said nothing

    def answer(self, request: str, post: Callable[[dict[str, Any]], Any]) -> str:
        """Answers a request of MLflow's scoring server, a text at a time, or one of its own."""
        body = json.loads(request)
        if "inputs" not in body:
            return json.dumps(post(self.request(body)))
        answers = [self.words(post(self.greedy(text))) for text in body["inputs"]]
        return json.dumps({"predictions": answers})


def of(downloaded: DownloadedModel) -> OpenAIApi | None:
    """Returns how a model is asked, if it is a language model that servers of OpenAI's API load.

    What ``mlflow.transformers.save_model`` itself leaves has its tokenizer elsewhere.
    """
    task = downloaded.described.flavors.get("transformers", {}).get("inference_task", "")
    if task not in PATHS or language.unfit(downloaded.files / MODEL):
        return None
    return OpenAIApi(task, called(downloaded.model.name))


def called(model: str) -> str:
    """Returns what requests call a registered model."""
    return re.sub(r"[^\w.-]+", "-", model)
