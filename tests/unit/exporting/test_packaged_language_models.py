"""trireme/exporting/language.py: what a program left is made whole, and answers as it did."""

import json
import shutil

import numpy as np
import pytest
from language_models import write_model

from trireme.errors import StepFailed
from trireme.evaluation.source import Source
from trireme.exporting import language
from trireme.exporting.packaging import SAMPLE, package
from trireme.models.trained import NotLoadable

pytestmark = pytest.mark.slow

ASKED = np.array(["What does the cat do?", "And the dog?"])


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="module")
def adapter(base, tmp_path_factory):
    """A folder with nothing but an adapter, as PEFT saves it, which changes what is answered."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    plain = AutoModelForCausalLM.from_pretrained(base)
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    folder = tmp_path_factory.mktemp("adapter") / "left"
    get_peft_model(plain, lora).save_pretrained(folder)
    return folder


def packaged(model, base, place):
    return package(Source(model, place, base_model=str(base)), ASKED, place / "package", "")


def test_an_adapter_alone_is_merged_and_answers_as_both_do(base, adapter, tmp_path):
    found = packaged(adapter, base, tmp_path)
    assert found.flavor == "transformers" and 0 <= found.difference < 1e-4
    whole = tmp_path / "package" / "model"
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {
        file.name for file in whole.iterdir()
    }
    assert (tmp_path / "package" / "adapter" / "adapter_config.json").is_file()
    kept = np.load(tmp_path / "package" / SAMPLE)
    assert kept["inputs"].tolist() == ASKED.tolist() and kept["outputs"].dtype.kind == "U"
    # The base model itself answers otherwise.
    with pytest.raises(language.Differs, match="model differs from the trained model"):
        language.ask(base, "", tmp_path / "package", ASKED)


def test_a_model_in_bfloat16_answers_in_it_as_its_server_will(adapter, base, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    half = tmp_path / "half"
    AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16).save_pretrained(half)
    AutoTokenizer.from_pretrained(base).save_pretrained(half)
    packaged(adapter, half, tmp_path)
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "package" / "model", dtype="auto")
    assert whole.dtype == torch.bfloat16
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "package" / "model")
    answers = np.load(tmp_path / "package" / SAMPLE)["outputs"].tolist()
    for asked, answer in zip(ASKED.tolist(), answers, strict=True):
        inputs = tokenizer.apply_chat_template(
            [{"role": "user", "content": asked}],
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
        )
        given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        made = whole.generate(**given, do_sample=False, max_new_tokens=32)
        said = made[0, inputs["input_ids"].shape[1] :]
        assert tokenizer.decode(said, skip_special_tokens=True) == answer


def test_a_model_that_was_merged_wrongly_is_refused(base, adapter, tmp_path):
    left = tmp_path / "left"
    shutil.copytree(base, left)  # and nothing merged into it
    shutil.copytree(adapter, left / "adapter")
    with pytest.raises(StepFailed, match="model differs from the trained model: largest differ"):
        packaged(left, base, tmp_path)


def test_an_adapter_without_its_base_model_or_of_another_is_refused(adapter, tmp_path):
    with pytest.raises(NotLoadable, match="an adapter alone, and the run has no base model"):
        packaged(adapter, "", tmp_path)
    other = write_model(tmp_path / "other", width=64)
    with pytest.raises(NotLoadable, match=r"the adapter is of another base model than .*other"):
        packaged(adapter, other, tmp_path)


@pytest.mark.parametrize(("layers", "which"), [(1, "the adapter"), (3, "the base model")])
def test_an_adapter_of_which_only_a_part_would_be_taken_is_refused(
    adapter, tmp_path, layers, which
):
    other = write_model(tmp_path / "other", layers=layers)
    left = tmp_path / "left"
    shutil.copytree(adapter, left)
    config = json.loads((left / "adapter_config.json").read_text())
    config["target_modules"] = sorted({name.split(".")[-1] for name in config["target_modules"]})
    (left / "adapter_config.json").write_text(json.dumps(config))
    named = rf"only {which} has base_model.*layers.{max(layers - 1, 1)}"
    with pytest.raises(NotLoadable, match=named):
        packaged(left, other, tmp_path)
    assert not (tmp_path / "package").exists()


def test_a_merge_for_which_there_is_no_room_is_refused(base, adapter, tmp_path, monkeypatch):
    monkeypatch.setattr(language.shutil, "disk_usage", lambda _: type("", (), {"free": 1000}))
    with pytest.raises(StepFailed, match=r"has 0.0 GB left, and merging the adapter into .* needs"):
        packaged(adapter, base, tmp_path)


def test_a_model_without_a_chat_template_completes_texts(tmp_path):
    left = write_model(tmp_path / "left", chat=False)
    assert packaged(left, "", tmp_path).flavor == "transformers"
    described = (tmp_path / "package" / "MLmodel").read_text()
    assert "inference_task: llm/v1/completions" in described
