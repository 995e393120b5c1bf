"""trireme/deployment/openai_api.py."""

import json

import pytest
from mlflow.models import Model

from trireme.deployment import openai_api
from trireme.deployment.model_version import DownloadedModel
from trireme.deployment.openai_api import NoAnswer, OpenAIApi
from trireme.models.language import CHAT, COMPLETIONS
from trireme.tracking.model_versions import ModelVersion


@pytest.fixture
def downloaded(tmp_path):
    """Makes a model with a whole folder of transformers."""
    whole = tmp_path / "model"
    whole.mkdir()
    (whole / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (whole / "tokenizer.json").write_text("{}")

    def make(name, **flavor):
        described = Model(flavors={"transformers": flavor} if flavor else {"onnx": {}})
        return DownloadedModel(ModelVersion(name, "1", "r", {}), tmp_path, described)

    return make


def test_language_models_are_asked_so_and_no_others(downloaded):
    assert openai_api.of(downloaded("a", inference_task=CHAT)) == OpenAIApi(CHAT, "a")
    named = openai_api.of(downloaded("My model, 2nd", inference_task=COMPLETIONS))
    assert named == OpenAIApi(COMPLETIONS, "My-model-2nd")
    assert openai_api.of(downloaded("a", task="text-classification")) is None
    assert openai_api.of(downloaded("a", inference_task="llm/v1/embeddings")) is None
    assert openai_api.of(downloaded("a")) is None


def test_a_chat_model_as_mlflow_saves_it_is_left_to_its_scoring_server(downloaded, tmp_path):
    (tmp_path / "model" / "tokenizer.json").unlink()
    assert openai_api.of(downloaded("a", inference_task=CHAT)) is None


def test_a_request_of_ones_own_goes_there_as_it_is_but_for_the_name():
    seen = []
    given = {"messages": [{"role": "user", "content": "?"}], "top_p": 0.5}
    api = OpenAIApi(CHAT, "a")
    assert json.loads(api.answer(json.dumps(given), lambda body: seen.append(body) or {"id": 1}))
    assert seen == [{"model": "a"} | given]


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": [{"text": "?"}]}, [], "no"])
def test_what_is_no_answer_is_said_to_be_none(answer):
    with pytest.raises(NoAnswer, match=r"^the server does not answer: "):
        OpenAIApi(CHAT, "a").words(answer)


def test_a_model_that_says_nothing_has_answered():
    assert OpenAIApi(CHAT, "a").words({"choices": [{"message": {"content": None}}]}) == ""


@pytest.mark.parametrize("task", [CHAT, COMPLETIONS])
def test_the_line_of_python_is_one(task):
    line = OpenAIApi(task, "it's").in_python("http://127.0.0.1:1")
    compile(line, "line", "exec")
    assert "base_url='http://127.0.0.1:1/v1'" in line and "\n" not in line
