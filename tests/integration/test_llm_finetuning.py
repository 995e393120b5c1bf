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
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from jobs_of_frameworks import ROOT
from language_models import COMMIT, hub_of, texts, write_model, write_texts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRAINER, EVALUATION = (f"trainers/llm_{name}.py" for name in ("finetuning", "evaluation"))
TOKEN = "hf_NobodyIsToReadThis"
BROKEN = "broken.py"
FULL = ["--adapter", "none", "--learning-rate", "1e-3"]
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

    _goes_on_from_a_registered_model(trireme, places)
    checked = trireme.run("serve", "animals", "--check")
    assert checked.returncode == 0, checked.stderr
    agreed = re.fullmatch(
        r"animals version 1 agrees with its file: 8 of 8 answers are the same, and of their (\d+) "
        r"tokens all (\d+) that float16 cannot change\n",
        checked.stdout,
    )
    assert agreed and 0.5 * int(agreed[1]) < int(agreed[2]) <= int(agreed[1])
    kept = np.load(exported / "sample.npz")
    pairs = zip(kept["inputs"].tolist(), kept["outputs"].tolist(), strict=True)
    _answers_an_openai_client(trireme, *max(pairs, key=lambda pair: len(pair[1])))


def _goes_on_from_a_registered_model(trireme, places):
    given = {"base_model": "models:/animals@champion", "model_name": "stacked"}
    done = run(trireme, places, "chat", "--steps", "2", **given)
    assert done.returncode == 0, done.stdout + done.stderr
    version = trireme.client.get_model_version("stacked", "1")
    assert version.tags["base_model.uri"] == "models:/animals@champion"
    assert version.tags["base_model.version"] == "models:/animals/1"
    assert version.tags["base_model.license"] == "apache-2.0"
    figures = trireme.nested(trireme.parents()[0])["evaluate"].data.metrics
    before = trireme.nested(trireme.parents()[1])["evaluate"].data.metrics
    assert figures["base_loss"] == pytest.approx(before["loss"], rel=1e-4)
    assert (trireme.run_directory() / "workspace/exported/adapter/adapter_config.json").is_file()


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


def test_killed_in_the_middle_it_goes_on_to_the_same_bits(places, tmp_path):
    def start(folder):
        return started(
            *(TRAINER, "--steps", "40", "--log-every", "1", "--save-every", "5"),
            BASE_MODEL=places / "base",
            DATA=places / "data",
            CHECKPOINT=tmp_path / folder / "checkpoints",
            MODEL=tmp_path / folder / "model",
        )

    with start("undisturbed") as undisturbed:
        undisturbed.communicate()
    with start("killed") as killed:
        for line in killed.stdout:
            if line.startswith("step 18/"):
                killed.kill()
    assert (undisturbed.returncode, killed.returncode) == (0, -signal.SIGKILL)
    with start("killed") as again:
        assert again.stdout.readline() == "resuming after step 15\n"
        again.communicate()
    assert again.returncode == 0
    for name in ("model.safetensors", "adapter/adapter_model.safetensors"):
        left, right = (tmp_path / each / "model" / name for each in ("undisturbed", "killed"))
        assert left.read_bytes() == right.read_bytes()


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("options", [[], ["--strategy", "fsdp"], ["--strategy", "fsdp", *FULL]])
def test_it_goes_on_with_more_or_fewer_processes(places, tmp_path, options, before, after):
    """FSDP2 among CPUs, over gloo, which accelerate does not do by itself."""
    program = ["tests/fsdp_on_cpus.py", TRAINER] if options else [TRAINER]
    words = [*program, *options, "--steps", "8", "--save-every", "4", "--log-every", "1"]
    words += ["--dropout", "0", "--batch-size", "8"]

    def train(folder, processes):
        done = ended(
            *words,
            command=TORCHRUN if processes == 2 else (sys.executable,),
            BASE_MODEL=places / "base",
            DATA=places / "data",
            CHECKPOINT=tmp_path / folder / "checkpoints",
            MODEL=tmp_path / folder / "model",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        losses = [float(each) for each in re.findall(r"^step .* loss (\S+)", done.stdout, re.M)]
        return losses, done.stdout

    undisturbed, _ = train("undisturbed", before)
    shutil.copytree(tmp_path / "undisturbed" / "checkpoints", tmp_path / "other" / "checkpoints")
    shutil.rmtree(tmp_path / "other" / "checkpoints" / "checkpoint-8")
    losses, said = train("other", after)
    each = "--batch-size 4 --accumulate 1" if after == 2 else "--batch-size 8 --accumulate 2"
    assert f"note: steps have {8 * before} samples, as before: {each} in each of {after}" in said
    assert "resuming after step 4" in said
    assert losses == pytest.approx(undisturbed[4:], rel=2e-3)
    if options:
        sharded = tmp_path / "undisturbed" / "checkpoints" / "checkpoint-4" / "optimizer_0"
        assert len([*sharded.glob("*.distcp")]) == before
    left, right = (_weights(tmp_path / name / "model") for name in ("undisturbed", "other"))
    assert left.keys() == right.keys()
    for name, weight in left.items():
        np.testing.assert_allclose(right[name], weight, atol=2e-3)
    base = _weights(places / "base")
    assert any(np.abs(left[name] - base[name]).max() > 1e-3 for name in base)


def _weights(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")


def test_samples_of_a_step_that_cannot_be_shared_are_one_sentence(
    places, tmp_path, refusal, monkeypatch
):
    folder = tmp_path / "checkpoints" / "checkpoint-1"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoints" / "samples-of-a-step").write_text("8")
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("RANK", "1")
    folders = {"CHECKPOINT": tmp_path / "checkpoints", "MODEL": tmp_path / "model"}
    line = refusal(TRAINER, BASE_MODEL=places / "base", DATA=places / "data", **folders)
    assert "were made with 8 samples in a step, which 3 processes cannot share" in line


def test_strategy_fsdp_without_gpus_is_one_sentence(places, tmp_path):
    folders = {name: tmp_path / name for name in ("CHECKPOINT", "MODEL")}
    folders |= {"BASE_MODEL": places / "base", "DATA": places / "data"}
    done = ended(TRAINER, "--strategy", "fsdp", **folders)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == "--strategy fsdp needs a GPU in each process; take ddp"
    assert "Traceback" not in done.stderr


def test_it_prefers_answers_on_two_processes_of_torchrun(places, tmp_path):
    model = tmp_path / "model"
    of_training = ["--method", "dpo", "--steps", "6", "--log-every", "2", "--learning-rate", "1e-3"]
    folders = {"BASE_MODEL": places / "base", "DATA": places / "answers", "MODEL": model}
    left = tmp_path / "checkpoints"
    done = ended(TRAINER, *of_training, command=TORCHRUN, CHECKPOINT=left, **folders)
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

def one(completions, **columns):
    return [1.0]
"""


@pytest.mark.parametrize(
    ("function", "status", "said"),
    [
        ("short", 0, "step 1/1 .*reward -"),
        ("broken", 2, r":broken raised KeyError: 'no such colu"),
        ("one", 2, r":one: has to return 4 numbers, one for each completion, not \[1.0\]"),
    ],
)
def test_a_reward_of_ones_own(places, tmp_path, function, status, said):
    (tmp_path / "rewards.py").write_text(REWARDS)
    (tmp_path / "data").mkdir()
    line = json.dumps({"prompt": "The cat", "sound": "meows"})
    too_long = json.dumps({"prompt": "The cat " * 9, "sound": "meows"})
    (tmp_path / "data" / "prompts.jsonl").write_text(f"{line}\n" * 8 + too_long + f"\n{line}\n")
    reward = ["--reward", f"{tmp_path / 'rewards.py'}:{function}"]
    folders = {
        "BASE_MODEL": places / "base",
        "DATA": tmp_path / "data",
        "MODEL": tmp_path / "model",
    }
    done = ended(
        *(TRAINER, "--method", "grpo", *reward),
        *("--steps", "1", "--log-every", "1", "--max-length", "32"),
        CHECKPOINT=tmp_path / "checkpoints",
        **folders,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert re.search(said, done.stdout)
    assert "note: 1 of 9 texts are left out, as their prompts have more than 16 tok" in done.stdout
    assert "Traceback" not in done.stderr
    if status:
        return
    measured = ended(EVALUATION, *reward, EVALUATION=tmp_path / "evaluation", **folders)
    assert measured.returncode == 0, measured.stdout + measured.stderr
    figures = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert [*figures] == ["reward", "base_reward", "reward_above_base"]
    (sample,) = json.loads((tmp_path / "evaluation" / "samples.json").read_text())
    assert sample["asked"] == "The cat" and figures["reward"] == -len(sample["model"]) < 0
    assert np.load(tmp_path / "evaluation" / "scores.npy").tolist() == [figures["reward"]]


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
        (
            "data",
            ["--max-length", "5"],
            "--max-length 5: the prompts of all 90 texts leave no room",
        ),
        ("answers", ["--method", "dpo", "--max-length", "5"], "--max-length 5: the prompts of all"),
        ("data", ["--max-length", "4", *GRPO], "as they have more than 2 tokens"),
        ("data", ["--method", "grpo", "--reward", BROKEN], "broken.py raised ZeroDivisionError: d"),
        ("data", ["--rank", "0"], "--rank 0: must be 1 or more"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(places, tmp_path, refusal, data, options, said):
    (tmp_path / BROKEN).write_text("1 / 0")
    options = [str(tmp_path / each) if each == BROKEN else each for each in options]
    base = write_model(tmp_path / "base", chat=data == "answers")
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


def test_a_disk_without_room_for_the_model_is_told_before_training(
    places, tmp_path, refusal, monkeypatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e3))
    folders = {name: tmp_path / name for name in ("CHECKPOINT", "MODEL")}
    line = refusal(TRAINER, BASE_MODEL=places / "base", DATA=places / "data", **folders)
    assert re.fullmatch(
        r"MODEL_DIR .*MODEL has 1e-06 GB left, and the model needs [0-9.e-]+ GB", line
    )


def test_an_adapter_of_another_model_is_one_sentence(places, tmp_path, refusal):
    other = write_model(tmp_path / "other", width=64)
    folders = {"CHECKPOINT": tmp_path / "checkpoints", "DATA": places / "data"}
    left = tmp_path / "left"
    done = ended(TRAINER, "--steps", "1", BASE_MODEL=other, MODEL=left, **folders)
    assert done.returncode == 0, done.stderr
    adapter = {"MODEL": left / "adapter", "BASE_MODEL": places / "base"}
    line = refusal(EVALUATION, DATA=places / "data", EVALUATION=tmp_path / "e", **adapter)
    assert f"{left / 'adapter'} is not an adapter of {places / 'base'}: Error(s) in load" in line


def test_questions_longer_than_the_context_are_asked_by_their_ends(tmp_path):
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    model = write_model(tmp_path / "model", chat=False)
    size = len(AutoTokenizer.from_pretrained(model))
    shape = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 32}
    GPT2LMHeadModel(GPT2Config(vocab_size=size, **shape)).save_pretrained(model)
    row = json.dumps({"text": "The cat meows. " * 30})
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_text(f"{row}\n" * 10)
    folders = {"MODEL": model, "DATA": tmp_path / "data", "EVALUATION": tmp_path / "evaluation"}
    done = ended(EVALUATION, "--tokens", "8", **folders)
    assert done.returncode == 0, done.stderr
    (sample,) = json.loads((tmp_path / "evaluation" / "samples.json").read_text())
    assert sample["asked"].startswith("The cat meows. The cat meows.")


TASK = """
task: sounds
dataset_path: json
dataset_kwargs:
  data_files: {{test: {questions}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
target_delimiter: ""
filter_list:
  - name: none
    filter: [{{function: take_first}}]
  - name: strict-match
    filter: [{{function: take_first}}]
metric_list:
  - metric: acc
"""


def test_tasks_of_lm_eval_are_measured_where_it_is_installed(places, tmp_path):
    pytest.importorskip("lm_eval")
    questions = [
        {"prompt": row["prompt"], "choices": [row["completion"], " It is silent."], "answer": 0}
        for row in texts("prompt", hours=2)
    ]
    lines = "".join(f"{json.dumps(each)}\n" for each in questions)
    (tmp_path / "questions.jsonl").write_text(lines)
    (tmp_path / "sounds.yaml").write_text(TASK.format(questions=tmp_path / "questions.jsonl"))
    folders = {"BASE_MODEL": places / "base", "DATA": places / "data", "MODEL": places / "base"}
    asked = ["--samples", "1", "--tasks", "sounds", "--task-folder", str(tmp_path)]
    done = ended(EVALUATION, *asked, EVALUATION=tmp_path / "evaluation", **folders)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert 0 <= figures["sounds_acc"] == figures["base_sounds_acc"] <= 1
    assert figures["sounds_acc_strict-match"] == figures["sounds_acc"]  # some tasks have no other


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
        (
            ["base_model={base}", "dataset_uri={data}", f"args={json.dumps(GRPO)}"],
            "evaluation: --method grpo is measured by its reward, too; give {",
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
