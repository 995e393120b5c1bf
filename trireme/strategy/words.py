"""A choice in the words of a training job."""

from trireme.strategy.choose import Choice
from trireme.strategy.communication import Machines
from trireme.strategy.memory import Recipe
from trireme.strategy.model import Transformer, llama

TRAINERS = "trainers"


def pytorch(
    choice: Choice, model: Transformer, recipe: Recipe, machines: Machines
) -> dict[str, str]:
    """Returns the fields of a job that trains so with PyTorch."""
    mesh, work = choice.mesh, choice.work
    words = ["--strategy", choice.name]
    if choice.name == "hybrid":
        words += ["--pp", str(mesh.pp), "--dp", str(mesh.dp), "--tp", str(mesh.tp)]
    words += ["--batch-size", str(work.samples * work.parts * mesh.dp)]
    words += ["--micro-batch", str(work.samples)]
    words += ["--bf16"] if recipe.compute == 2 else []
    words += ["--recompute"] if work.recompute else []
    sizes = {name: getattr(model, name) for name in ("layers", "width", "heads", "vocabulary")}
    words += [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    job = {
        "framework": "pytorch",
        "workers": str(machines.nodes - 1),
        "processes_per_worker": str(machines.devices),
        "gpu": str(machines.devices),
        "entrypoint": f"{TRAINERS}/language_model.py",
        "args": " ".join(words),
    }
    if model != llama(**sizes) or recipe.weights != 4 or recipe.optimizer != 8:
        job["note"] = (
            "language_model.py trains a network like LLaMA with AdamW and weights in float32; your "
            "own program needs the same mesh and micro-batch"
        )
    return job


def tensorflow(choices: list[Choice], model: Transformer, machines: Machines) -> dict[str, str]:
    """Returns the fields of a job that trains so with TensorFlow, or why none does.

    Its strategies have the whole model on each device, as DDP has; only parameter servers have not.
    """
    data_parallel = next((choice for choice in choices if choice.name in ("single", "ddp")), None)
    job = {"framework": "tensorflow", "gpu": str(machines.devices)}
    program = {"entrypoint": f"{TRAINERS}/tensorflow_classifier.py"}
    if data_parallel and data_parallel.fits:
        name, strategy = "OneDeviceStrategy", "single"
        if machines.nodes > 1:
            name, strategy = "MultiWorkerMirroredStrategy", "multi_worker"
        elif machines.devices > 1:
            name, strategy = "MirroredStrategy", "mirrored"
        job |= {"workers": str(machines.nodes)} | program
        return {"strategy": f"tf.distribute.{name}"} | job | {"args": f"--strategy {strategy}"}
    if model.embedding * (1 if model.tied else 2) > model.parameters / 2:
        job |= {"replicas": f"{{chief: {{}}, ps: {{}}, worker: {{count: {machines.nodes}}}}}"}
        job |= program | {"args": "--strategy parameter_server"}
        return {"strategy": "tf.distribute.ParameterServerStrategy: most is embeddings"} | job
    return {"strategy": "none: each of tf.distribute has all of the model on every device"}
