"""A plan of llm-finetuning says the memory of each process, by config.json alone."""

import json
import re

import pytest

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 512,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}


@pytest.fixture
def given(tmp_path):
    """Parameters with a base model of which nothing but its configuration is there."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "base" / "tokenizer.json").write_text("{}")
    (tmp_path / "texts.jsonl").write_text('{"text": "?"}\n')
    return [
        "-p",
        f"base_model={tmp_path / 'base'}",
        "-p",
        f"dataset_uri={tmp_path / 'texts.jsonl'}",
    ]


def memory(output):
    (line,) = re.findall(r"^ *Memory +(.*)$", output, re.MULTILINE)
    return line


def test_here_it_is_that_of_each_process(trireme, given):
    status, output, errors = trireme("plan", "llm-finetuning", *given)
    assert status == 0, errors
    said = memory(output)
    assert re.match(r"\d+\.\d GB of each process at most, with weights 32\.3 GB, gradients", said)
    assert said.endswith("8.03e+09 parameters, 4 texts of 512 tokens at a time")


@pytest.mark.parametrize(
    ("args", "weights"),
    [
        ([], "16.2 GB"),
        (["--strategy", "fsdp"], "4.1 GB"),
        (["--adapter", "none"], "32.1 GB"),
        (["--adapter", "none", "--method", "dpo"], "64.2 GB"),  # and what it stays near to
        (["--method", "dpo"], "16.2 GB"),
    ],
)
def test_on_gpus_it_goes_by_adapter_and_strategy(trireme, given, args, weights):
    given += ["-p", 'job={"gpu": 2}', "-p", "workers=1", "-p", "processes_per_worker=2"]
    given += ["-p", f"args={json.dumps(args)}", "--target", "argo", "--no-check"]
    status, output, errors = trireme("plan", "llm-finetuning", *given)
    assert status == 0, errors
    assert f"of each GPU at most, with weights {weights}, gradients" in memory(output)


@pytest.mark.parametrize("dtype", ["float32", None])
def test_a_base_model_in_float32_is_loaded_so(trireme, given, tmp_path, dtype):
    config = CONFIG | {"torch_dtype": dtype}
    (tmp_path / "base" / "config.json").write_text(json.dumps(config))
    given += ["-p", 'job={"gpu": 1}', "--target", "argo", "--no-check"]
    status, output, errors = trireme("plan", "llm-finetuning", *given)
    assert status == 0, errors
    assert "with weights 32.3 GB, gradients" in memory(output)


def test_where_the_configuration_cannot_be_read_it_says_why(trireme, given, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    status, output, errors = trireme("plan", "llm-finetuning", *given, "-p", "base_model=hf://a/b")
    assert status == 0, errors
    why = "base_model 'hf://a/b' could not be read: the server refuses connections"
    assert memory(output) == f"not known: {why}"
