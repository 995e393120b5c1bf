"""``trireme job submit``, and what only shows a job: ``render``, ``schema``."""

import json
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli.cluster import Context, Namespace, connect
from trireme.cli.job.description import at_one_commit, described, words_of
from trireme.cli.job.options import File, Isolated, Local, Operator, refuse, refuse_other_places
from trireme.cli.job.places import printer
from trireme.cli.target import Env, SecretEnv, Workspace, variables
from trireme.errors import JobFailed
from trireme.files.home import jobs_home
from trireme.plain import plain
from trireme.text.say import say

if TYPE_CHECKING:
    from trireme.job.job import TrainingJob
    from trireme.kubernetes.connection import Cluster
    from trireme.observers.base import Findings


def submit(
    file: File = None,
    name: Annotated[str, typer.Option(help="Name of the job.")] = "",
    framework: Annotated[
        str, typer.Option(help="Such as pytorch; 'trireme job schema' lists them.")
    ] = "",
    image: Annotated[str, typer.Option(help="Container image.")] = "",
    entrypoint: Annotated[str, typer.Option(help="Training program, a .py file.")] = "",
    command: Annotated[str, typer.Option(help="Command, instead of an entrypoint.")] = "",
    args: Annotated[
        str, typer.Option(metavar="WORDS", help="Its arguments, such as --args '--epochs 3'.")
    ] = "",
    dataset: Annotated[
        str, typer.Option(metavar="URI", help="What is in DATA_DIR, such as builtin://digits.")
    ] = "",
    workers: Annotated[int | None, typer.Option(help="Replicas of the role worker.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs of each replica.")] = None,
    env: Env = None,
    secret_env: SecretEnv = None,
    local: Local = False,
    isolated: Isolated = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the job and show its manifest; create nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="On a cluster: follow it to its end; Ctrl-C deletes it.")
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
        refuse(limits_given, "needs --wait on a cluster, not --local")
    refuse_other_places(local, isolated, operator, namespace, context)
    if not local and not wait:
        refuse(limits_given, "goes with --wait")
    to_cluster = partial(connect, namespace, context, stays=wait)
    job = described(
        file,
        workspace,
        here=local,
        connect=None if local else to_cluster,
        name=name,
        framework=framework,
        image=image,
        entrypoint=entrypoint,
        command=words_of("--command", command),
        args=words_of("--args", args),
        dataset=dataset,
        workers=workers,
        gpu=gpus,
        **variables(env, secret_env),
        queued_limit=queued_limit,
        starting_limit=starting_limit,
        operator=operator,
    )
    if local:
        _run_here(job, isolated, dry_run)
    else:
        _run_there(job, to_cluster(), dry_run, wait)


def _run_here(job: "TrainingJob", isolated: bool, dry_run: bool) -> None:
    from trireme.manifests import to_yaml
    from trireme.observers.printing import Printing
    from trireme.runner.lines import LivePrinter
    from trireme.runner.local import jobs

    manifest = jobs.check(jobs_home(), job)
    if dry_run:
        typer.echo(to_yaml(manifest), nl=False)
        return
    with jobs.make_directory(jobs_home(), job.name) as directory:
        typer.echo(f"job {job.name} starts; its files are in {directory}", err=True)
        try:
            with closing(LivePrinter(plain)) as printer:
                observers = [Printing(printer)]
                jobs.run(job, directory, observers, isolated=isolated, recorder=_say_words)
        except JobFailed:
            typer.echo(f"logs: {directory / 'logs'}", err=True)
            raise
    typer.echo(f"{job.name} succeeded; its files are in {directory}")


def _say_words(findings: "Findings") -> None:
    for words in findings.words:
        say(words)


def _run_there(job: "TrainingJob", cluster: "Cluster", dry_run: bool, wait: bool) -> None:
    from trireme.manifests import to_yaml
    from trireme.manifests.references import references
    from trireme.observers.base import Observers, installed_observers
    from trireme.observers.preflight.observer import Preflight
    from trireme.runner.cluster import admission, checks, reasons, submission
    from trireme.runner.cluster.operators import manifest_of
    from trireme.runner.cluster.status import State, status_of
    from trireme.runner.notes import notes

    manifest = manifest_of(cluster, at_one_commit(job))
    if dry_run or submission.find(cluster, manifest) is None:  # what there is goes on as it is
        checks.require_references(cluster, *references(manifest))
    if dry_run:
        admission.check(cluster, manifest, cluster.namespace)
        typer.echo(to_yaml(manifest), nl=False)
        return
    gang = reasons.gang_unavailable(cluster, manifest)
    for note in [*notes(job, manifest, followed=wait), *([gang] if gang else [])]:
        typer.echo(f"note: {note}", err=True)
    if wait:
        _follow(job, manifest, cluster)
        return
    observers = Observers([*installed_observers(job), Preflight(job)])
    state = status_of(submission.submit(cluster, manifest, observers.prepare)).state
    before = " and has succeeded already" if state is State.SUCCEEDED else ""
    typer.echo(
        f"{manifest['kind']} {job.name} is in namespace {cluster.namespace}{before}; "
        f"follow it with: trireme job logs -f {job.name} --namespace {cluster.namespace}"
    )


def _follow(job: "TrainingJob", manifest: dict[str, Any], cluster: "Cluster") -> None:
    from trireme.observers import goodput, timeline
    from trireme.observers.advice import at_end
    from trireme.observers.base import Observers, installed_observers
    from trireme.observers.goodput.observer import Goodput
    from trireme.observers.hangs import Hangs
    from trireme.observers.preflight.observer import Preflight
    from trireme.observers.printing import Printing
    from trireme.observers.progress import Meter
    from trireme.observers.trainer_status import TrainerStatus
    from trireme.runner.cluster import runner
    from trireme.runner.cluster.follower import Limits

    with tempfile.TemporaryDirectory() as directory:
        logs = Path(directory)
        hangs, preflight = Hangs(), Preflight(job)
        ledger = Goodput(logs / goodput.NAME, job.leader, manifest, hangs, preflight=preflight)
        meter = Meter(job.leader, count=ledger.count)
        observers = [
            Printing(printer(), say),
            *installed_observers(job),
            meter,
            TrainerStatus(cluster, manifest, meter),
            preflight,
            hangs,
            timeline.Timeline(logs / timeline.NAME),
            ledger,
            at_end.Advice(at_end.about(job, manifest), logs),
        ]
        limits = Limits(job.queued_limit, job.starting_limit)
        runner.launch(manifest, cluster, limits, Observers(observers, _say_words))
    say(f"{manifest['kind']} {job.name} succeeded")


def render(file: File = None, operator: Operator = "", workspace: Workspace = "") -> None:
    """Show the manifest of a job, for kubectl or a repository; no cluster is asked."""
    from trireme import manifests

    job = described(file, workspace, operator=operator)
    manifest = manifests.render(job, manifests.default_operator(job))
    typer.echo(manifests.to_yaml(manifest), nl=False)


def schema() -> None:
    """Show the JSON schema of a job's YAML, with which editors complete it."""
    from trireme.job.job import TrainingJob

    typer.echo(json.dumps(TrainingJob.model_json_schema(), indent=2))
