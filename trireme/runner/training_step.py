"""Run the training job of a pipeline and keep its result."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from trireme.code import data_link
from trireme.cost import prices
from trireme.errors import Cancelled, InputError, JobFailed
from trireme.files import event_files as events
from trireme.files import event_scalars, left_files
from trireme.files.home import in_a_pod
from trireme.files.whole_file import flush
from trireme.job.job import TrainingJob
from trireme.manifests import render, to_yaml
from trireme.observers import goodput, timeline
from trireme.observers.advice import at_end
from trireme.observers.advice.at_end import Advice
from trireme.observers.base import Findings, Observer, Observers, installed_observers
from trireme.observers.curves import Curves
from trireme.observers.dataset import Unchanged
from trireme.observers.goodput import kept
from trireme.observers.goodput.ledger import Ledger
from trireme.observers.goodput.ledger import metrics as as_metrics
from trireme.observers.goodput.observer import Goodput
from trireme.observers.hangs import Hangs
from trireme.observers.preflight import report
from trireme.observers.printing import LastWord, Logs, Printing
from trireme.observers.progress import Meter
from trireme.observers.timeline import Timeline
from trireme.runner.bill import Bill
from trireme.runner.inputs import TAG, inputs_of
from trireme.runner.job_of_run import AS_THE_PROGRAM
from trireme.runner.lines import LivePrinter
from trireme.text.say import say
from trireme.tracking import arguments, journal, unsent_metrics


class Trained(NamedTuple):
    """The directories that a training job left: its MODEL_DIR, complete, and its checkpoints."""

    model: str
    checkpoints: str


def say_size(job: TrainingJob, workers: int) -> None:
    """Says how a program becomes several processes that nobody has asked for."""
    if workers == AS_THE_PROGRAM and job.world_size == 1:
        say("one process trains; a program that is distributed takes -p workers=N", sys.stdout)


def train(
    job: TrainingJob,
    workspace: Path,
    passthrough: dict[str, Any] | None = None,
    evaluation: str = "",
    budget: float = 0.0,
    *,
    is_whole_run: bool = True,
    observers: Sequence[Observer] = (),
) -> Trained:
    """Runs a job to its end, here or on the cluster that this is a pod of.

    Its model appears whole or not at all.

    Args:
        passthrough: On a cluster: the pipeline task's settings for the job's pods, see
            ``trireme.runner.cluster.passthrough.pass_through``.
        evaluation: The program that evaluates the model later, to check that it exists.
        budget: The most that the job may cost, in the price table's currency; 0 for no limit.
        is_whole_run: Whether this is the only training of its run.
        observers: Who looks at it besides; one of them may end it early.

    Raises:
        InputError: One of the programs is not in the repository, or the budget is no limit.
    """
    for name, program in (("entrypoint", job.entrypoint), ("evaluation.entrypoint", evaluation)):
        if program and not Path(job.code_dir, program).is_file():
            raise InputError(
                f"{name} {program!r} does not exist in the repository that was checked out"
            )
    if job.data_at:
        code = Path(job.code_dir)
        places = (place / "code" for place in (workspace, *workspace.parents))  # a trial's is below
        repository = next(filter(code.is_relative_to, places), code)
        data_link.link(code, job.data_at, job.data_dir, repository)
    logs = workspace / "steps" / "train"
    logs.mkdir(parents=True, exist_ok=True)
    _record(job, logs)
    journal.log_unsent(Path(job.checkpoint_dir) / unsent_metrics.NAME)
    if is_whole_run:
        journal.log_run_params(arguments.one_by_one(job.args))
        journal.log_tags({"image": _image(job), TAG: inputs_of(job)})
    bill = Bill(budget, prices.read())
    model = workspace / "model"
    last, run_job = LastWord(job.leader), _train_on_cluster if in_a_pod() else _train_locally
    curves, has_time = Curves(job.leader, journal.log_points), False
    try:
        with contextlib.closing(LivePrinter()) as printer:
            printing = Printing(printer, lambda sentence: say(sentence, sys.stdout))
            dataset = Unchanged(Path(job.data_dir))
            more = [printing, last, curves, dataset, *observers, *installed_observers(job)]
            seconds = run_job(job, logs, more, bill, passthrough or {})
    except JobFailed as error:
        bill.charge(error.replica_seconds)
        has_time = not isinstance(error, Cancelled)
        failure = bill.explained(error)
        if advice := data_link.advice(str(failure), Path(job.data_dir)):
            failure.args = (f"{failure}; {advice}", *failure.args[1:])
        raise failure from None
    else:
        bill.charge(seconds)
        not_kept = _keep(Path(job.model_dir), model)
        has_time = True
    finally:
        _record_goodput_of_all()
        if is_whole_run and curves.last:
            last_of = {f"{journal.OF_TRAINING}{name}": value for name, value in curves.last.items()}
            journal.log_total(last_of)
        checkpoints = Path(job.checkpoint_dir)
        folders = [checkpoints / events.OF_CHECKPOINTS, checkpoints, Path(job.model_dir), model]
        # Trainings of a sweep share this one.
        folders += [Path(job.code_dir)] if is_whole_run else []
        files = events.found(folders, journal.began(workspace))
        for path, file in files.items():
            journal.log_artifact(file, str(PurePosixPath(journal.EVENTS, path.parent)))
        if files and has_time:
            _record_scalars(files, curves.last)
    if is_whole_run:
        journal.log_artifact(model, journal.MODEL)
    journal.summarize("; ".join(filter(None, [last.line, not_kept])))
    return Trained(str(model), job.checkpoint_dir)


def _train_locally(
    job: TrainingJob,
    logs: Path,
    more: Sequence[Observer],
    bill: Bill,
    passthrough: dict[str, Any],
) -> Mapping[str, float]:
    from trireme.runner.local import installed, runner, usage

    installed.check(job)
    _set_logs_aside(job, logs)
    _make_room(job)
    manifest = render(job)
    bill.open(manifest)
    (logs / "job.yaml").write_text(to_yaml(manifest))
    about = at_end.about(job, manifest, place="job.", has_gpu=usage.has_gpu(), cores=usage.cores())
    hangs = Hangs()
    ledger = Goodput(
        logs / goodput.NAME, job.leader, manifest, hangs, checkpoints=Path(job.checkpoint_dir)
    )
    own = [
        *more,
        Meter(job.leader, journal.log_progress, ledger.count),
        hangs,
        Timeline(logs / timeline.NAME),
        ledger,
        # The end of the run says it.
        Advice(about, logs, usage.idle, says=False),
    ]
    return runner.run(manifest, logs, Observers(own, _record_findings))


def _train_on_cluster(
    job: TrainingJob,
    logs: Path,
    more: Sequence[Observer],
    bill: Bill,
    passthrough: dict[str, Any],
) -> Mapping[str, float]:
    from trireme.kubernetes.connection import Cluster
    from trireme.kubernetes.owner import owners
    from trireme.observers.preflight.observer import Preflight
    from trireme.observers.trainer_status import TrainerStatus
    from trireme.runner.cluster import runner, submission
    from trireme.runner.cluster.follower import Limits
    from trireme.runner.cluster.operators import manifest_of
    from trireme.runner.cluster.passthrough import pass_through, with_gpus

    cluster, job = Cluster(), with_gpus(job, passthrough)
    manifest = manifest_of(cluster, job)
    pass_through(manifest, passthrough)
    bill.open(manifest)
    manifest["metadata"]["ownerReferences"] = owners(cluster)
    (logs / "job.yaml").write_text(to_yaml(manifest))
    if submission.remove_replaced(cluster, manifest):
        for file in _logs(job, logs):
            file.unlink(missing_ok=True)  # of an earlier attempt, whose lines come again
    else:
        _set_logs_aside(job, logs)
        _make_room(job)
        for directory in (job.model_dir, job.checkpoint_dir):
            # The job's image may run as another user than this step.
            Path(directory).chmod(0o777)
    hangs, preflight = Hangs(), Preflight(job, logs / report.NAME)
    ledger = Goodput(
        logs / goodput.NAME,
        job.leader,
        manifest,
        hangs,
        checkpoints=Path(job.checkpoint_dir),
        preflight=preflight,
    )
    meter = Meter(job.leader, journal.log_progress, ledger.count)
    own = [
        *more,
        Logs(logs),
        meter,
        TrainerStatus(cluster, manifest, meter),
        preflight,
        hangs,
        Timeline(logs / timeline.NAME),
        ledger,
        Advice(at_end.about(job, manifest, place="job."), logs),
    ]
    limits = Limits(job.queued_limit, job.starting_limit)
    return runner.launch(manifest, cluster, limits, Observers(own, _record_findings))


def _record_findings(findings: Findings) -> None:
    """Keeps what observers have found, and says it where a person looks first: the step's log."""
    if findings.metrics:
        journal.log_metrics(dict(findings.metrics))
    if findings.tags:
        journal.log_tags(dict(findings.tags))
    for sentence in findings.words:
        say(sentence, sys.stdout)


def _record_goodput_of_all() -> None:
    """Records what the time of all trainings of the run has gone to so far.

    Their files tell it, which cost less to read than journals with curves, and raise nothing.
    """
    workspace = journal.workspace()
    if ledgers := kept.read_all(workspace) if workspace else []:
        journal.log_total(as_metrics(sum(ledgers, Ledger())))


def _record_scalars(files: Mapping[Path, Path], printed: Collection[str]) -> None:
    """Records what event files have got, but for the metrics that are known from what is printed.

    So a name has the values of one of them.
    """
    if not event_scalars.can_be_read():
        many = f"{len(files)} event files are" if len(files) > 1 else "1 event file is"
        say(f"{many} kept without curves, as tensorboard is not installed here", sys.stdout)
        return
    scalars = event_scalars.read(files)
    if new := {name: points for name, points in scalars.items() if name not in printed}:
        journal.log_points(new)


def _logs(job: TrainingJob, logs: Path) -> list[Path]:
    return [
        logs / f"{role}-{index}.log"
        for role, count in job.replica_counts.items()
        for index in range(count)
    ]


def _set_logs_aside(job: TrainingJob, logs: Path) -> None:
    """Renames the logs of an attempt before this one, and has the run keep those of all."""
    for file in _logs(job, logs):
        before = len([*logs.glob(f"{file.stem}.*.log")])
        if file.exists():
            before += 1
            file.rename(file.with_name(f"{file.stem}.{before}.log"))
        for number in range(1, before + 1):
            journal.log_artifact(file.with_name(f"{file.stem}.{number}.log"), "logs")


def _make_room(job: TrainingJob) -> None:
    """Makes the directories that the program writes to, its result's empty."""
    left = Path(job.model_dir)
    if left.exists():
        # Removing may fail where another user has written; moving away does not.
        aside = left.with_name(f"{left.name}.{time.time_ns()}")
        left.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    for directory in (job.model_dir, job.checkpoint_dir):
        Path(directory).mkdir(parents=True, exist_ok=True)


def _keep(left: Path, model: Path) -> str:
    """Makes what a successful program left the run's model; returns what of it is not kept."""
    if not os.path.lexists(left):
        if model.exists():
            return ""  # an earlier attempt of this step has done it
        raise JobFailed("the program removed its MODEL_DIR, so there is no model")
    not_kept = left_files.tidy(left, "MODEL_DIR")
    shutil.rmtree(model, ignore_errors=True)
    flush(left)  # before anything says that training is done
    left.rename(model)
    fix_links(model, left)
    return not_kept


def fix_links(model: Path, before: Path) -> None:
    """Points links inside MODEL_DIR to where it is now, and removes broken ones."""
    for link in model.rglob("*"):
        if not link.is_symlink():
            continue
        target = Path(os.path.normpath(link.parent / link.readlink()))
        if target.is_relative_to(before):
            link.unlink()
            link.symlink_to(model / target.relative_to(before))
        if not link.exists():
            link.unlink()


def params_of(job: TrainingJob) -> dict[str, Any]:
    """Returns what a training's MLflow run says of its job."""
    names = {"framework", "entrypoint", "args", "processes_per_worker"}
    counts = {f"{role}_replicas": replica.count for role, replica in job.roles.items()}
    about = {"world_size": job.world_size, "image": _image(job)}
    # MLflow would keep None as the text of it, which reproduce takes for a program.
    program: dict[str, Any] = {"entrypoint": job.entrypoint or ""}
    program |= {"command": job.command} if job.command else {}
    program |= {"module": job.module} if job.module else {}
    one_by_one = arguments.one_by_one(job.args)
    return job.model_dump(include=names) | program | counts | about | one_by_one


def _image(job: TrainingJob) -> str:
    return str(next(iter(job.roles.values())).image)


def _record(job: TrainingJob, logs: Path) -> None:
    journal.log_params(params_of(job))
    journal.log_artifact(logs / "job.yaml")
    journal.log_artifact(logs / timeline.NAME)
    journal.log_artifact(logs / goodput.NAME)
    journal.log_artifact(logs / report.NAME)
    if job.packages:
        journal.log_artifact(Path(job.packages) / journal.PACKAGES)
    for file in _logs(job, logs):
        journal.log_artifact(file, "logs")
