"""An explanation of a run: what its place tells, its workspace or MLflow has, its job says."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme import progress
from trireme.answers.answer import moment
from trireme.answers.explanations import Evidence, Explanation, Remedy, Tried, Wait
from trireme.answers.jobs import JobProgress, JobStatus, job_progress
from trireme.answers.runs import RunStatus
from trireme.errors import NoSuchJob, TriremeError, first_line
from trireme.explaining import bundle, causes, jobs, training
from trireme.files.home import jobs_home
from trireme.job import names
from trireme.observers import timeline
from trireme.observers.preflight import report as preflight
from trireme.report import of_workspace
from trireme.report.picture import Picture, StepPicture
from trireme.targets import answers, picturing
from trireme.targets.base import NoSuchRun, Run, Target
from trireme.targets.meant import meant
from trireme.tracking import journal

if TYPE_CHECKING:
    from trireme.targets.remote import Remote

HANG = "hang"
"""The tag of a run that says that its training hung."""


def explain(target: Target[Any], name: str) -> Explanation:
    """Returns what is known of a run, or else of a job of that name, at a place."""
    key = meant(target, name)
    try:
        run = target.find(key)
    except NoSuchRun as error:
        try:
            return _job(target, name)
        except TriremeError as other:
            raise NoSuchRun(f"{error}; and {first_line(other)}") from None
    return _run(target, run)


def write_bundle(target: Target[Any], explanation: Explanation, file: Path) -> None:
    """Writes the bundle of what was explained."""
    if explanation.of == "job":
        if target.is_here:
            jobs.bundle_here(explanation, jobs_home(), file)
        else:
            jobs.bundle_there(explanation, target.cluster(), file)
        return
    run = target.find(meant(target, explanation.id or explanation.name))
    steps = run.workspace / "steps" if run.workspace else Path("nowhere")

    def in_steps(name: str) -> dict[str, Path]:
        return {f"{path.parent.name}/{name}": path for path in steps.glob(f"*/{name}")}

    def logs(on_line: bundle.OnLine) -> None:
        target.logs(run.key, "", on_line, follow=False)

    jobs_of_steps = in_steps(of_workspace.JOB).items()
    manifests = {name: of_workspace.manifest(path) for name, path in jobs_of_steps}
    files = in_steps(timeline.NAME) | in_steps(preflight.NAME)
    bundle.write(explanation, file, logs, files, manifests, run.parameters)


def _job(target: Target[Any], name: str) -> Explanation:
    """Returns what is known of a job without a pipeline."""
    if target.is_here:
        return jobs.here(jobs_home(), name)
    return jobs.there(target.cluster(), name)


def _run(target: Target[Any], run: Run) -> Explanation:
    status = answers.run_status(target, run)
    picture, notes = _picture(target, run)
    trained = [step for step in picture.steps.values() if step.replicas or step.preflight]
    job = None if target.is_here else _training_job(target, run, notes)  # type: ignore[arg-type]
    error = target.error(run) if status.has_ended else None
    cause, remedies = None, []
    failed = next(iter(picture.failed), None)
    last_lines = status.last_lines or (failed.last_lines.splitlines() if failed else [])
    if error:
        sentence = failed.error if failed and failed.error else str(error)
        failed_steps = [step.name for step in status.steps if step.state == "FAILED"]
        step = failed.name if failed else next(iter(failed_steps), "")
        cause, rule = causes.cause(sentence, last_lines, step=step, status=error.exit_status)
        remedies.append(Remedy(what=rule.remedy, command=""))
        resume = status.next.get("Resume", "")
        remedies += [Remedy(what="Go on", command=resume)] if resume and rule.goes_on else []
    others = {what: command for what, command in status.next.items() if what != "Resume"}
    remedies += [Remedy(what=what, command=command) for what, command in others.items()]
    if not remedies:
        command = f"trireme logs {run.key} {target.reached_by()}".rstrip()
        remedies.append(Remedy(what="Logs", command=command))
    return Explanation(
        of="run",
        name=run.name,
        id=run.id,
        where=target.name,
        state=run.state,
        has_ended=status.has_ended,
        created=moment(run.created),
        seconds=run.seconds,
        summary=_summary(status, cause.sentence if cause else run.result),
        progress=job.progress if job else _progress(run, status),
        waits=_waits(status, job),
        cause=cause,
        evidence=[*_evidence(picture, trained), *(jobs.of_cluster(job) if job else [])],
        last_lines=last_lines,
        tried=[*_attempts(run), *_tried(trained)],
        advice=[line for step in picture.steps.values() for line in step.advice.splitlines()],
        next=remedies,
        notes=notes,
    )


def _picture(target: Target[Any], run: Run) -> tuple[Picture, list[str]]:
    """Returns what steps have recorded: in the workspace, or where that is elsewhere in MLflow."""
    if run.workspace and run.workspace.is_dir():
        return of_workspace.picture(run.name, run.workspace, run.state), []
    try:
        picture = picturing.picture(target, run.key)
    except TriremeError as error:
        return Picture(run.name, run.created, run.state), [f"its records: {first_line(error)}"]
    return picture, list(picture.notes)


def _training_job(target: "Remote[Any]", run: Run, notes: list[str]) -> JobStatus | None:
    """Returns the training job of a run, which a cluster keeps as long as the run."""
    from trireme.runner.cluster.answers import job_status

    try:
        cluster, owner = target.training_jobs(run)
        return job_status(cluster, names.of_run(owner))
    except NoSuchJob:  # there is none yet, or no more
        return None
    except TriremeError as error:
        notes.append(f"its training job: {first_line(error)}")
        return None


def _progress(run: Run, status: RunStatus) -> JobProgress | None:
    """Returns how far the training is of a run that goes on here."""
    if not run.workspace:
        return None
    files = [
        journal.progress_path(run.workspace, step.name)
        for step in status.steps
        if step.state == "running"
    ]
    return job_progress(next(filter(None, map(progress.read, files)), None))


def _attempts(run: Run) -> list[Tried]:
    """Returns the starts of a run, where it was resumed."""
    began = run.attempts
    if len(began) < 2:
        return []
    resumed = [Tried(what="run", began=moment(start), seconds=None, result="") for start in began]
    return [replace(start, result="it was resumed later") for start in resumed[:-1]] + resumed[-1:]


def _tried(trained: list[StepPicture]) -> list[Tried]:
    many = len(trained) > 1
    lives = {
        f"{step.name}/{name}" if many else name: life
        for step in trained
        for name, life in step.replicas.items()
    }
    return training.tried(lives)


def _waits(status: RunStatus, job: JobStatus | None) -> list[Wait]:
    if status.has_ended:
        return []
    steps = [step for step in status.steps if step.state == "pending" and step.result]
    waits = [Wait(what=step.name, reason=step.result) for step in steps]
    waits += jobs.waits(job) if job else []
    message = status.message if status.state == "pending" else ""
    return waits or ([Wait(what="", reason=message)] if message else [])


def _evidence(picture: Picture, trained: list[StepPicture]) -> list[Evidence]:
    hang = picture.tags.get(HANG, "")
    evidence = [Evidence(what="hang", about="", sentence=hang)] if hang else []
    return evidence + [item for step in trained for item in training.evidence(step)]


def _summary(status: RunStatus, reason: str) -> str:
    at = next((step.name for step in status.steps if step.state == "FAILED"), "")
    summary = f"run {status.name} is {status.state}{f' at {at}' if at else ''}"
    words = f"{summary}, after {status.seconds:.0f} s"
    return f"{words}: {reason}" if reason else words
