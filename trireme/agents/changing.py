"""Changes that an agent makes in two calls: the first shows what would happen, the second does it.

A proposal can be confirmed once, with the arguments that it was made with.
"""

import secrets
from collections.abc import Sequence

from trireme.agents.calling import CommandFailed, answer, start, text
from trireme.answers.jobs import JobStatus
from trireme.answers.plans import RunPlan
from trireme.answers.proposals import Proposal
from trireme.answers.runs import RunStatus

MOST = 100  # proposals that wait to be confirmed; of more the oldest go

_proposed: dict[str, tuple[str, ...]] = {}


def start_run(words: Sequence[str], confirm: str) -> Proposal:
    """Plans a run of a pipeline, or starts it.

    Args:
        words: The pipeline, its parameters, and where it runs.
    """
    command = ("run", *words, "--no-wait")
    if _is_confirmed(command, confirm):
        run = answer(RunStatus, command)
        return _done(f"run {run.name} is started and goes on by itself", run=run)
    plan = answer(RunPlan, ("plan", *words))
    if plan.failed:
        failed = [finding.sentence for finding in plan.findings if finding.verdict == "failed"]
        raise CommandFailed("\n".join(["it cannot run:", *failed]))
    return _proposal(command, f"a run of {plan.pipeline} on {plan.place} would start", plan=plan)


def cancel_run(run: str, target: Sequence[str], confirm: str) -> Proposal:
    """Shows a run that would be cancelled, or cancels it."""
    now = answer(RunStatus, ("status", run, *target))
    command = ("cancel", _key(now), *target)
    if now.has_ended:
        raise CommandFailed(f"run {now.name} has ended already: {now.state}")
    if _is_confirmed(command, confirm):
        message = text(command)
        return _done(message, run=answer(RunStatus, ("status", _key(now), *target)))
    effect = f"run {now.name} would be stopped, which has run for {now.seconds:.0f} s; files stay"
    return _proposal(command, effect, run=now)


def resume_run(run: str, target: Sequence[str], confirm: str) -> Proposal:
    """Shows a run that would be resumed, or has it go on."""
    now = answer(RunStatus, ("status", run, *target))
    command = ("resume", _key(now), *target)
    if not now.has_ended or now.state == "FINISHED":
        raise CommandFailed(f"run {now.name} is {now.state}; only one that failed can be resumed")
    if _is_confirmed(command, confirm):
        start(command)
        after = answer(RunStatus, ("status", _key(now), *target))
        return _done(f"run {now.name} is resumed; it is {after.state}", run=after)
    done = [step.name for step in now.steps if step.state == "FINISHED"]
    effect = f"run {now.name} would go on, without what is done: {', '.join(done) or 'nothing'}"
    return _proposal(command, effect, run=now)


def cancel_job(job: str, target: Sequence[str], confirm: str) -> Proposal:
    """Shows a job that would be cancelled, or cancels it."""
    now = answer(JobStatus, ("job", "status", job, *target))
    command = ("job", "cancel", job, *target)
    if now.has_ended:
        raise CommandFailed(f"job {job} has {now.state} already")
    if _is_confirmed(command, confirm):
        message = text(command)
        return _done(message, job=answer(JobStatus, ("job", "status", job, *target)))
    effect = f"job {job} would be stopped, which has run for {now.seconds:.0f} s; its record stays"
    return _proposal(command, effect, job=now)


def _key(run: RunStatus) -> str:
    return run.id or run.name


def _is_confirmed(command: tuple[str, ...], confirm: str) -> bool:
    """Tells whether a change was proposed and is now confirmed, which takes it out."""
    if not confirm:
        return False
    if _proposed.get(confirm) != command or not _proposed.pop(confirm, ()):  # by another call
        raise CommandFailed(
            "confirm: is of another change, or was used already; call without it to see what "
            "would happen"
        )
    return True


def _proposal(
    command: tuple[str, ...],
    effect: str,
    *,
    plan: RunPlan | None = None,
    run: RunStatus | None = None,
    job: JobStatus | None = None,
) -> Proposal:
    token = secrets.token_hex(4)
    _proposed[token] = command
    for oldest in list(_proposed)[:-MOST]:
        _proposed.pop(oldest, None)
    return Proposal(what=effect, done=False, confirm=token, plan=plan, run=run, job=job)


def _done(effect: str, *, run: RunStatus | None = None, job: JobStatus | None = None) -> Proposal:
    return Proposal(what=effect, done=True, confirm="", plan=None, run=run, job=job)
