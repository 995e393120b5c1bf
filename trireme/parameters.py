"""The parameters of Trireme's own pipelines: each is described once, and taken by its name."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from kfp import dsl

from trireme.credentials.secrets import DEFAULTS
from trireme.evaluation.options import MIN_ACCURACY
from trireme.steps import WORKSPACE


class Described(NamedTuple):
    """A parameter: its type, its default, and what it means."""

    type: type
    default: Any
    text: str


PARAMETERS = {
    "framework": Described(
        str, "pytorch", "The framework of the training program, pytorch or tensorflow."
    ),
    "code_url": Described(
        str,
        "",
        "Git repository of the training code: an https, ssh, git or file URL, or a directory. "
        "Empty: the reference trainers that Trireme carries.",
    ),
    "code_revision": Described(
        str,
        "",
        "Branch, tag or commit. Empty: the repository's default branch; of a directory, what "
        "is in it, committed or not.",
    ),
    "code_secret": Described(
        str,
        DEFAULTS["code"],
        "The Secret that opens a private repository, if there is one of that name: username and "
        "password or token, or ssh-privatekey and known_hosts.",
    ),
    "code_directory": Described(
        str, "", "A directory in the repository that becomes CODE_DIR. Empty: all of it."
    ),
    "code_submodules": Described(
        str,
        "all",
        "The repository's submodules that are checked out: all, none, or their paths with commas "
        "between them.",
    ),
    "code_without": Described(
        list,
        [],
        "Paths in a directory on this machine that are no code, as its data are: a JSON list.",
    ),
    "requirements": Described(
        list,
        [],
        "Packages that the run's programs need besides those that are there: a JSON list of "
        'requirements and of files in CODE_DIR, such as ["requirements.txt", "accelerate>=1.2"].',
    ),
    "requirements_secret": Described(
        str,
        DEFAULTS["requirements"],
        "The Secret with the index of these packages, if there is one of that name: index-url and "
        "extra-index-url.",
    ),
    "entrypoint": Described(
        str,
        "",
        "The training program, a .py file in the repository. Empty: Trireme's reference "
        "classifier.",
    ),
    "args": Described(
        list,
        [],
        "Its arguments, a JSON list. $(NAME) in them stands for a variable, such as $(MODEL_DIR).",
    ),
    "grid": Described(
        dict,
        {},
        'Lists of values by name, a JSON object such as {"--width": [16, 32], "seed": [0, '
        "1]}: every combination is tried. A name is an option of the program, which comes after "
        "args, such as --width, --width= or Hydra's model.width, or one of entrypoint, workers, "
        "processes_per_worker and seed. With search random "
        'or tpe a range may take the place of a list, such as {"low": 0.001, "high": 0.1, '
        '"log": true} or {"low": 16, "high": 128, "step": 16}. Without grid and trials learning '
        "rates of the reference classifier are tried.",
    ),
    "trials": Described(
        list, [], 'Further trainings, one by one: a JSON list of objects such as {"--width": 64}.'
    ),
    "search": Described(
        str,
        "grid",
        "How the sweep finds what it tries: grid, all combinations; random; or tpe, Optuna's "
        "sampler, which learns from the trials so far.",
    ),
    "n_trials": Described(
        int, 0, "How many trials random or tpe makes, besides those that are listed."
    ),
    "early_stopping": Described(
        dict,
        {},
        "Which trials end early, by what their programs print or log of a metric: a JSON object "
        'such as {"metric": "val_loss"}, which may have goal, maximize or minimize, and pruner, '
        "median or hyperband. Empty: none.",
    ),
    "dataset_uri": Described(
        str,
        "builtin://digits",
        "builtin://digits, a path or file:// URI, oss://bucket/path, s3://bucket/path, "
        "gs://bucket/path, hf://datasets/org/name, https:// or http://; builtin://none for none, "
        "where the program brings its own data.",
    ),
    "dataset_secret": Described(
        str, DEFAULTS["dataset"], "The Secret with the credentials, if there is one of that name."
    ),
    "dataset_options": Described(
        dict,
        {},
        'How to reach it and which files to use, a JSON object, such as {"endpoint": '
        '"https://storage.example.org", "include": ["train/**"]}.',
    ),
    "base_model": Described(
        str,
        "",
        "The model that training starts from, which programs find as BASE_MODEL_DIR: "
        "hf://org/name[@revision], models:/NAME[@ALIAS], or a URI as for the dataset. Empty: none.",
    ),
    "base_model_secret": Described(
        str,
        DEFAULTS["base_model"],
        "The Secret with its credentials, if there is one of that name.",
    ),
    "base_model_options": Described(
        dict,
        {},
        'How to reach it and which files to use, a JSON object, such as {"include": '
        '["*.json", "*.safetensors"]}.',
    ),
    "workers": Described(
        int,
        -1,
        "Replicas besides the master or chief, at most 999. -1: the program runs as one process, "
        "but a reference trainer runs on several.",
    ),
    "processes_per_worker": Described(
        int, 1, "PyTorch: processes in each replica, the master included."
    ),
    "parameter_servers": Described(
        int, 0, "TensorFlow: parameter servers; with any, PS/Worker mode with a chief."
    ),
    "warm_start": Described(
        bool,
        False,
        "Whether the program finds the champion's MODEL_DIR as WARM_START_DIR.",
    ),
    "force": Described(bool, False, "Train even if nothing has changed."),
    "min_accuracy": Described(
        float,
        MIN_ACCURACY,
        "The lowest held-out accuracy, 0 to 1, at which a classifier is exported.",
    ),
    "gate": Described(
        dict,
        {},
        'Further thresholds, such as {"most": {"rmse": 2.5}}, and conditions for becoming the '
        'champion of model_name, such as {"better_by": 0.01, "class_loss": 0.02}, a JSON object; '
        "by default the model has to be better with a confidence of 95 %.",
    ),
    "evaluation": Described(
        dict,
        {},
        "A program of the repository that evaluates the model in place of Trireme, a JSON object, "
        'such as {"entrypoint": "evaluate.py", "args": ["--beams", "4"]}.',
    ),
    "model_factory": Described(
        str,
        "",
        "PyTorch: module:callable that builds the network, needed if only weights are saved.",
    ),
    "model_name": Described(
        str,
        "classifier",
        "The registered model in MLflow that an exported model becomes a version of.",
    ),
    "deploy": Described(
        str, "", "How to deploy a new champion, deployment or kserve. Empty: it is not deployed."
    ),
    "experiment": Described(
        str,
        "",
        "The MLflow experiment. Empty: the one that MLFLOW_EXPERIMENT_ID names, otherwise one "
        "named after the pipeline.",
    ),
    "webhook_secret": Described(
        str,
        DEFAULTS["webhook"],
        "The Secret with the url that gets the result of the run, if there is one of that name.",
    ),
    "seed": Described(int, 0, "The seed, which the training program finds in SEED."),
    "time_limit": Described(int, 0, "Seconds that training may take; 0 for no limit."),
    "budget": Described(
        float,
        0.0,
        "The most that training may cost, in the currency of the price table; 0 for no limit.",
    ),
    "image": Described(
        str,
        "",
        "Container image of the training replicas on a cluster. Empty: Trireme's, for GPUs if "
        "the job has any.",
    ),
    "job": Described(
        dict,
        {},
        'Further fields of the training job, a JSON object, such as {"gpu": 1} or {"elastic": '
        '{"min": 1, "max": 4}}; \'trireme job schema\' lists them.',
    ),
}
"""All there are, in the order in which pipelines have them."""

OF_A_SWEEP = ("grid", "trials", "search", "n_trials", "early_stopping")
"""Those that a pipeline does not have which trains once."""


def pipeline(
    name: str, display_name: str, *, without: tuple[str, ...] = (), **instead: Any
) -> Callable[[Callable[[dict[str, Any]], None]], Any]:
    """Makes a kfp pipeline of a function that is given the parameters by name.

    Args:
        name: The pipeline's name.
        display_name: What people call it.
        without: The parameters that it does not have.
        instead: Another text for a parameter or, in a tuple, another default and text.
    """
    described = {
        parameter: _changed(PARAMETERS[parameter], instead.get(parameter))
        for parameter in PARAMETERS
    }
    described = {
        parameter: description
        for parameter, description in described.items()
        if parameter not in without
    }

    def decorate(build: Callable[[dict[str, Any]], None]) -> Any:
        def graph(*values: Any) -> None:
            build(dict(zip(described, values, strict=True)))

        texts = "\n".join(
            f"    {parameter}: {description.text}" for parameter, description in described.items()
        )
        graph.__name__, graph.__module__ = build.__name__, build.__module__
        graph.__doc__ = f"{inspect.cleandoc(build.__doc__ or '')}\n\nArgs:\n{texts}\n"
        graph.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    parameter,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=description.default,
                    annotation=description.type,
                )
                for parameter, description in described.items()
            ]
        )
        return dsl.pipeline(graph, name=name, display_name=display_name, pipeline_config=WORKSPACE)

    return decorate


def _changed(described: Described, instead: Any) -> Described:
    if isinstance(instead, tuple):
        return described._replace(default=instead[0], text=instead[1])
    return described._replace(text=instead) if instead else described
