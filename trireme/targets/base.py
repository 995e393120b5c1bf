"""A place where pipelines run: all that the command line knows of one.

A place is a class in a folder beside this file; ``registry.py`` says which there are, and loads one
when it is first used. What a place cannot do it refuses itself, in one sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from trireme.errors import InputError, StepFailed, TriremeError
from trireme.targets import registry

if TYPE_CHECKING:
    from trireme.kubernetes.connection import Cluster
    from trireme.observers.goodput.ledger import Ledger
    from trireme.pipeline.pipeline import Pipeline
    from trireme.planning import Plan
    from trireme.runner.cluster.checks import Finding
    from trireme.schedules.plans import Schedules
    from trireme.terminal.console import Console

ENDED = ("FINISHED", "FAILED", "KILLED", "skipped")
"""The states of what has ended; the first three are MLflow's words."""

OnLine = Callable[[str, str], None]
"""Called with a step's name, and its turn in a loop, and a line that it has printed."""


@dataclass(frozen=True)
class Step:
    """A step of a run, as it was when it was asked for.

    Attributes:
        name: Its name, as in ``train``; in a loop with its turn, as in ``trial-003``.
        state: One of ``ENDED``; or pending, running, stopping, paused; empty before it starts.
        seconds: How long it has run.
        result: What has come of it, in a few words, as far as that is known.
        loop: The name that it shares with the other turns of a loop; empty outside of loops.
        began: When it began, in seconds since the epoch; 0 where its place does not tell.
    """

    name: str
    state: str = ""
    seconds: float = 0.0
    result: str = ""
    loop: str = field(default="", kw_only=True)
    began: float = field(default=0.0, kw_only=True)

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.state in ENDED


@dataclass(frozen=True)
class Run:
    """A run of a pipeline, as it was when it was asked for.

    Attributes:
        name: Its name.
        state: As of a step; also ``lost``, of what was killed with ``kill -9``.
        created: When it was made, in seconds since the epoch.
        seconds: How long it has taken.
        message: What the place says of how it is; empty for nothing.
        id: What else it can be named by; empty for nothing.
    """

    name: str
    state: str
    created: float
    seconds: float
    message: str = field(default="", kw_only=True)
    id: str = field(default="", kw_only=True)

    @property
    def ended_at(self) -> float:
        """When it ended, in seconds since the epoch, or now if it has not."""
        return self.created + self.seconds

    @property
    def key(self) -> str:
        """What it is found by."""
        return self.id or self.name

    @property
    def result(self) -> str:
        """What came of it in a few words; empty where nothing is known without asking more."""
        return self.message

    @property
    def pipeline(self) -> str:
        """What only runs of the same pipeline have; empty where that is not known."""
        return ""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Values of its pipeline's parameters, as far as they are known without asking more."""
        return {}

    @property
    def attempts(self) -> list[float]:
        """When it began and was resumed, in seconds since the epoch, as far as that is known."""
        return []

    @property
    def facts(self) -> dict[str, str]:
        """Where its things are, in a person's words."""
        return {}

    @property
    def workspace(self) -> Path | None:
        """Where its steps have left their files, if that is on this machine."""
        return None

    def check_cancel(self) -> None:
        """Refuses to end a run that has ended."""
        if self.state in ENDED:
            raise InputError(f"run {self.name} has ended already: {self.state}")

    def check_resume(self) -> None:
        """Refuses to resume a run that goes on, or has done all that it should."""
        if self.state not in ("FAILED", "KILLED", "lost"):
            raise InputError(
                f"run {self.name} is {self.state}; only one that failed or was killed can be "
                "resumed"
            )


class NoSuchRun(InputError):
    """There is no run of this name."""

    code = "not-found"


@dataclass(frozen=True)
class Version:
    """What a place has of a pipeline that was brought there.

    Attributes:
        is_new: Whether it was brought just now.
        facts: How to find it.
    """

    is_new: bool
    facts: dict[str, str]

    def show(self, pipeline: str, console: "Console") -> None:
        """Shows what has become of a pipeline that was to be there."""
        outcome = "uploaded" if self.is_new else "is there already, unchanged"
        console.heading(f"{pipeline} {outcome}")
        console.facts(self.facts)


@dataclass(frozen=True)
class Prunable:
    """Something that may be removed.

    Attributes:
        what: What it is called.
        since: When it was last of use, in seconds since the epoch.
        bytes: What it takes; 0 where that is not known.
        remove: Removes it.
    """

    what: str
    since: float
    bytes: int
    remove: Callable[[], object]


R = TypeVar("R", bound=Run)


class Target(Generic[R]):
    """A place where pipelines run.

    A method that a place does not have says so; what else a method raises is a ``TriremeError``:
    an ``InputError`` for what a person got wrong, ``Refused`` and ``Unavailable`` for servers.
    ``trireme list`` needs ``latest``, ``status`` needs ``find``, ``steps`` and ``outcome``; other
    commands need the method that is called like them.

    Attributes:
        name: What ``--target`` takes.
        title: What a person calls it.
        stays: Whether somebody stays with a run; servers may be away for longer then.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    stays = False

    @property
    def is_here(self) -> bool:
        """Whether runs end with this machine's processes; they have no pods then."""
        return not registry.entry(self.name).is_cluster

    def run(
        self,
        pipeline: "Pipeline",
        arguments: dict[str, Any],
        name: str,
        console: "Console",
        *,
        wait: bool,
    ) -> int:
        """Runs a pipeline and shows it; returns the command's exit status.

        Args:
            pipeline: The pipeline.
            arguments: A value for every parameter.
            name: What the run is called.
            console: Where it is shown.
            wait: Stay until it ends; otherwise return when it has started.
        """
        raise self._cannot("run pipelines")

    def start(
        self, pipeline: "Pipeline", arguments: dict[str, Any], name: str, console: "Console"
    ) -> tuple[R, str]:
        """Starts a run of a name; returns it at once, and what a person should know of it.

        A cluster is given the pipeline's ``bundle``, if it has one, by ``bundle.keep``.
        """
        raise self._cannot("run pipelines")

    def compile(self, pipeline: "Pipeline", directory: Path) -> Path:
        """Writes what the place takes of a pipeline; returns the file."""
        raise self._cannot("compile pipelines")

    def upload(self, pipeline: "Pipeline") -> Version:
        """Brings a pipeline there, if it has changed."""
        raise self._cannot("upload pipelines")

    def latest(self) -> Sequence[R]:
        """Returns the latest runs, the newest first."""
        raise self._cannot("list runs")

    def no_runs(self) -> str:
        """Says that there are none."""
        return "no runs yet; 'trireme pipelines' lists what can be run"

    def find(self, name: str) -> R:
        """Returns a run by its name or id, or raises ``NoSuchRun``."""
        raise self._cannot("find runs")

    def steps(self, run: R) -> Sequence[Step]:
        """Returns the steps of a run that have begun, in order."""
        raise self._cannot("show steps")

    def results(self, run: R, steps: Sequence[Step]) -> dict[str, str]:
        """Returns what steps have come to, in a few words, by their names."""
        return {step.name: step.result for step in steps}

    def told(self, run: R) -> list[Step]:
        """Returns the steps of a run that have begun, in order, with what they have come to."""
        steps = self.steps(run)
        results = self.results(run, steps)
        return [replace(step, result=results.get(step.name, "")) for step in steps]

    def given(self, run: R) -> "tuple[Pipeline, dict[str, Any]] | None":
        """Returns a run's pipeline and its arguments; None where only MLflow may know them."""
        return None

    def outcome(self, run: R) -> dict[str, str]:
        """Returns what came of a run that has ended, in a person's words, as far as is known."""
        raise self._cannot("show runs")

    def goodput(self, run: R) -> "Ledger | None":
        """Returns what a run's trainings' time went to; None where that is not known here."""
        return None

    def goodput_before(self, pipeline: str) -> "Ledger | None":
        """Returns what the time of a pipeline's earlier trainings went to; None if unknown."""
        return None

    def last_lines(self, run: R) -> str:
        """Returns the last lines of what a run has failed with; empty where nobody has them."""
        return ""

    def reached_by(self) -> str:
        """Returns the words that lead a further command there; empty for none."""
        return ""

    def what_helps(self, run: R, steps: Sequence[Step]) -> dict[str, str]:
        """Returns the commands for a run that has failed: its first failed step's log, resume."""
        args = f"{run.key} {self.reached_by()}".rstrip()
        failed = [step.name for step in steps if step.state == "FAILED"]
        hints = {"Logs": f"trireme logs {args} --step {failed[0]}"} if failed else {}
        return hints if run.state == "FINISHED" else hints | {"Resume": f"trireme resume {args}"}

    def error(self, run: R) -> TriremeError | None:
        """Returns why a run that has ended has not done what it should; None if it has."""
        if run.state == "FINISHED":
            return None
        if run.state == "KILLED":
            return TriremeError(f"run {run.name} was cancelled")
        failed = [step for step in self.told(run) if step.state == "FAILED"]
        at = f" at {', '.join(step.name for step in failed)}" if failed else ""
        # Kubeflow itself says no more than that it failed.
        reason = next((step.result for step in failed if step.result), run.message)
        return StepFailed(f"run {run.name} failed{at}" + (f": {reason}" if reason else ""))

    def logs(self, name: str, step: str, on_line: OnLine, *, follow: bool) -> None:
        """Passes on what the steps of a run have printed.

        Args:
            name: The run's name or id.
            step: The only one to read, or one turn of it; empty for all.
            on_line: Called with every line; it may be from several threads.
            follow: Go on until the run has ended.
        """
        raise self._cannot("show logs")

    def event_files(self, name: str, folder: Path) -> bool:
        """Brings the event files that a run's programs have written for TensorBoard.

        Args:
            name: The run's name or id.
            folder: Where they are to be, those that are there already as they go on.

        Returns:
            Whether there may be more later.
        """
        raise self._cannot("bring event files")

    def cancel(self, name: str) -> str:
        """Ends a run; returns what has happened, in a sentence."""
        raise self._cannot("cancel runs")

    def resume(self, name: str, console: "Console", pairs: Sequence[str] = ()) -> int:
        """Has a run go on with the steps that are not done; returns the command's exit status.

        Args:
            pairs: Parameters that are others from now on, ``name=value``.
        """
        raise self._cannot("resume runs")

    def prunable(
        self, before: float, keep: int, cache_limit: float | None = None, records: bool = False
    ) -> list[Prunable]:
        """Returns what may be removed.

        Args:
            before: Runs that ended before this moment, in seconds since the epoch.
            keep: But for so many of the newest.
            cache_limit: Bytes that datasets and packages may take; those used longest ago go first.
            records: Whether MLflow's records are among it, of the runs that go or have gone.
        """
        raise self._cannot("remove runs")

    def catch_up(self, runs: Sequence[R]) -> bool:
        """Brings to MLflow what it lacks of runs that have ended; returns whether it has all."""
        return True

    def schedules(self) -> "Schedules[Any, Any, Any]":
        """Returns what keeps the schedules there."""
        raise self._cannot("keep schedules")

    def cluster(self) -> "Cluster":
        """Returns the Kubernetes cluster, with the namespace where runs are."""
        raise self._cannot("have pods")

    def plan(self, plan: "Plan", pipeline: "Pipeline") -> "Plan":
        """Returns what a run would make there, given what it would make anywhere."""
        return plan

    def check(self, pipeline: "Pipeline", cluster: "Cluster") -> "list[Finding]":
        """Returns what is found besides when a cluster is asked whether a run would work."""
        return []

    def _cannot(self, action: str) -> InputError:
        return InputError(f"--target {self.name}: {self.title} does not {action}")
