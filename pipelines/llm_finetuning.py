"""The pipeline that fine-tunes a language model."""

from collections.abc import Collection
from functools import partial
from typing import Any

from trireme.data.uri import local, place
from trireme.errors import InputError
from trireme.models import language
from trireme.parameters import OF_A_SWEEP, pipeline
from trireme.pipelines import training
from trireme.text.json_values import words
from trireme.trainers import llm_options

ENTRYPOINT = "trainers/llm_finetuning.py"

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
    base_model="The model that training starts from: hf://org/name[@revision], or a path or URI of "
    "a folder that save_pretrained left.",
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
        {"entrypoint": "trainers/llm_evaluation.py"},
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
            llm_options.parse("", words(parameters["args"]))
        except ValueError as error:
            raise InputError(f"args: {error}") from None
    if claims is None and place(parameters["base_model"]).kind == "file":
        folder = local(parameters["base_model"])
        if why := language.unfit(folder):
            raise InputError(f"base_model {parameters['base_model']!r}: {why}")
