"""Whatever looks at a training: the protocol of an observer, and the list of those of one job."""

import copy
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from trireme import plugins
from trireme.errors import Cancelled, JobFailed
from trireme.text.say import say
from trireme.tracking import values

if TYPE_CHECKING:
    from trireme.job.job import TrainingJob
    from trireme.observers.timeline import Life


class Findings(NamedTuple):
    """What an observer has to say of a training.

    Attributes:
        metrics: Figures for the training's MLflow run.
        tags: Tags of that run.
        words: Lines for whoever watches the training.
    """

    metrics: Mapping[str, float] = {}
    tags: Mapping[str, str] = {}
    words: Sequence[str] = ()


class Activity(NamedTuple):
    """What a job does that has been silent.

    Attributes:
        works: Whether any of its replicas has worked or saved something meanwhile, or may have.
        saved: When its newest checkpoint was written, by the clock of its volume; 0: there is none.
    """

    works: bool
    saved: float = 0.0


class StartAnew(JobFailed):
    """Raised in ``Observer.tick`` to have all replicas started again, from the last checkpoint."""


class Job(Protocol):
    """A job that runs, on this machine or on a cluster, as an observer meets it."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The job's manifest; on a cluster as it is there now, with its status."""

    @property
    def has_ended(self) -> bool:
        """Whether this is the last look at it."""

    @property
    def all_run(self) -> bool:
        """Whether all its replicas run."""

    @property
    def goes_on(self) -> bool:
        """Whether its replicas have been started, and none is about to be again."""

    @property
    def last_line(self) -> float:
        """When one of its replicas that run printed last, by the monotonic clock; 0: none has."""

    @property
    def began(self) -> float:
        """When the first of its replicas that run was started last, by the time of day."""

    def pids(self) -> Mapping[str, int]:
        """Returns the processes of replicas that run on this machine, by name."""

    def lives(self) -> Mapping[str, "Life"]:
        """Returns what each replica has spent its time with, and what it used, by name."""

    def activity(self, since: float) -> Activity:
        """Finds out what it does, which takes seconds: for a thread in the background.

        Args:
            since: The time of day after which a checkpoint counts as new.

        Raises:
            TriremeError: It cannot be found out.
        """

    def stacks(self) -> Mapping[str, list[str]]:
        """Returns where the programs of its replicas stand, in lines, by name; likewise."""

    def show(self, replica: str, lines: Sequence[str]) -> None:
        """Shows lines about a replica among those that it prints."""


class Observer:
    """Looks at one training: override what is needed, and nothing else.

    The runner calls its observers in their order. One that fails is told and left out; only
    ``JobFailed``, raised in ``tick``, ends the training, and ``StartAnew`` has it begin again.
    """

    def record(
        self,
        *,
        metrics: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
        words: Sequence[str] = (),
    ) -> None:
        """Has something kept in the training's MLflow run, or told to who watches it.

        To be called in any method but the constructor. A job without a pipeline has no such run:
        there the words alone count.

        Raises:
            TypeError: A metric is no number, a tag is no text, or ``words`` are no list of texts.
        """
        findings = Findings(
            values.numbers(metrics or {}), values.texts(tags or {}), values.lines(words)
        )
        with suppress(OSError):  # a full disk
            self.recorder(findings)

    recorder: Callable[[Findings], None] = staticmethod(lambda findings: None)
    """What keeps and tells that; set by ``Observers``."""

    def prepare(self, manifest: dict[str, Any]) -> None:
        """Changes the manifest of a job that is about to be made; again where it is made anew.

        What the job is known by, costs or may take stays: replicas, resources and limits.
        """

    def shown(self, replica: str, line: str) -> str | None:
        """Returns what a person is to see of a line; None for nothing, as it is for this observer.

        Called, as ``lines`` is, from several threads.
        """
        return line

    def lines(self, replica: str, text: str) -> None:
        """Takes in one or more lines that a replica has printed, with an end between them."""

    def rewritten(self, replica: str, text: str) -> None:
        """Takes in what a line has become that has no end yet, such as a progress bar."""

    def state(self, sentence: str) -> None:
        """Takes in a sentence about the state of a job on a cluster that has changed."""

    def tick(self, job: Job) -> None:
        """Looks at the job: about once a second, and a last time when it has ended."""

    def explained(self, failure: JobFailed) -> JobFailed:
        """Returns why the training has failed, if this observer knows better."""
        return failure

    def end(self, failure: BaseException | None) -> None:
        """Takes in that the training is over, or that it is followed no longer; if it was begun.

        Args:
            failure: Why it has no success; None where it has.
        """


class Observers:
    """The observers of one job, as its runner calls them."""

    def __init__(
        self,
        observers: Iterable[Observer] = (),
        recorder: Callable[[Findings], None] = lambda findings: None,
    ) -> None:
        """Takes the observers in the order that they are called in.

        Args:
            recorder: Keeps what they find.
        """
        self._observers = list(observers)
        self._one_at_a_time = threading.Lock()
        self._ended_by: JobFailed | None = None
        for observer in self._observers:
            observer.recorder = recorder
        self._set_out()

    def _set_out(self) -> None:
        """Finds out who is to be asked what, as lines come in thousands."""
        self._show = self._that_override("shown")
        self._read = self._that_override("lines")
        self._reread = self._that_override("rewritten")

    def prepare(self, manifest: dict[str, Any]) -> None:
        """Has the manifest of a job changed that is about to be made."""
        for observer in self._that_override("prepare"):
            changed = copy.deepcopy(manifest)  # one that fails halfway has changed nothing
            if self._call(observer, observer.prepare, changed):
                manifest.clear()
                manifest.update(changed)

    def lines(self, replica: str, text: str) -> None:
        """Passes on what a replica has printed, as far as it is for persons."""
        if self._show:
            shown = [self._shown(replica, line) for line in text.split("\n")]
            if not (remaining := [line for line in shown if line is not None]):
                return
            text = "\n".join(remaining)
        for observer in self._read:
            self._call(observer, observer.lines, replica, text)

    def _shown(self, replica: str, line: str | None) -> str | None:
        for observer in self._show:
            if line is None:
                return None
            try:
                line = observer.shown(replica, line)
            except Cancelled:
                raise
            except Exception as error:
                self._leave_out(observer, error)
        return line

    def rewritten(self, replica: str, text: str) -> None:
        """Passes on what a line has become that has no end yet."""
        for observer in self._reread:
            self._call(observer, observer.rewritten, replica, text)

    def state(self, sentence: str) -> None:
        """Passes on a sentence about the state of the job."""
        for observer in self._that_override("state"):
            self._call(observer, observer.state, sentence)

    def tick(self, job: Job) -> None:
        """Has all look at the job; raises what ends it."""
        for observer in self._that_override("tick"):
            try:
                observer.tick(job)
            except JobFailed as error:
                if not job.has_ended or isinstance(error, Cancelled):
                    self._ended_by = error
                    raise
            except Exception as error:
                self._leave_out(observer, error)

    def explained(self, failure: JobFailed) -> JobFailed:
        """Returns why the job has failed, as who knows best says it."""
        if failure is self._ended_by:
            return failure  # whoever has ended it knows
        for observer in self._that_override("explained"):
            try:
                explanation = observer.explained(failure)
                failure = explanation if isinstance(explanation, JobFailed) else failure
            except Cancelled:
                raise
            except Exception as error:
                self._leave_out(observer, error)
        return failure

    def end(self, failure: BaseException | None) -> None:
        """Tells all that the training is over."""
        for observer in self._that_override("end"):
            self._call(observer, observer.end, failure)

    def _that_override(self, method: str) -> list[Observer]:
        original = getattr(Observer, method)
        return [
            observer
            for observer in self._observers
            if getattr(type(observer), method) is not original
        ]

    def _call(self, observer: Observer, method: Callable[..., None], *arguments: object) -> bool:
        """Calls an observer; tells whether it could."""
        try:
            method(*arguments)
        except Cancelled:  # by a signal, which may come at any moment
            raise
        except Exception as error:
            self._leave_out(observer, error)
            return False
        return True

    def _leave_out(self, observer: Observer, error: Exception) -> None:
        with self._one_at_a_time:
            if observer not in self._observers:
                return  # another thread has met the same
            self._observers.remove(observer)
            self._set_out()
        name = type(observer).__name__
        with suppress(OSError, ValueError):
            say(f"warning: {name} is left out, as it failed: {type(error).__name__}: {error}")


def installed_observers(job: "TrainingJob") -> list[Observer]:
    """Returns the observers of a job that other packages bring; one that fails is left out."""
    observers = []
    for entry in plugins.found(plugins.OBSERVERS).values():
        try:
            observer = entry.load()(job)
            if not isinstance(observer, Observer | None):
                raise TypeError(f"{type(observer).__name__} is no Observer")
        except (Exception, SystemExit) as error:
            plugins.leave_out(entry, error)
        else:
            observers += [observer] if observer else []
    return observers
