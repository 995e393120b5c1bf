"""Fine-tuning of a language model: from a base model and texts to an endpoint that answers."""

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from jobs_of_frameworks import ROOT
from language_models import COMMIT, hub_of, write_model, write_texts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRAINER, EVALUATION = (f"trainers/llm_{name}.py" for name in ("finetuning", "evaluation"))
TOKEN = "hf_NobodyIsToReadThis"
GRPO = ["--method", "grpo", "--reward", f"{__file__}:run"]
QUICKLY = ["--steps", "80", "--batch-size", "8", "--learning-rate", "1e-2"]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with a small model, ``base``, and texts: ``data``, ``chat``, ``answers``."""
    folder = tmp_path_factory.mktemp("language")
    write_model(folder / "base")
    for name, form in (("data", "prompt"), ("chat", "messages"), ("answers", "chosen")):
        write_texts(folder / name, form)
    return folder


def started(program, *arguments, command=(sys.executable,), **folders):
    variables = {f"{name}_DIR": str(place) for name, place in folders.items()}
    for name in ("CHECKPOINT_DIR", "EVALUATION_DIR", "MODEL_DIR"):
        if name in variables:
            Path(variables[name]).mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [*command, program, *arguments],
        cwd=ROOT,
        env=os.environ | variables | {"SEED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(*arguments, **more):
    with started(*arguments, **more) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def run(trireme, places, data, *arguments, environment=None, **parameters):
    given = {"base_model": places / "base", "dataset_uri": places / data} | parameters
    words = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    command = ("run", "llm-finetuning", *words, "--", *arguments)
    return trireme.run(*command, **(environment or {}))


def test_from_a_base_model_and_texts_to_an_endpoint(trireme, places):
    gate = json.dumps({"least": {"loss_below_base": 0.2}})
    given = {"base_model": "hf://org/base@v1", "model_name": "animals", "gate": gate}
    with hub_of(places / "base", "org/base", TOKEN) as url:
        kept_out = run(trireme, places, "chat", **given, environment={"HF_ENDPOINT": url})
        assert kept_out.returncode == 2
        assert "error: base_model 'hf://org/base@v1': access is denied (st" in kept_out.stderr
        shutil.rmtree(trireme.home / "runs")
        opened = {"HF_ENDPOINT": url, "HF_TOKEN": TOKEN}
        done = run(trireme, places, "chat", *QUICKLY, **given, environment=opened)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [file for file in trireme.home.rglob("*") if file.is_file()]
    assert [file for file in files if TOKEN.encode() in file.read_bytes()] == []
    assert TOKEN not in done.stdout + done.stderr

    version = trireme.client.get_model_version_by_alias("animals", "champion")
    assert version.tags["base_model.uri"] == "hf://org/base@v1"
    assert version.tags["base_model.commit"] == COMMIT
    assert version.tags["base_model.license"] == "apache-2.0"
    for name in ("base_model", "dataset"):
        assert version.tags[f"{name}.fingerprint"].startswith("sha256:")
    parent = trireme.parents()[0]
    used = {
        each.dataset.name: {tag.key: tag.value for tag in each.tags}["mlflow.data.context"]
        for each in parent.inputs.dataset_inputs
    }
    assert used == {"chat": "training", "base@v1": "base_model"}
    steps = trireme.nested(parent)
    first, *_, last = trireme.client.get_metric_history(steps["train"].info.run_id, "loss")
    assert last.value < first.value - 0.2
    figures = steps["evaluate"].data.metrics
    below = figures["base_loss"] - figures["loss"]
    assert figures["loss_below_base"] == pytest.approx(below) and below > 0.2

    workspace = trireme.run_directory() / "workspace"
    report = (workspace / "report.html").read_text()
    assert re.findall("<th[^>]*>(asked|model|base model|held-out text)</th>", report) == [
        "asked",
        "model",
        "base model",
        "held-out text",
    ]
    assert re.search("logits within [0-9.]+e-0[4-9]", report)
    exported = workspace / "exported"
    assert {file.name for file in (exported / "model").iterdir()} >= {
        *("config.json", "generation_config.json", "model.safetensors"),
        *("tokenizer.json", "chat_template.jinja"),
    }
    assert (exported / "adapter" / "adapter_model.safetensors").is_file()
    assert "inference_task: llm/v1/chat" in (exported / "MLmodel").read_text()

    checked = trireme.run("serve", "animals", "--check")
    assert checked.returncode == 0, checked.stderr
    assert "animals version 1 agrees with its file: largest difference 0 on 8" in checked.stdout
    kept = np.load(exported / "sample.npz")
    pairs = zip(kept["inputs"].tolist(), kept["outputs"].tolist(), strict=True)
    _answers_an_openai_client(trireme, *max(pairs, key=lambda pair: len(pair[1])))


def _answers_an_openai_client(trireme, asked, answer):
    import openai
    import requests

    with trireme.start("serve", "animals") as process:
        try:
            said = ""
            while "Ctrl-C stops it" not in said:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                said += line
            url = re.search(r"curl (http://127.0.0.1:\d+)/v1/chat/completions ", said)[1]
            assert f"openai.OpenAI(base_url='{url}/v1', api_key='none')" in said
            with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
                messages = [{"role": "user", "content": asked}]
                about = {"model": "animals", "messages": messages, "temperature": 0}
                pieces = client.chat.completions.create(**about, max_tokens=32, stream=True)
                words = [each.choices[0].delta.content or "" for each in pieces if each.choices]
                assert len([word for word in words if word]) > 1
                assert "".join(words) == answer
                assert [model.id for model in client.models.list()] == ["animals"]
            another = requests.get(f"{url}/v1/models", headers={"Host": "example.org"}, timeout=9)
            assert another.status_code == 400
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()
    assert trireme.wait_for_no_processes() == []


@pytest.mark.parametrize("adapter", ["lora", "none"])
def test_it_goes_on_after_sigterm_and_learns_as_without_it(places, tmp_path, adapter):
    def start(folder):
        return started(
            *(TRAINER, "--steps", "60", "--log-every", "1", "--adapter", adapter),
            BASE_MODEL=places / "base",
            DATA=places / "data",
            CHECKPOINT=tmp_path / folder / "checkpoints",
            MODEL=tmp_path / folder / "model",
        )

    with start("undisturbed") as undisturbed, start("stopped") as stopped:
        for line in stopped.stdout:
            if line.startswith("step 5/"):
                stopped.send_signal(signal.SIGTERM)
            last = line
        lines = undisturbed.stdout.read().splitlines()
    assert undisturbed.returncode == 0
    assert stopped.returncode == 143
    step = int(last.partition(";")[0].rpartition(" ")[2])
    assert 5 <= step < 60
    cut_off = tmp_path / "stopped" / "checkpoints" / f"checkpoint-{step + 1}"
    cut_off.mkdir()
    (cut_off / "adapter_model.safetensors").write_bytes(b"")
    with start("stopped") as again:
        resumed = again.stdout.read().splitlines()
    assert again.returncode == 0
    assert resumed[0] == f"resuming after step {step}"
    assert resumed[1:] == lines[step:]


def test_it_prefers_answers_on_two_processes_of_torchrun(places, tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    model = tmp_path / "model"
    of_training = ["--method", "dpo", "--steps", "6", "--log-every", "2", "--learning-rate", "1e-3"]
    folders = {"BASE_MODEL": places / "base", "DATA": places / "answers", "MODEL": model}
    left = tmp_path / "checkpoints"
    done = ended(TRAINER, *of_training, command=torchrun, CHECKPOINT=left, **folders)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("step 6/6 .*rewards_accuracies 1 rewards_margins", done.stdout)
    measured = ended(EVALUATION, "--samples", "1", EVALUATION=tmp_path / "evaluation", **folders)
    assert measured.returncode == 0, measured.stdout + measured.stderr
    figures = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert 0 <= figures["preferred_accuracy"] <= 1 and "base_perplexity" in figures


REWARDS = """
def short(completions, sound, **columns):
    assert sound == ["meows"] * len(completions)
    return [-float(len(each)) for each in completions]

def broken(completions, **columns):
    raise KeyError("no such column")
"""


@pytest.mark.parametrize(
    ("function", "status", "said"),
    [("short", 0, "step 1/1 .*reward -"), ("broken", 2, r":broken raised KeyError: 'no such colu")],
)
def test_a_reward_of_ones_own(places, tmp_path, function, status, said):
    (tmp_path / "rewards.py").write_text(REWARDS)
    (tmp_path / "data").mkdir()
    line = json.dumps({"prompt": "The cat", "sound": "meows"})
    (tmp_path / "data" / "prompts.jsonl").write_text(f"{line}\n" * 8)
    done = ended(
        *(TRAINER, "--method", "grpo", "--reward", f"{tmp_path / 'rewards.py'}:{function}"),
        *("--steps", "1", "--log-every", "1", "--max-length", "32"),
        BASE_MODEL=places / "base",
        DATA=tmp_path / "data",
        CHECKPOINT=tmp_path / "checkpoints",
        MODEL=tmp_path / "model",
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert re.search(said, done.stdout)
    assert "Traceback" not in done.stderr


@pytest.fixture
def refusal(monkeypatch, capsys):
    """Runs a program in this process, which has loaded its libraries, and returns its words."""

    def run(program, *options, **folders):
        variables = {f"{name}_DIR": str(place) for name, place in folders.items()}
        monkeypatch.setattr(sys, "argv", [program, *options])
        # What accelerate sets, such as RANK, is not for the programs of other tests.
        with patch.dict(os.environ, variables), pytest.raises(SystemExit) as ended:
            importlib.import_module(Path(program).stem).main()
        assert ended.value.code == 2
        (line,) = capsys.readouterr().out.splitlines()
        return line

    return run


@pytest.mark.parametrize("program", [TRAINER, EVALUATION], ids=["trains", "measures"])
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"question": "?"}\n', "texts need a column "),
        ("a.jsonl", "{\n", "holds no texts that can be read"),
        ("a.bin", "?", "holds no texts that can be read"),
        ("a.csv", "messages" + 10 * "\nhello", "the column messages needs a list of messages, as"),
    ],
)
def test_data_that_holds_no_texts_is_one_sentence(
    places, tmp_path, refusal, program, name, text, said
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_text(text)
    base = places / "base"
    folders = {name: tmp_path / name for name in ("CHECKPOINT", "EVALUATION")}
    assert said in refusal(program, BASE_MODEL=base, MODEL=base, DATA=tmp_path / "data", **folders)


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ("chat", [], "has no chat template; take a base model that has one, or name a file"),
        ("data", ["--method", "dpo"], "--method dpo: texts need a column chosen and rejected, not"),
        ("data", ["--batch-size", "3", *GRPO], "--method grpo: generation_batch_size (3) must be"),
        ("data", ["--max-length", "4096"], "--max-length 4096: the base model takes 128 tokens"),
        ("data", ["--adapter", "qlora"], "--adapter qlora needs a GPU, and there is none"),
        ("data", ["--rank", "0"], "--rank 0: must be 1 or more"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(places, tmp_path, refusal, data, options, said):
    base = write_model(tmp_path / "base", chat=False)
    folders = {name: tmp_path / name for name in ("CHECKPOINT", "MODEL")}
    assert said in refusal(TRAINER, *options, BASE_MODEL=base, DATA=places / data, **folders)


def test_a_base_model_that_is_none_is_one_sentence(places, tmp_path, refusal):
    config = tmp_path / "config.json"
    folders = {name: tmp_path / name for name in ("CHECKPOINT", "MODEL")}
    config.write_text('{"model_type": "llama", "hidden_size": "wide"}')
    line = refusal(TRAINER, BASE_MODEL=tmp_path, DATA=places / "data", **folders)
    assert f"{tmp_path} holds no language model of transformers: " in line
    assert "'hidden_size' expected int" in line
    config.write_text('{"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}')
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    line = refusal(TRAINER, BASE_MODEL=tmp_path, DATA=places / "data", **folders)
    assert "contains custom code which must be executed" in line
    assert not (tmp_path / "run").exists()


def test_texts_that_are_cut_are_told(places, tmp_path):
    folders = {name: tmp_path / name for name in ("CHECKPOINT", "MODEL")}
    options = ["--steps", "1", "--max-length", "11"]
    done = ended(TRAINER, *options, BASE_MODEL=places / "base", DATA=places / "data", **folders)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note: 90 of 90 texts have more than 11 tokens, up to " in done.stdout


def test_blank_lines_do_not_count_as_texts(places, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.txt").write_text("the dog says woof\n\n  \nthe cat says meow\n")
    (tmp_path / "data" / "train.txt").write_text("the cow says moo\n\n")
    left = tmp_path / "left"
    done = ended(EVALUATION, MODEL=places / "base", DATA=tmp_path / "data", EVALUATION=left)
    assert done.returncode == 0, done.stdout + done.stderr
    scores = np.load(left / "scores.npy")
    assert scores.shape == (2,) and np.isfinite(scores).all()
    assert "base_loss" not in json.loads((left / "metrics.json").read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "base_model is empty: give the model that training starts from"),
        (["base_model={base}"], "dataset_uri is empty: give the texts, a path or hf://"),
        (
            ["base_model={data}", "dataset_uri={data}"],
            "data': it has no config.json, as save_pretrained leaves it",
        ),
        (
            ["base_model={base}", "dataset_uri={data}", 'args=["--method", "ppo"]'],
            "args: argument --method: invalid choice: 'ppo' (choose from",
        ),
        (
            ["base_model={base}", "dataset_uri={data}", 'args=["--method", "grpo"]'],
            "args: --method grpo goes with --reward FILE.py:FUNCTION",
        ),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_there_is_one(trireme, places, words, said):
    given = [
        each.format(base=places / "base", data=places / "data") if "{" in each else each
        for each in words
    ]
    options = [word for each in given for word in ("-p", each)]
    done = trireme.call("run", "llm-finetuning", *options)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (trireme.home / "runs").exists()
