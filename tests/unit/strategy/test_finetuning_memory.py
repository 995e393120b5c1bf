"""trireme/strategy/finetuning.py: what adapters have, and what a plan says of memory."""

import json
import re
from pathlib import Path

import pytest

from trireme.errors import InputError
from trireme.strategy import reading
from trireme.strategy.choose import gigabytes
from trireme.strategy.finetuning import FineTuning, adapter_parameters, memory
from trireme.strategy.memory import Mesh, Work

LLAMA_8B = {  # https://huggingface.co/meta-llama/Llama-3.1-8B, config.json
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
LLAMA_70B = LLAMA_8B | {  # …/Llama-3.1-70B
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
}
SMOL = {  # https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}
QWEN_7B = LLAMA_8B | {  # https://huggingface.co/Qwen/Qwen2.5-7B-Instruct
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
}
KNOWN = {
    "SmolLM2-135M": SMOL,
    "Qwen2.5-7B": QWEN_7B,
    "Llama-3.1-8B": LLAMA_8B,
    "Llama-3.1-70B": LLAMA_70B,
}
WORK = Work(length=1024, samples=4)
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "language-models.md"


def model(config):
    return reading.of_text(json.dumps(config), "config.json")


def held(config, adapter, mesh=Mesh()):  # noqa: B008 - it is frozen
    return memory(model(config), FineTuning(adapter, 16, "bf16"), mesh, WORK)


def test_parameters_are_those_that_the_models_are_known_by():
    assert model(LLAMA_8B).parameters == 8_030_261_248
    assert model(LLAMA_70B).parameters == 70_553_706_496
    assert model(SMOL).parameters == 134_515_008


@pytest.mark.slow
@pytest.mark.parametrize("heads", [2, 4])
def test_an_adapter_has_the_parameters_that_peft_gives_it(heads):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "vocab_size": 128}
    config = LlamaConfig(num_attention_heads=4, num_key_value_heads=heads, **sizes)
    with torch.device("meta"):
        network = LlamaForCausalLM(config)
        peft = get_peft_model(network, LoraConfig(r=8, target_modules="all-linear"))
    trained, _ = peft.get_nb_trainable_parameters()
    assert adapter_parameters(model(config.to_dict()), 8) == trained


def test_what_is_frozen_has_no_gradients_and_4_bits_are_an_eighth_more_than_half_a_byte():
    full, lora, qlora = (held(LLAMA_8B, adapter) for adapter in ("none", "lora", "qlora"))
    adapter = adapter_parameters(model(LLAMA_8B), 16)
    assert adapter == 41_943_040
    assert full.weights == 4 * 8_030_261_248 and full.optimizer == 2 * full.weights
    assert lora.weights == 2 * 8_030_261_248 + 4 * adapter
    assert (lora.gradients, lora.optimizer) == (4 * adapter, 8 * adapter)
    in_4_bits = 32 * model(LLAMA_8B).matrices
    assert lora.weights - qlora.weights == pytest.approx(in_4_bits * (2 - 0.5625), rel=0.02)
    assert qlora.peak < lora.peak < full.peak
    assert full.peak > 16 * 8.03e9


def test_fsdp_divides_what_is_kept():
    one, eight = held(LLAMA_70B, "lora"), held(LLAMA_70B, "lora", Mesh(dp=8, sharded=True))
    assert eight.weights == pytest.approx(one.weights / 8)
    assert eight.peak < one.peak / 4
    ddp = held(LLAMA_70B, "lora", Mesh(dp=8))
    assert ddp.peak == pytest.approx(one.peak + 4 * adapter_parameters(model(LLAMA_70B), 16))


def test_the_table_of_the_page_is_what_is_computed():
    rows = {}
    for line in PAGE.read_text().splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if name in KNOWN and re.fullmatch(r"[\d.]+ GB", cells[0]):
            rows[name] = cells
    computed = {
        name: [
            *(gigabytes(held(config, adapter).peak) for adapter in ("qlora", "lora", "none")),
            *(
                gigabytes(held(config, adapter, Mesh(dp=8, sharded=True)).peak)
                for adapter in ("lora", "none")
            ),
        ]
        for name, config in KNOWN.items()
    }
    assert rows == computed


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "config.json: cannot be read: "),
        ("[]", "config.json: cannot be read: "),
        ('{"num_local_experts": 8}', "config.json: a mixture of experts cannot be computed"),
        ("{}", "config.json: num_hidden_layers or n_layer or n_layers or num_layers is None"),
    ],
)
def test_a_configuration_that_tells_nothing_is_one_sentence(config, said):
    with pytest.raises(InputError) as refused:
        reading.of_text(config, "config.json")
    assert str(refused.value).startswith(said)
