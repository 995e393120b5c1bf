"""Trireme's steps as tasks of anybody's pipeline: ``from trireme import checkout, train, ...``.

Each function adds a step to the pipeline that is being built, with what every one of them needs:
the run workspace, the run's id, what leads to MLflow, the price table, and no caching. Its inputs
are values, parameters of the pipeline, or outputs of other tasks; its outputs are those of the
component that it adds, see docs/reference/steps.md. A pipeline with any of them has
``WORKSPACE`` as its ``pipeline_config``, and has them within ``finishing``.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from kfp import dsl, kubernetes

from trireme.components.checkout import component as checkouts
from trireme.components.dataset import component as datasets
from trireme.components.deployment import component as deployments
from trireme.components.evaluation import component as evaluations
from trireme.components.export import component as exports
from trireme.components.finish import component as finishes
from trireme.components.retraining import component as retrainings
from trireme.components.sweep import component as sweeps
from trireme.components.training import component as trainings
from trireme.cost import table
from trireme.credentials import secrets
from trireme.credentials.secrets import DEFAULTS
from trireme.evaluation.options import MIN_ACCURACY
from trireme.images import PYTORCH, TENSORFLOW
from trireme.step_names import NAMED, STEP
from trireme.tracking import on_kubeflow
from trireme.tracking.environment import SECRET

WORKSPACE = dsl.PipelineConfig(
    workspace=dsl.WorkspaceConfig(
        size="10Gi",
        kubernetes=dsl.KubernetesWorkspaceConfig(pvcSpecPatch={"accessModes": ["ReadWriteMany"]}),
    )
)
"""One volume for all pods of a run, those of the training job included."""

IMAGES = {"pytorch": PYTORCH, "tensorflow": TENSORFLOW}
"""The images that evaluate and export models, by framework."""

ENTRYPOINT = "trainers/pytorch_classifier.py"
"""The reference program that is trained where nobody names another."""

RUN, WORKSPACE_PATH = dsl.PIPELINE_JOB_ID_PLACEHOLDER, dsl.WORKSPACE_PATH_PLACEHOLDER

Task: TypeAlias = dsl.PipelineTask
_TASK: Any = dsl.PipelineTask  # which mypy takes for no class


def finishing(pipeline: str, webhook_secret: Any = DEFAULTS["webhook"]) -> dsl.ExitHandler:
    """Returns what the steps of a pipeline are in, so that it ends properly however they end.

    Args:
        pipeline: The pipeline's name.
        webhook_secret: The Secret with the url that gets the result of the run, if there is one of
            that name. Empty: none.
    """
    last = finishes.finish(
        pipeline=pipeline, run=RUN, webhook_secret=webhook_secret, workspace=WORKSPACE_PATH
    )
    if webhook_secret:
        _use_secret(last, "webhook", webhook_secret)
    return dsl.ExitHandler(tracked(last), name="steps")


def checkout(
    url: Any = "",
    revision: Any = "",
    secret: Any = DEFAULTS["code"],
    directory: Any = "",
    submodules: Any = "all",
    without: Any = (),
    requirements: Any = (),
    requirements_secret: Any = DEFAULTS["requirements"],
    framework: Any = "pytorch",
) -> Task:
    """Adds the step that checks out the training code, and installs what it requires.

    Args:
        url: Git repository: an https, ssh, git or file URL, or a directory. Empty: the reference
            trainers that Trireme carries.
        revision: Branch, tag or commit. Empty: the default branch; of a directory, what is in it.
        secret: The Secret with the credentials, if there is one of that name.
        directory: A directory in the repository that becomes CODE_DIR. Empty: all of it.
        submodules: The submodules that are checked out: all, none, or their paths with commas
            between them.
        without: Paths in a directory that are no code, as its data are: a list.
        requirements: Packages that the programs of all steps find: a list of requirements, and of
            files in CODE_DIR that list them.
        requirements_secret: The Secret with their index, if there is one of that name.
        framework: As for ``train``; its package stays the one that is there.
    """
    code = checkouts.checkout(
        url=url,
        revision=revision,
        secret=secret,
        directory=directory,
        submodules=submodules,
        without=_list(without),
        requirements=_list(requirements),
        requirements_secret=requirements_secret,
        framework=framework,
        workspace=WORKSPACE_PATH,
    )
    _use_secret(code, "code", secret)
    _use_secret(code, "requirements", requirements_secret)
    return tracked(code)


def dataset(
    uri: Any = "builtin://digits",
    secret: Any = DEFAULTS["dataset"],
    options: Any = None,
    *,
    base_model: Any = "",
    base_model_secret: Any = DEFAULTS["base_model"],
    base_model_options: Any = None,
    evaluation: Any = None,
) -> Task:
    """Adds the step that stages or mounts a dataset, and the model that training starts from.

    Args:
        uri: builtin://digits, a path, or a file, oss, s3, gs, hf, pvc, http or https URI;
            builtin://none for a program that brings its own data.
        secret: The Secret with the credentials, if there is one of that name.
        options: How to reach it and which files to use, an object.
        base_model: As ``uri``, the model that programs find as BASE_MODEL_DIR. Empty: none.
        base_model_secret: As ``secret``, for the base model.
        base_model_options: As ``options``, for the base model.
        evaluation: The program of ``evaluate``; of an empty one the step says if the dataset does
            not let a model be evaluated. None: no model is to be.
    """
    later = {} if evaluation is None else {"evaluation": evaluation}
    data = datasets.dataset(
        uri=uri,
        secret=secret,
        options=_object(options),
        base_model=base_model,
        base_model_secret=base_model_secret,
        base_model_options=_object(base_model_options),
        workspace=WORKSPACE_PATH,
        **later,
    )
    _use_secret(data, "dataset", secret)
    _use_secret(data, "base_model", base_model_secret)
    return tracked(data)


def train(
    code: Any,
    data: Any,
    *,
    framework: Any = "pytorch",
    entrypoint: Any = ENTRYPOINT,
    args: Any = (),
    workers: Any = -1,
    parameter_servers: Any = 0,
    processes_per_worker: Any = 1,
    seed: Any = 0,
    time_limit: Any = 0,
    budget: Any = 0.0,
    image: Any = "",
    job: Any = None,
    evaluation: Any = None,
    **more: Any,
) -> Task:
    """Adds the step that trains, on one or many replicas.

    Args:
        code: The task of ``checkout``, or the path of a repository in the workspace.
        data: The task of ``dataset`` or of your own step, or the path of the data.
        framework: That of TrainingJob, such as pytorch; 'trireme job schema' lists them.
        entrypoint: The training program, a .py file in the repository.
        args: Its arguments, a list.
        workers: Replicas besides the master or chief. -1: the program runs as one process, but
            a reference trainer runs on several.
        parameter_servers: TensorFlow: parameter servers; with any, PS/Worker mode with a chief.
        processes_per_worker: Processes in each replica.
        seed: The seed, which the program finds in SEED.
        time_limit: Seconds that training may take; 0 for no limit.
        budget: The most that it may cost, in the price table's currency; 0 for no limit.
        image: Image of every replica. Empty: Trireme's.
        job: Further fields of the training job, an object; ``trireme job schema`` lists them.
        evaluation: The program of ``evaluate``; the repository is checked for it before training.
        more: ``start``, where the program may start from.
    """
    return tracked(
        trainings.train(
            framework=framework,
            entrypoint=entrypoint,
            args=_list(args),
            workers=workers,
            parameter_servers=parameter_servers,
            processes_per_worker=processes_per_worker,
            seed=seed,
            time_limit=time_limit,
            image=image,
            budget=budget,
            job=_object(job),
            evaluation=_object(evaluation),
            code=_path(code),
            data=_path(data),
            run=RUN,
            workspace=WORKSPACE_PATH,
            **more,
        )
    )


def evaluate(
    model: Any,
    code: Any,
    data: Any,
    *,
    image: Any = PYTORCH,
    entrypoint: Any = ENTRYPOINT,
    model_factory: Any = "",
    model_name: Any = "classifier",
    min_accuracy: Any = MIN_ACCURACY,
    gate: Any = None,
    evaluation: Any = None,
) -> Task:
    """Adds the step that measures a model, also against the champion, and decides about it.

    Args:
        model: The task of ``train``, or the path of a model in the workspace.
        code: As for ``train``.
        data: As for ``train``.
        image: Image of the step, with the framework.
        entrypoint: As for ``train``.
        model_factory: PyTorch: module:callable that builds the network, needed for bare weights.
        model_name: The registered model whose champion it is compared with.
        min_accuracy: The lowest held-out accuracy at which a classifier passes, 0 to 1.
        gate: Further thresholds and the conditions for becoming the champion, an object.
        evaluation: Your own evaluation program in the repository, an object.
    """
    task = evaluations.evaluate(
        min_accuracy=min_accuracy,
        gate=_object(gate),
        evaluation=_object(evaluation),
        **_of_a_model(model, code, data, entrypoint, model_factory, model_name),
    )
    return tracked(_in(task, image))


def good_enough(evaluated: Task) -> dsl.If:
    """Returns what the steps are in that are for a model which ``evaluate`` has let pass."""
    return dsl.If(evaluated.outputs["passed"] == True, name="good-enough")  # noqa: E712


def export(
    evaluated: Task,
    model: Any,
    code: Any,
    data: Any,
    *,
    image: Any = PYTORCH,
    entrypoint: Any = ENTRYPOINT,
    model_factory: Any = "",
    model_name: Any = "classifier",
) -> Task:
    """Adds the step that exports a model, compares what it wrote with it, and registers it.

    Args:
        evaluated: The task of ``evaluate``, which decides whether the model becomes the champion.
        model: As for ``evaluate``, like the inputs below.
        code: The code.
        data: The data.
        image: Image of the step.
        entrypoint: The training program.
        model_factory: module:callable that builds the network.
        model_name: The registered model that gets the new version.
    """
    task = exports.export(
        promote=evaluated.outputs["promote"],
        champion=evaluated.outputs["champion"],
        **_of_a_model(model, code, data, entrypoint, model_factory, model_name),
    )
    return tracked(_in(task, image))


def deploy(kind: Any, model_name: Any = "classifier", image: Any = PYTORCH) -> Task:
    """Adds the step that deploys the champion to the cluster, in the run's namespace.

    Args:
        kind: deployment (with a Service), or kserve.
        model_name: The registered model.
        image: For a Deployment: image with MLflow and the model's packages.
    """
    return tracked(
        deployments.deploy(kind=kind, model_name=model_name, image=image, workspace=WORKSPACE_PATH)
    )


def compare(**inputs: Any) -> Task:
    """Adds the step that finds out whether there is something new to train on.

    Args:
        inputs: Those of ``components/retraining/component.py``, but for images and workspace.
    """
    return tracked(retrainings.compare(images=IMAGES, workspace=WORKSPACE_PATH, **inputs))


def plan_trials(
    grid: Any,
    trials: Any,
    framework: Any,
    entrypoint: Any,
    search: Any = "grid",
    n_trials: Any = 0,
    early_stopping: Any = None,
    at_once: int = 4,
) -> Task:
    """Adds the step that lists the trainings of a sweep, as ``trial`` takes them.

    Args:
        grid: Lists of values and, for search random and tpe, ranges by name.
        trials: Further trainings, a list of objects.
        framework: As for ``train``.
        entrypoint: As for ``train``.
        search: grid, which tries all combinations, random, or tpe.
        n_trials: How many random and tpe try.
        early_stopping: Which trainings end early, an object with metric, goal and pruner. Empty:
            none.
        at_once: How many steps share them on a cluster: the ``parallelism`` of the loop.
    """
    return tracked(
        sweeps.plan(
            grid=grid,
            trials=trials,
            framework=framework,
            entrypoint=entrypoint,
            images=IMAGES,
            workspace=WORKSPACE_PATH,
            search=search,
            n_trials=n_trials,
            early_stopping=_object(early_stopping),
            at_once=at_once,
        )
    )


def trial(one: Any, code: Any, data: Any, **inputs: Any) -> Task:
    """Adds a training of a sweep, or on a cluster a share, in the loop over ``plan_trials`` output.

    Args:
        one: The loop's item.
        code: As for ``train``.
        data: As for ``train``.
        inputs: Those of ``components/sweep/component.py`` besides.
    """
    return tracked(
        sweeps.trial(
            trial=one,
            code=_path(code),
            data=_path(data),
            run=RUN,
            workspace=WORKSPACE_PATH,
            **inputs,
        )
    )


def choose(tried: Any) -> Task:
    """Adds the step that chooses the best of all trials."""
    return tracked(sweeps.choose(tried=dsl.Collected(tried.output), workspace=WORKSPACE_PATH))


def _in(step: Task, image: Any) -> Task:
    # kfp looks at the whole stack when an image is set.
    return step if image is PYTORCH else step.set_container_image(image)


def tracked(step: Task) -> Task:
    """Has a step run in every run, and see the price table and what leads to MLflow.

    Args:
        step: A step of Trireme's or of one's own.
    """
    component = step.component_spec.name
    if step.name != component and component not in NAMED:  # it shares that with another
        step.set_env_variable(STEP, step.name)
    # What it leaves is in the workspace of its run, where no other run would find it.
    step.set_caching_options(enable_caching=False)
    kubernetes.use_config_map_as_volume(
        step, config_map_name=table.CONFIG_MAP, mount_path=str(table.MOUNT), optional=True
    )
    kubernetes.use_secret_as_volume(
        step, secret_name=SECRET, mount_path=str(on_kubeflow.MOUNT), optional=True
    )
    return step


def _of_a_model(
    model: Any, code: Any, data: Any, entrypoint: Any, model_factory: Any, model_name: Any
) -> dict[str, Any]:
    return {
        "model": _path(model, "model"),
        "data": _path(data),
        "code": _path(code),
        "entrypoint": entrypoint,
        "model_factory": model_factory,
        "model_name": model_name,
        "workspace": WORKSPACE_PATH,
    }


def _use_secret(step: Task, purpose: str, name: Any) -> None:
    mount = str(secrets.MOUNTS / purpose)
    kubernetes.use_secret_as_volume(step, secret_name=name, mount_path=mount, optional=True)


def _path(where: Any, name: str = "path") -> Any:
    """Returns a path: that which a task has as its output of a name or, if it is alone, any."""
    if not isinstance(where, _TASK):
        return where
    outputs = where.outputs
    return outputs[name] if name in outputs else where.output  # noqa: SIM401 - it may have none


def _object(value: Any) -> Any:
    return {} if value is None else value


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
