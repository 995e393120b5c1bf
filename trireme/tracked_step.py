"""The frame of every step's work: it keeps a journal, and fails in one clear sentence."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from trireme import progress
from trireme.cost.steps import counted
from trireme.errors import Cancelled, PodLost, TrackingUnavailable, TriremeError
from trireme.files.home import TRACKER
from trireme.files.workspace import check
from trireme.last_words import ENDS_RUN, last_words, leave, left, written
from trireme.process import extras
from trireme.step_names import own_name
from trireme.text.say import say
from trireme.tracking import environment, journal, runs
from trireme.tracking.client import PATIENCE, client, hurry
from trireme.tracking.store import reason_of

SOON = 30.0  # seconds that MLflow may be away when a step has done its work and leaves no model


@contextmanager
def step(
    name: str, workspace: str, *, is_charged: bool = True, is_one_of_many: bool = False
) -> Iterator[None]:
    """Runs the body of a component as a step of a run, which is called as its task.

    Errors end the process as ``last_words`` says.

    Args:
        name: The component's name.
        is_charged: Whether it records what it costs, where there is a price table; it does not
            begin if that is broken.
        is_one_of_many: Whether this process runs several, each of which has its own MLflow run.
    """
    name = own_name(name)
    with last_words():
        check(Path(workspace))
    recorded = _recorded(name, Path(workspace), is_one_of_many)
    with journal.opened(Path(workspace), name), recorded, last_words():
        try:
            with (
                extras.explained(),
                counted(Path(workspace), name, is_one_of_many) if is_charged else nullcontext(),
            ):
                yield
            result = _result(name, Path(workspace))
            leave(f"{name}: {result}" if is_one_of_many else result)
            journal.log_end("FINISHED")
        except Exception as error:
            if isinstance(error, TriremeError):
                journal.log_error(error)
            journal.log_end("KILLED" if isinstance(error, Cancelled) else "FAILED")
            raise


def _result(name: str, workspace: Path, note: str = "") -> str:
    """Returns what is left of a step that has done its work: in words, or with what the run has."""
    words, outcome = journal.summary_of(workspace, name), journal.outcome_of(workspace, name)
    words = f"{words} {note}".strip()
    return written(words, **outcome) if outcome else words


@contextmanager
def _recorded(name: str, workspace: Path, is_one_of_many: bool) -> Iterator[None]:
    """Brings the step's journal into MLflow, unless whoever started this step does that.

    ``trireme run`` has MLflow loaded already and does it for all its steps; loading it in each
    of them would cost more than most steps' work.
    """
    ours = is_one_of_many if "MLFLOW_RUN_ID" in os.environ else runs.is_ours()
    before = {name: os.environ[name] for name in environment.VARIABLES if name in os.environ}
    is_open = not ours or runs.open_step(name, workspace)
    if not is_open:
        os.environ.pop("MLFLOW_RUN_ID", None)  # which is that of all of many
    is_told = TRACKER not in os.environ and "MLFLOW_RUN_ID" in os.environ
    if is_told:
        # For the last step, should this one be killed.
        journal.run_path(workspace, name).write_text(os.environ["MLFLOW_RUN_ID"])
    try:
        with _ending_run(name, workspace):
            try:
                with _telling_progress(name, workspace) if is_told else nullcontext():
                    yield
            except PodLost:
                is_told = False  # the step's next pod goes on with its run
                raise
            finally:
                has_finished = journal.status_of(workspace, name) == "FINISHED"
                if not is_open and has_finished and _leaves_model(name, workspace):
                    is_told = runs.open_step(name, workspace)  # it may be there by now
                    if not is_told:
                        _refuse_lost_model("MLflow is not there")
                if is_told:
                    _bring_to_mlflow(name, workspace, ours)
    finally:
        if is_one_of_many:  # the next one's run is another
            for variable in environment.VARIABLES:
                os.environ.pop(variable, None)
            os.environ |= before


@contextmanager
def _ending_run(name: str, workspace: Path) -> Iterator[None]:
    """Ends the run, too, where the step fails and nothing comes after it, and leaves what it was.

    What finishing takes is loaded by such a step alone.
    """
    if ENDS_RUN not in os.environ:
        yield
        return
    from trireme.finish.failed_step import ending_run

    try:
        with ending_run(name, workspace):
            yield
    finally:
        if outcome := journal.outcome_of(workspace, name):
            leave(written(left(), **outcome))


@contextmanager
def _telling_progress(name: str, workspace: Path) -> Iterator[None]:
    """Brings into the step's run now and then how far its training is, if it trains."""
    run, has_ended = os.environ["MLFLOW_RUN_ID"], threading.Event()

    def tell() -> None:
        told = None
        while not has_ended.wait(journal.PROGRESS_EVERY):
            now = progress.read(journal.progress_path(workspace, name))
            if now != told:
                from trireme.tracking.sync import bring_progress

                bring_progress(workspace, name, run)
                told = now

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        has_ended.set()
        telling.join(PATIENCE)  # what it brings just now must not be brought twice at once


def _bring_to_mlflow(name: str, workspace: Path, ours: bool) -> None:
    """Brings a journal into the step's run, and ends that if it is ours to end."""
    from trireme.tracking.sync import StepRun, sync

    status = journal.status_of(workspace, name)
    if not _leaves_model(name, workspace):
        hurry(SOON)  # the last step brings what is lacking then
    try:
        own = StepRun.from_environment()
        if status == "KILLED":
            # At once: a run that is cancelled on Kubeflow leaves a step about a second, and has no
            # last one that would end the whole. Where one does come, it has the last word. Its
            # plugin, whose runs they may be, ends that of the whole, and no step's.
            runs.end(own.step_id, status)
            runs.end(own.pipeline_id, status)
        sync(workspace, name, own)
        if ours and status != "KILLED":
            runs.end(own.step_id, status)
    except (TrackingUnavailable, client.refusal) as error:
        # The step's work is done, and its records stay in the workspace, where the last step finds
        # them; but it lacks what makes a model of them.
        is_away = isinstance(error, TrackingUnavailable)
        why = str(error) if is_away else f"MLflow does not accept it: {reason_of(error)}"
        if status == "FINISHED" and _leaves_model(name, workspace):
            _refuse_lost_model(why)
        say(f"warning: the record of this step is not in MLflow: {why}")
        if status == "FINISHED":  # else it has left why it is not
            leave(_result(name, workspace, f"(not in MLflow yet: {why})"))


def _leaves_model(name: str, workspace: Path) -> bool:
    return any("model" in record for record in journal.read(workspace, name))


def _refuse_lost_model(why: str) -> None:
    """Ends the process, so that nobody takes a run for whole whose model is not registered."""
    with last_words():
        raise TriremeError(f"the model is not registered: {why}; resume the run to register it")
