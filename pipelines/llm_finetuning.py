"""The pipeline that fine-tunes a language model."""

import json
from collections.abc import Collection
from functools import partial
from typing import Any

from trireme.data import base_model
from trireme.data.uri import local, place
from trireme.errors import InputError, TriremeError
from trireme.models import language
from trireme.parameters import OF_A_SWEEP, pipeline
from trireme.pipelines import training
from trireme.strategy import finetuning, reading
from trireme.strategy.choose import gigabytes
from trireme.strategy.finetuning import FineTuning
from trireme.strategy.memory import Mesh, Work
from trireme.text.json_values import words
from trireme.trainers import llm_options

ENTRYPOINT = "trainers/llm_finetuning.py"
EVALUATION = "trainers/llm_evaluation.py"

WITHOUT = (
    *("framework", "parameter_servers", "model_factory", "min_accuracy"),
    *("warm_start", "force", "deploy"),
    *OF_A_SWEEP,
)

trainings = partial(training.trainings, "pytorch")


@pipeline(
    "llm-finetuning",
    "Language model fine-tuning",
    without=WITHOUT,
    entrypoint=(ENTRYPOINT, "The training program, a .py file in the repository."),
    args="Its arguments, a JSON list, such as those after -- in the command: --method sft or dpo, "
    "--adapter lora or none, --epochs; 'python trainers/llm_finetuning.py --help' lists them.",
    base_model="The model that training starts from: hf://org/name[@revision], a registered one, "
    "models:/NAME[@ALIAS], or a path or URI of a folder that save_pretrained left.",
    dataset_uri=(
        "",
        "The texts, JSON lines, CSV or Parquet, with the columns text, or prompt and "
        "completion, or messages, or chosen and rejected: a path, hf://datasets/org/name, or "
        "another URI.",
    ),
    requirements=(
        ["trl>=1.16", "peft>=0.21"],
        "Packages that the run's programs need besides those that are there: a JSON list.",
    ),
    workers="Replicas besides the master, at most 999. -1: none, but one for the reference "
    "trainers.",
    processes_per_worker="Processes in each replica, the master included.",
    evaluation=(
        {"entrypoint": EVALUATION},
        "The program that evaluates the "
        'model, a JSON object, such as {"entrypoint": "evaluate.py", "args": ["--samples", "4"]}.',
    ),
    gate='Thresholds, such as {"most": {"perplexity": 20}, "least": {"loss_below_base": 0.1}}, and '
    "conditions for becoming the champion of model_name, a JSON object.",
    model_name=(
        "language-model",
        "The registered model in MLflow that the model becomes a version of.",
    ),
)
def llm_finetuning(given: dict[str, Any]) -> None:
    """Fine-tunes a language model and keeps it if it is good enough."""
    training.add_steps("llm-finetuning", "pytorch", given)


def planned(parameters: dict[str, Any]) -> dict[str, str]:
    """Returns what a plan says of memory, for our own program: it is told by config.json alone."""
    if parameters["entrypoint"] != ENTRYPOINT or parameters["code_url"]:
        return {}
    options = llm_options.parse("", words(parameters["args"]))
    job = trainings(parameters).job
    given = (parameters[name] for name in training.BASE_MODEL)
    try:
        text = base_model.text_of("config.json", *given)
        model = reading.of_text(text, f"base_model {parameters['base_model']!r}: config.json")
    except TriremeError as error:
        return {"Memory": f"not known: {error}"}
    config = json.loads(text)
    config |= config.get("text_config") or {}
    context = config.get("max_position_embeddings") or llm_options.MAX_LENGTH
    length = options.max_length or min(llm_options.MAX_LENGTH, context)
    samples = options.batch_size * (2 if options.method == "dpo" else 1)  # both answers
    stored = config.get("dtype") or config.get("torch_dtype") or "float32"
    how = FineTuning(
        options.adapter,
        options.rank,
        "bf16" if job.gpu else "fp32",
        base=4 if stored == "float32" else 2,
        has_reference=options.method == "dpo" or (options.method == "grpo" and options.beta > 0),
    )
    mesh = Mesh(dp=job.world_size, sharded=options.strategy == "fsdp")
    held = finetuning.memory(model, how, mesh, Work(length, samples))
    parts = {name: gigabytes(getattr(held, name)) for name in ("weights", "gradients", "optimizer")}
    said = ", ".join(f"{name} {size}" for name, size in parts.items())
    return {
        "Memory": f"{gigabytes(held.peak)} of each {'GPU' if job.gpu else 'process'} at most, with "
        f"{said}; {model.parameters:.3g} parameters, {samples} texts of {length} tokens at a time"
    }


def check(parameters: dict[str, Any], claims: Collection[str] | None = None) -> None:
    """Refuses parameters that could not work; on a cluster the pods have ``claims`` mounted."""
    if not parameters["base_model"]:
        raise InputError(
            "base_model is empty: give the model that training starts from, "
            "hf://org/name[@revision] or a folder"
        )
    if not parameters["dataset_uri"]:
        raise InputError("dataset_uri is empty: give the texts, a path or hf://datasets/org/name")
    training.check("pytorch", parameters, claims)
    if parameters["entrypoint"] == ENTRYPOINT and not parameters["code_url"]:
        try:
            options = llm_options.parse("", words(parameters["args"]))
        except ValueError as error:
            raise InputError(f"args: {error}") from None
        evaluation = parameters["evaluation"]
        is_measured = any(word.startswith("--reward") for word in words(evaluation.get("args", [])))
        if options.reward and evaluation.get("entrypoint") == EVALUATION and not is_measured:
            named = json.dumps({"entrypoint": EVALUATION, "args": ["--reward", options.reward]})
            raise InputError(
                f"evaluation: --method grpo is measured by its reward, too; give {named}"
            )
    if claims is None and place(parameters["base_model"]).kind == "file":
        folder = local(parameters["base_model"])
        if why := language.unfit(folder):
            raise InputError(f"base_model {parameters['base_model']!r}: {why}")
