"""Fine-tuning with LoRA, from a base model that the run stages, to a registered model."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jobs_of_frameworks import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRAINER, EVALUATION = (f"trainers/{name}.py" for name in ("lora", "perplexity"))
SOUNDS = {"cat": "meows", "dog": "barks", "owl": "hoots", "fox": "yelps", "hen": "clucks"}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with a small model of transformers, ``base``, and texts to learn, ``data``."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("lora")
    texts = [
        {"prompt": f"What does the {animal} do at {hour}?", "completion": f" It {sound}."}
        for hour in range(20)
        for animal, sound in SOUNDS.items()
    ]
    (folder / "data").mkdir()
    lines = "".join(f"{json.dumps(text)}\n" for text in texts)
    (folder / "data" / "animals.jsonl").write_text(lines)
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<end>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator([lines], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<end>", pad_token="<pad>"
    )
    torch.manual_seed(0)
    network = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=128,
            eos_token_id=0,
            pad_token_id=1,
            tie_word_embeddings=False,
        )
    )
    network.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    return folder


def test_a_run_registers_the_merged_model_and_says_what_it_started_from(trireme, places):
    options = {
        "base_model": places / "base",
        "dataset_uri": places / "data",
        "entrypoint": TRAINER,
        "args": json.dumps(["--epochs", "4", "--learning-rate", "1e-2"]),
        "evaluation": json.dumps({"entrypoint": EVALUATION}),
        "gate": json.dumps({"most": {"perplexity": 200}}),
        "model_name": "animals",
    }
    given = [word for name, value in options.items() for word in ("-p", f"{name}={value}")]
    done = trireme.run("run", "pytorch-training", *given)
    assert done.returncode == 0, done.stdout + done.stderr

    version = trireme.client.get_model_version_by_alias("animals", "champion")
    assert version.tags["base_model.uri"] == str(places / "base")
    assert version.tags["base_model.fingerprint"].startswith("sha256:")
    (experiment,) = trireme.client.search_experiments(filter_string="name = 'pytorch-training'")
    runs = trireme.client.search_runs([experiment.experiment_id])
    steps = {run.data.tags["mlflow.runName"]: run for run in runs}
    first, *_, last = trireme.client.get_metric_history(steps["train"].info.run_id, "loss")
    assert last.value < first.value - 0.2
    (whole,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    used = {
        each.dataset.name: {tag.key: tag.value for tag in each.tags}["mlflow.data.context"]
        for each in whole.inputs.dataset_inputs
    }
    assert used == {"data": "training", "base": "base_model"}
    left = next(Path(trireme.home).glob("runs/*/workspace/model"))
    assert {"model.safetensors", "adapter", "tokenizer.json"} <= {
        path.name for path in left.iterdir()
    }


def test_it_goes_on_after_sigterm_and_learns_as_without_it(places, tmp_path):
    def start(folder, *more):
        variables = {"BASE_MODEL_DIR": places / "base", "DATA_DIR": places / "data", "SEED": 1}
        variables |= {f"{name}_DIR": tmp_path / folder / name for name in ("CHECKPOINT", "MODEL")}
        return subprocess.Popen(
            [sys.executable, TRAINER, "--steps", "30", "--log-every", "1", *more],
            cwd=ROOT,
            env=os.environ | {name: str(value) for name, value in variables.items()},
            stdout=subprocess.PIPE,
            text=True,
        )

    with start("undisturbed") as undisturbed:
        lines = undisturbed.stdout.read().splitlines()
    assert undisturbed.returncode == 0
    with start("stopped") as stopped:
        for line in stopped.stdout:
            if line.startswith("step 5/"):
                stopped.send_signal(signal.SIGTERM)
            last = line
    assert stopped.returncode == 143
    step = int(last.partition(";")[0].rpartition(" ")[2])
    assert 5 <= step < 30
    cut_off = tmp_path / "stopped" / "CHECKPOINT" / f"checkpoint-{step + 1}"
    cut_off.mkdir()
    (cut_off / "adapter_model.safetensors").write_bytes(b"")
    with start("stopped") as again:
        resumed = again.stdout.read().splitlines()
    assert again.returncode == 0
    assert resumed[0] == f"resuming after step {step}"
    assert resumed[1:] == lines[step:]


@pytest.mark.parametrize("program", [TRAINER, EVALUATION], ids=["trains", "measures"])
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"question": "?"}\n', "texts need a column text, or prompt and completion"),
        ("a.jsonl", "{\n", "holds no texts that can be read"),
        ("a.bin", "?", "holds no texts that can be read"),
    ],
)
def test_data_that_holds_no_texts_is_one_sentence(places, tmp_path, program, name, text, said):
    (tmp_path / name).write_text(text)
    base = str(places / "base")
    variables = {"BASE_MODEL_DIR": base, "MODEL_DIR": base, "DATA_DIR": str(tmp_path)}
    variables |= {f"{name}_DIR": str(tmp_path / name) for name in ("CHECKPOINT", "EVALUATION")}
    command = [sys.executable, program]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True
    )
    assert (done.returncode, said in done.stdout) == (2, True), done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_blank_lines_do_not_count_as_texts(places, tmp_path):
    (tmp_path / "test.txt").write_text("the dog says woof\n\n  \nthe cat says meow\n")
    (tmp_path / "train.txt").write_text("the cow says moo\n\n")
    (tmp_path / "left").mkdir()
    variables = {"MODEL_DIR": places / "base", "DATA_DIR": tmp_path}
    variables |= {"EVALUATION_DIR": tmp_path / "left"}
    done = subprocess.run(
        [sys.executable, EVALUATION],
        cwd=ROOT,
        env=os.environ | {name: str(value) for name, value in variables.items()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    scores = np.load(tmp_path / "left" / "scores.npy")
    assert scores.shape == (2,) and np.isfinite(scores).all()


def test_a_base_model_that_is_none_is_one_sentence(places, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": "wide"}')
    variables = {"BASE_MODEL_DIR": tmp_path, "DATA_DIR": places / "data"}
    variables |= {f"{name}_DIR": tmp_path / name for name in ("CHECKPOINT", "MODEL")}
    done = subprocess.run(
        [sys.executable, TRAINER],
        cwd=ROOT,
        env=os.environ | {name: str(value) for name, value in variables.items()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"{tmp_path} holds no language model of transformers: " in done.stdout
    assert "'hidden_size' expected int" in done.stdout
    assert "Traceback" not in done.stderr
