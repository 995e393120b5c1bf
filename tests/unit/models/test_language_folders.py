"""trireme/models/language.py."""

import json

import pytest

from trireme.models import language

LLAMA = {"architectures": ["LlamaForCausalLM"]}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"config.json": LLAMA, "tokenizer.json": {}}, ""),
        ({"config.json": {"architectures": ["GPT2LMHeadModel"]}, "vocab.json": {}}, ""),
        ({}, "it has no config.json, as save_pretrained leaves it"),
        ({"adapter_config.json": {}}, "it is an adapter alone, without its base model"),
        ({"config.json": LLAMA}, "it has no tokenizer, as tokenizer.json"),
        ({"config.json": {"architectures": ["BertModel"]}}, "its config.json names BertModel, whe"),
        ({"config.json": {"architectures": "Llama"}}, "its config.json names no architecture, whe"),
        ({"config.json": []}, "its config.json names no architecture, where ForCausalLM is needed"),
    ],
)
def test_a_folder_is_a_language_model_or_it_is_said_why_not(tmp_path, files, said):
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert language.unfit(tmp_path).startswith(said)
    assert bool(language.unfit(tmp_path)) == bool(said)


def test_a_chat_template_is_in_a_file_of_its_own_or_with_the_tokenizer(tmp_path):
    assert not language.has_chat_template(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    assert language.has_chat_template(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    assert not language.has_chat_template(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert language.has_chat_template(tmp_path)
