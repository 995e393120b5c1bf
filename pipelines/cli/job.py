"""The command line of training jobs without a pipeline: ``trireme job``."""

import json
import os
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.components.errors import InputError, JobFailed, TriremeError
from trireme.components.plain import plain
from trireme.components.say import say
from trireme.pipelines.cli import tensorboard
from trireme.pipelines.cli.target import Env, SecretEnv, Workspace, variables
from trireme.pipelines.tables import age, lines, table, watch

if TYPE_CHECKING:
    from trireme.components.kubernetes.amounts import Amounts
    from trireme.components.kubernetes.connection import Cluster
    from trireme.components.training.advice.suggestions import Suggestion
    from trireme.components.training.description.job import TrainingJob
    from trireme.components.training.lines import LinePrinter
    from trireme.components.training.usage import Usage

PAUSE = 2.0  # seconds between two looks at what a job uses

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="One training job without a pipeline, on this machine or on a cluster.",
)

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]", help="YAML file of the job; 'trireme job schema' prints its fields."
    ),
]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")]
Local = Annotated[bool, typer.Option("--local", help="Use this machine, not a cluster.")]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace; default: that of the KUBECONFIG.")
]
Context = Annotated[str, typer.Option(help="Context of the KUBECONFIG; default: the current one.")]
Operator = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="training-operator: PyTorchJob, TFJob, MPIJob. trainer: TrainJob (Kubeflow "
        "Trainer). auto: the first that the cluster has. Default: the job's field operator, "
        "or auto.",
    ),
]


@app.command()
def submit(
    file: File = None,
    name: Annotated[str, typer.Option(help="Name of the job.")] = "",
    framework: Annotated[
        str, typer.Option(help="pytorch, tensorflow, mpi, jax, xgboost or custom.")
    ] = "",
    image: Annotated[str, typer.Option(help="Container image.")] = "",
    entrypoint: Annotated[str, typer.Option(help="Training program, a .py file.")] = "",
    command: Annotated[str, typer.Option(help="Command, instead of an entrypoint.")] = "",
    args: Annotated[
        str, typer.Option(metavar="WORDS", help="Its arguments, such as --args '--epochs 3'.")
    ] = "",
    workers: Annotated[int | None, typer.Option(help="Replicas of the role worker.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs of each replica.")] = None,
    env: Env = None,
    secret_env: SecretEnv = None,
    local: Local = False,
    isolated: Annotated[
        bool,
        typer.Option(
            "--isolated", help="With --local: give each replica its own network (as root)."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the job and show its manifest; create nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the job until it ends; Ctrl-C deletes it.")
    ] = False,
    queued_limit: Annotated[
        int | None, typer.Option(help="With --wait: seconds that the job may be queued.")
    ] = None,
    starting_limit: Annotated[
        int | None, typer.Option(help="With --wait: seconds that its pods may take to start.")
    ] = None,
    operator: Operator = "",
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Run a training job on a cluster or, with --local, on this machine."""
    limits_given = {
        "--queued-limit": queued_limit is not None,
        "--starting-limit": starting_limit is not None,
    }
    if local:
        _refuse(limits_given, "needs --wait on a cluster, not --local")
        _refuse_a_place(namespace, context)
        _refuse({"--operator": operator}, "is for clusters, not for --local")
    else:
        _refuse({"--isolated": isolated}, "goes with --local")
        if not wait:
            _refuse(limits_given, "goes with --wait")
    job = described(
        file,
        workspace,
        name=name,
        framework=framework,
        image=image,
        entrypoint=entrypoint,
        command=_words("--command", command),
        args=_words("--args", args),
        workers=workers,
        gpu=gpus,
        **variables(env, secret_env),
        queued_limit=queued_limit,
        starting_limit=starting_limit,
        operator=operator,
    )
    if local:
        _run_here(job, isolated, dry_run)
        return

    from trireme.components.training.cluster import admission, checks, launcher, reasons, submission
    from trireme.components.training.cluster.follower import Limits
    from trireme.components.training.cluster.operators import operator_of
    from trireme.components.training.cluster.status import State, status_of
    from trireme.components.training.cluster.trainer_status import TrainerStatus
    from trireme.components.training.manifests import render, to_yaml
    from trireme.components.training.manifests.notes import notes
    from trireme.components.training.manifests.references import references
    from trireme.components.training.preflight import report, wrapping
    from trireme.components.training.progress import Meter

    cluster = connect(namespace, context, stays=wait)
    manifest = render(_at_one_commit(job), operator_of(cluster, job))
    if dry_run or submission.find(cluster, manifest) is None:  # what there is goes on as it is
        checks.require_references(cluster, *references(manifest))
    if dry_run:
        admission.check(cluster, manifest, cluster.namespace)
        typer.echo(to_yaml(manifest), nl=False)
        return
    gang = reasons.gang_unavailable(cluster, manifest)
    for note in [*notes(job, manifest, followed=wait), *([gang] if gang else [])]:
        typer.echo(f"note: {note}", err=True)
    prepare = wrapping.wrapper(job)
    if wait:
        limits = Limits(job.queued_limit, job.starting_limit)
        printer, meter = _lines(), Meter(f"{job.deciding_role}-0")
        status = TrainerStatus(cluster, manifest)

        def show(replica: str, line: str) -> None:
            printer(replica, line)
            meter(replica, line)

        launcher.launch(
            manifest,
            cluster,
            limits=limits,
            on_line=show,
            on_state=say,
            on_tick=lambda: status.tell(meter.progress),
            prepare=prepare,
            preflight=report.Report(),
        )
        status.succeed()
        say(f"{manifest['kind']} {job.name} succeeded")
        return
    state = status_of(submission.submit(cluster, manifest, prepare)).state
    before = " and has succeeded already" if state is State.SUCCEEDED else ""
    typer.echo(
        f"{manifest['kind']} {job.name} is in namespace {cluster.namespace}{before}; "
        f"follow it with: trireme job logs -f {job.name} --namespace {cluster.namespace}"
    )


@app.command()
def preflight(
    file: File = None,
    name: Annotated[str, typer.Option(help="Name of the job.")] = "",
    local: Local = False,
    isolated: Annotated[
        bool,
        typer.Option(
            "--isolated", help="With --local: give each replica its own network (as root)."
        ),
    ] = False,
    operator: Operator = "",
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Test whether the replicas of a job reach each other, how fast, their disks and versions."""
    from trireme.components.training.preflight import alone
    from trireme.pipelines.cli.preflight import show

    if local:
        _refuse_a_place(namespace, context)
        _refuse({"--operator": operator}, "is for clusters, not for --local")
    else:
        _refuse({"--isolated": isolated}, "goes with --local")
    job = alone.described(described(file, workspace, name=name, operator=operator))
    if local:
        from trireme.components.training.local import jobs

        jobs.check(jobs_home(), job)
        directory = jobs.make_directory(jobs_home(), job.name)
        try:
            show(alone.run_here(job, directory, _lines(), isolated=isolated))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return

    from trireme.components.training import manifests
    from trireme.components.training.cluster import checks
    from trireme.components.training.cluster.operators import operator_of
    from trireme.components.training.manifests.references import references

    cluster = connect(namespace, context, stays=True)
    manifest = manifests.render(_at_one_commit(job), operator_of(cluster, job))
    checks.require_references(cluster, *references(manifest))
    show(alone.run_there(job, manifest, cluster, _lines(), say))


@app.command()
def render(file: File = None, operator: Operator = "", workspace: Workspace = "") -> None:
    """Show the manifest of a job, for kubectl or a repository; no cluster is asked."""
    from trireme.components.training import manifests

    job = described(file, workspace, operator=operator)
    manifest = manifests.render(job, manifests.default_operator(job))
    typer.echo(manifests.to_yaml(manifest), nl=False)


@app.command()
def schema() -> None:
    """Show the JSON schema of a job's YAML, with which editors complete it."""
    from trireme.components.training.description.job import TrainingJob

    typer.echo(json.dumps(TrainingJob.model_json_schema(), indent=2))


@app.command(name="list")
def list_jobs(
    local: Local = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """List the jobs there are."""
    jobs, place = _jobs(local, namespace, context)
    if local:
        rows = [
            [job.name, job.kind, job.state, len(job.replicas), age(job.started), job.reason]
            for job in jobs.all_jobs(place)
        ]
    else:
        rows = [
            [
                *(row.name, row.kind, row.state, f"{row.running}/{row.replicas}"),
                *(age(time.time() - row.age), row.reason),
            ]
            for row in jobs.list_jobs(place)
        ]
    table(["NAME", "KIND", "STATE", "REPLICAS", "AGE", "REASON"], rows)
    if not rows and not local:
        from trireme.components.kubernetes import access

        access.check_namespace(place)
        typer.echo(f"no jobs in namespace {place.namespace}", err=True)


@app.command()
def status(
    name: JobName,
    local: Local = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Show a job, its replicas, and the reasons for their states."""
    jobs, place = _jobs(local, namespace, context)
    if local:
        job = jobs.find(place, name)
        typer.echo(f"{job.kind} {job.name}: {job.state}, {job.seconds:.0f} s")
        if job.reason:
            typer.echo(plain(job.reason))
        if job.progress:
            typer.echo(f"progress: {job.progress}")
        typer.echo(f"replicas: {', '.join(job.replicas) or 'none yet'}")
        typer.echo(str(job.directory))
        return
    details = jobs.status(place, name)
    row = details.row
    typer.echo(f"{row.kind} {row.name}: {row.state}, {row.running} of {row.replicas} running")
    if row.reason:
        typer.echo(plain(row.reason))
    if details.progress:
        typer.echo(f"progress: {details.progress}")
    table(
        ["REPLICA", "STATE", "RESTARTS", "NODE", "POD", "REASON"],
        [
            [one.name, one.state, one.restarts, one.node, one.pod, one.reason]
            for one in details.replicas
        ],
    )
    table(
        ["CONDITION", "STATUS", "REASON", "MESSAGE"],
        [
            [one.get(key, "") for key in ("type", "status", "reason", "message")]
            for one in details.conditions
        ],
    )
    table(
        ["TIME", "REASON", "EVENT"],
        [[one["time"], one["reason"], one["message"]] for one in details.events],
    )


@app.command()
def logs(
    name: JobName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow until the job ends.")
    ] = False,
    replica: Annotated[str, typer.Option(help="Only this replica, such as worker-0.")] = "",
    local: Local = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Show the output of a job's replicas, each line with its replica."""
    lines = _lines(needs_reader=True)
    jobs, place = _jobs(local, namespace, context, stays=follow)
    with suppress(BrokenPipeError):
        jobs.logs(place, name, follow=follow, replica=replica, on_line=lines)


@app.command()
def top(
    name: JobName,
    local: Local = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Show what each replica of a running job uses; at a terminal, until Ctrl-C."""
    from trireme.components.signals import Interrupted, from_a_terminal, handled, interrupt

    jobs, place = _jobs(local, namespace, context)
    try:
        with handled(interrupt, from_a_terminal()):
            watch(lambda: _used(jobs.usage(place, name), "PID" if local else "NODE"), PAUSE)
    except Interrupted as interruption:  # the job goes on
        raise typer.Exit(128 + interruption.number) from None


def _used(replicas: "list[Usage]", place: str) -> list[str]:
    """Returns the lines of a table of what replicas use, and of GPUs where there are any."""
    asked = ["GPUS"] if any(replica.gpus for replica in replicas) else []
    busy = ["GPU USE"] if any(replica.gpu for replica in replicas) else []
    rows = [
        [
            *(replica.name, replica.state),
            *("-" if replica.cpu is None else f"{replica.cpu:.2f}",),
            *(amount(asked_for, "cpu") for asked_for in (replica.requests, replica.limits)),
            *("-" if replica.memory is None else f"{replica.memory / 2**30:.2f}Gi",),
            *(amount(asked_for, "memory") for asked_for in (replica.requests, replica.limits)),
            *(replica.gpus for _ in asked),
            *(replica.gpu or "-" for _ in busy),
            replica.place or "-",
        ]
        for replica in replicas
    ]
    amounts = ["CPU", "REQUEST", "LIMIT", "MEMORY", "REQUEST", "LIMIT"]
    return lines(["REPLICA", "STATE", *amounts, *asked, *busy, place], rows)


def amount(amounts: "Amounts", resource: str) -> str:
    """Returns what was asked for of a resource, as a person writes it."""
    from trireme.components.kubernetes.amounts import shown

    return shown(resource, amounts[resource]) if resource in amounts else "-"


@app.command(name="tensorboard")
def open_tensorboard(
    name: JobName,
    port: tensorboard.Port = None,
    local: Local = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Open TensorBoard with what a job's program has written for it."""
    jobs, place = _jobs(local, namespace, context)
    tensorboard.show(f"job {name}", lambda folder: jobs.event_files(place, name, folder), port)


@app.command(name="exec")
def exec_in_replica(
    name: JobName,
    replica: Annotated[str, typer.Argument(metavar="REPLICA", help="As in worker-0.")],
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="What runs in its container.")
    ],
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Run a command in a running replica on a cluster, by kubectl; 'bash' opens a shell."""
    from trireme.components.kubernetes.kubectl import exec_in
    from trireme.components.training.cluster import jobs

    cluster = connect(namespace, context)
    pod, container = jobs.running_replica(cluster, name, replica)
    words = exec_in(cluster, pod, container, command, "-it" if sys.stdin.isatty() else "-i")
    try:
        os.execvp(words[0], words)
    except FileNotFoundError:
        raise InputError(f"kubectl is not installed, which does it: {shlex.join(words)}") from None


@app.command()
def scale(
    name: JobName,
    workers: Annotated[int, typer.Argument(metavar="WORKERS", help="From elastic's min to max.")],
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Change the number of workers of an elastic job that runs on a cluster."""
    from trireme.components.training.cluster import jobs

    jobs.scale(connect(namespace, context), name, workers)
    typer.echo(f"{name} gets {workers} workers")


@app.command()
def cancel(
    name: JobName,
    local: Local = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Stop a job and keep its record."""
    jobs, place = _jobs(local, namespace, context)
    jobs.cancel(place, name)
    typer.echo(f"{name} cancelled")


@app.command()
def delete(
    name: JobName,
    local: Local = False,
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Delete a job and its records; stop it first if it runs."""
    jobs, place = _jobs(local, namespace, context)
    jobs.delete(place, name)
    typer.echo(f"{name} deleted")


def described(file: Path | None, workspace: str = "", **flags: Any) -> "TrainingJob":
    """Returns the job of a file and flags, which win, and of what a workspace says of all jobs."""
    from trireme.components.training.description import reading
    from trireme.components.training.description.job import TrainingJob
    from trireme.pipelines import saved

    given = {field: value for field, value in flags.items() if value not in (None, "", [], {})}
    fields = saved.expanded_job(reading.from_yaml(_read(file) if file else ""))
    of_all = saved.of_all_jobs(workspace) if workspace else {}
    job = TrainingJob.create(**reading.merged(reading.merged(of_all, fields), given))
    if "name" in job.model_fields_set:
        return job
    # Two jobs that nobody named are two jobs.
    return job.model_copy(update={"name": f"{job.name}-{secrets.token_hex(2)}"})


def _read(file: Path) -> str:
    from trireme.components import yaml_text

    if file.suffix == ".py":
        raise InputError(f"{file} is a program, not a job; give it with --entrypoint")
    return yaml_text.text_of(file, str(file))


def _words(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option} {text!r}: cannot be split into words: {error}") from None


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Refuses an option that is given and would change nothing."""
    for option, is_given in options.items():
        if is_given:
            raise InputError(f"{option} {why}")


def _refuse_a_place(namespace: str, context: str) -> None:
    options = {"--namespace (or --workspace)": namespace, "--context (or --workspace)": context}
    _refuse(options, "is for clusters, not for --local")


def _at_one_commit(job: "TrainingJob") -> "TrainingJob":
    """Returns a job whose replicas all check out the same commit, whatever its branch does."""
    from trireme.components.checkout import credentials, git
    from trireme.components.secrets import read

    if not job.code:
        return job
    code = job.code
    # The Secret is the cluster's; this machine may know one of that name, or have its own ways.
    known = read(code.secret, "code", credentials.KEYS)
    try:
        commit = git.resolve(code.url, code.revision, code.secret if known else "")
    except TriremeError as error:
        typer.echo(f"note: each replica resolves code.revision itself: {error}", err=True)
        return job
    return job.model_copy(update={"code": code.model_copy(update={"revision": commit})})


def _run_here(job: "TrainingJob", isolated: bool, dry_run: bool) -> None:
    from trireme.components.training.lines import LivePrinter
    from trireme.components.training.local import jobs
    from trireme.components.training.manifests import to_yaml

    manifest = jobs.check(jobs_home(), job)
    if dry_run:
        typer.echo(to_yaml(manifest), nl=False)
        return
    directory = jobs.make_directory(jobs_home(), job.name)
    typer.echo(f"job {job.name} starts; its files are in {directory}", err=True)
    try:
        with closing(LivePrinter(plain)) as printer:
            jobs.run(job, directory, printer, isolated, on_advice=_advise)
    except JobFailed:
        typer.echo(f"logs: {directory / 'logs'}", err=True)
        raise
    typer.echo(f"{job.name} succeeded; its files are in {directory}")


def _advise(found: "Sequence[Suggestion]") -> None:
    for suggestion in found:
        typer.echo(f"advice: {suggestion}", err=True)


def jobs_home() -> Path:
    """Returns where the jobs of this machine are."""
    from trireme.components.home import home

    return home() / "jobs"


def _jobs(local: bool, namespace: str, context: str, stays: bool = False) -> tuple[Any, Any]:
    """Returns the module that knows the jobs, here or on a cluster, and the place of the jobs."""
    if local:
        from trireme.components.training.local import jobs as here

        _refuse_a_place(namespace, context)
        return here, jobs_home()
    from trireme.components.training.cluster import jobs as there

    return there, connect(namespace, context, stays)


def connect(namespace: str, context: str, stays: bool = False) -> "Cluster":
    """Returns the cluster, for a command that asks something or that stays until a job ends."""
    from trireme.components.kubernetes.connection import PATIENCE, PATIENCE_OF_A_PERSON, Cluster

    return Cluster(
        namespace,
        context=context or None,
        patience=PATIENCE if stays else PATIENCE_OF_A_PERSON,
        patience_at_first=PATIENCE_OF_A_PERSON,
        on_wait=say,
    )


def _lines(needs_reader: bool = False) -> "LinePrinter":
    from trireme.components.training.lines import LinePrinter

    return LinePrinter(plain, needs_reader=needs_reader)
