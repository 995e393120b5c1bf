"""The training job that the parameters of a pipeline describe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from trireme.code import builtin
from trireme.data import base_model
from trireme.errors import InputError
from trireme.frameworks import FRAMEWORKS
from trireme.frameworks.base import literal
from trireme.job import names
from trireme.job.job import TrainingJob
from trireme.job.reading import merged
from trireme.packages import use
from trireme.runner.inputs import BASE_MODEL, WARM_START
from trireme.text.json_values import whole, words
from trireme.tracking import environment

RESERVED = (
    "name",
    "framework",
    "code",
    "code_dir",
    "dataset",
    "data_dir",
    "checkpoint_dir",
    "model_dir",
    "packages",
)
"""Fields of the description that a pipeline fills in itself."""

AS_THE_PROGRAM = -1
"""Given as workers: as many as the reference programs of the framework are shown with; any other
program is one process."""


@dataclass(frozen=True, kw_only=True)
class JobParameters:
    """The parameters of a pipeline that describe its training job, each by its name there.

    Args:
        entrypoint: Relative to the repository; empty for Trireme's reference program.
        args: Arguments of the program; numbers become words.
        workers: Replicas besides the master or chief; or ``AS_THE_PROGRAM``.
        time_limit: Seconds; 0 for no limit.
        job: Further fields of the description; none of ``RESERVED``.
    """

    framework: str
    entrypoint: str = ""
    args: Sequence[Any] = ()
    workers: int = AS_THE_PROGRAM
    parameter_servers: int = 0
    processes_per_worker: int = 1
    seed: int = 0
    time_limit: int = 0
    image: str = ""
    job: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuses what no job can have."""
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed {self.seed}: must be between 0 and 4294967295")
        if self.time_limit < 0:
            raise InputError(f"time_limit {self.time_limit}: must be seconds, or 0 for no limit")
        if self.parameter_servers < 0:
            raise InputError(f"parameter_servers {self.parameter_servers}: must not be negative")
        for name in RESERVED:
            if name in self.job:
                raise InputError(f"job.{name}: the pipeline sets this itself")


@dataclass(frozen=True, kw_only=True)
class RunOfJob:
    """The run that a training belongs to.

    Args:
        workspace: The folder that the training writes to.
        code: Path of the repository.
        data: Path of the data.
        run: Id of the run; a step that is started again finds its job by the name made from it.
        trial: Number of the training in a sweep, from 0; None outside of one.
        images: Images to pull in place of Trireme's, by name.
        packages: The folder of the run's packages; empty for none.
        env: Variables that the program gets.
        secret_env: Further ones, by where pods find them: NAME/KEY of a Secret.
    """

    workspace: Path
    code: str
    data: str
    run: str = ""
    trial: int | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    packages: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_step(
        cls, workspace: Path, code: str, data: str, *, start: str = "", **more: Any
    ) -> "RunOfJob":
        """Returns the run of the step that this process is.

        Args:
            start: MODEL_DIR of an earlier training to start from; empty for none.
        """
        folders = {WARM_START: start, BASE_MODEL: base_model.folder(workspace)}
        from trireme.tracking import runs

        env = runs.variables_of_a_program() | {name: at for name, at in folders.items() if at}
        return cls(
            workspace=workspace,
            code=code,
            data=data,
            packages=use.folder(workspace),
            env=env,
            secret_env=environment.credentials(),
            **more,
        )


def job_of(parameters: JobParameters, run: RunOfJob) -> TrainingJob:
    """Describes the training job of a run."""
    parameters.check()
    more = whole(dict(parameters.job))
    program, is_ours = _program(parameters, more)
    # Empty where MLflow has no run of it yet: no program is to open another.
    env = {"SEED": str(parameters.seed), "MLFLOW_RUN_ID": ""} | dict(run.env)
    fields: dict[str, Any] = {
        "name": names.of_run(run.run, run.trial),
        "framework": parameters.framework,
        "image": parameters.image,
        "images": {name: pulled for name, pulled in run.images.items() if name != pulled},
        "code_dir": run.code,
        "entrypoint": program,
        "args": words(parameters.args),
        "workers": _workers(parameters, more, is_ours),
        "processes_per_worker": parameters.processes_per_worker,
        "env": {name: literal(value) for name, value in env.items()},
        "data_dir": run.data,
        "checkpoint_dir": str(run.workspace / "checkpoints"),
        # Half a model is never taken for a whole one: the job writes here, success renames it.
        "model_dir": str(run.workspace / "model.partial"),
        "packages": run.packages or None,
        "time_limit": parameters.time_limit or None,
    }
    if parameters.parameter_servers:
        fields["replicas"] = {"chief": {}, "ps": {"count": parameters.parameter_servers}}
    given_env = more.get("env")
    fields["secret_env"] = {
        name: source
        for name, source in run.secret_env.items()
        if not (isinstance(given_env, dict) and name in given_env)
    }
    job_fields = merged(fields, more)
    replicas = job_fields.get("replicas")
    worker = replicas.get("worker") if isinstance(replicas, dict) else None
    if isinstance(worker, dict) and "count" in worker and "workers" not in more:
        job_fields["workers"] = None  # it says how many there are
    return TrainingJob.of_pipeline(job_fields)


def _program(parameters: JobParameters, more: dict[str, Any]) -> tuple[str | None, bool]:
    """Returns the program of a job, and whether it is a reference program."""
    plugin = FRAMEWORKS.get(parameters.framework)
    program = parameters.entrypoint or (plugin.trainer if plugin else "") or None
    is_ours = PurePosixPath(program or "").is_relative_to(builtin.PLACE)
    if is_ours and not more.keys().isdisjoint(("command", "module")):
        return None, False
    return program, is_ours


def _workers(parameters: JobParameters, more: dict[str, Any], is_ours: bool) -> int | None:
    if parameters.workers != AS_THE_PROGRAM:
        return parameters.workers
    plugin = FRAMEWORKS.get(parameters.framework)
    if is_ours and plugin and "elastic" not in more:
        return plugin.workers_shown
    return 1 if parameters.parameter_servers else None  # these serve somebody
