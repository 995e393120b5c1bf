"""Start the processes of steps: forked from one that has loaded what they load, or on their own."""

import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from trireme.files.home import TRACKER
from trireme.graph.model import FRAME
from trireme.images import PYTORCH
from trireme.process.processes import Used, reap
from trireme.runner.local.supervised import supervised
from trireme.step_names import TRIAL
from trireme.targets.local.warm import Forked, Warm, is_for

GRACE = 40.0  # seconds a step gets to end when the run is stopped, its replicas included

Process = subprocess.Popen[bytes] | Forked

_LOADED = (
    *("kfp.dsl.executor", "kfp.dsl.kfp_config", "argparse"),  # for kfp.dsl.executor_main
    *("trireme.tracked_step", "trireme.runner.training_step"),
)
_OF_TRIALS = (
    *_LOADED,
    *("numpy.random", "trireme.evaluation.evaluate"),
    *("trireme.packages.use", "trireme.runner.local.runner"),
    *("trireme.runner.local.installed", "trireme.sweep.sharing"),
    *("trireme.sweep.run_trial", "trireme.sweep.study"),
)
_WITH_TORCH = (*_OF_TRIALS, "torch", "torch._dynamo")
_USE_TORCH = ("evaluate", "export", TRIAL)
"""What is loaded once for all steps of ours, for trials that are the user's programs alone, and for
steps that use the framework."""

_PARAMETER = re.compile(r"inputs\.parameters\['([^']+)'\]")


def is_ours(command: Sequence[str]) -> bool:
    """Tells whether a step is in Trireme's frame.

    It loads MLflow only if it has to, and asks for its run itself.
    """
    return any(FRAME in part for part in command)


def modules_of(
    command: list[str], variables: dict[str, str], image: str, inputs: dict[str, Any]
) -> tuple[str, ...]:
    """Returns what is loaded in advance for a step; nothing for one that has to start on its own.

    Args:
        variables: Those of the step alone, which what it loads may read.
        image: Its image, which may be an output of another step.
        given: Its inputs.
    """
    if variables or not (is_ours(command) and is_for(command)):
        return ()
    if computed := _PARAMETER.search(image):
        image = str(inputs.get(computed[1], ""))
    function = command[command.index("--function_to_execute") + 1]
    has_torch = function in _USE_TORCH and image.startswith(PYTORCH.partition(":")[0])
    if function == TRIAL and "entrypoint" in (inputs.get("evaluation") or {}):
        return _OF_TRIALS
    return _WITH_TORCH if has_torch else _LOADED


def wait_for(process: Process) -> Used:
    """Waits for a step's process."""
    return process.reap() if isinstance(process, Forked) else reap(process)


class Starter:
    """Starts steps, and keeps what has loaded what they load.

    That only saves time: where it ends before it should, steps load for themselves.

    Args:
        warn: Tells a person what has ended.
        lock: The descriptor of a lock that the steps' supervisors are to have, as long as they run.
    """

    def __init__(self, warn: Callable[[str], None], lock: int | None = None) -> None:
        self._warn, self._lock = warn, lock
        self._warm: dict[tuple[str, ...], Warm | None] = {}
        self._one_at_a_time = threading.Lock()
        self._is_stopped = False

    def start(
        self, command: list[str], environment: dict[str, str], modules: tuple[str, ...] = ()
    ) -> Process:
        """Starts a step, forked from what has loaded some modules if there are any."""
        if modules and (warm := self.load(modules, environment)):
            try:
                return warm.start(command, GRACE, environment, self._lock)
            except ChildProcessError:
                self._give_up(modules)
        return supervised(command, GRACE, environment, lock=self._lock)

    def stop(self) -> None:
        """Ends what still loads; may be called by who handles a signal."""
        self._is_stopped = True
        for warm in list(self._warm.values()):
            if warm:
                warm.kill()

    def close(self) -> None:
        """Ends what has been loaded; steps go on."""
        for warm in self._warm.values():
            if warm:
                warm.close()

    def load(self, modules: tuple[str, ...], environment: dict[str, str]) -> Warm | None:
        """Returns what has loaded some modules, or is about to."""
        with self._one_at_a_time:
            if modules not in self._warm:
                common = {name: value for name, value in environment.items() if name != TRACKER}
                self._warm[modules] = Warm(modules, common)
            if self._is_stopped:
                self.stop()
            return self._warm[modules]

    def _give_up(self, modules: tuple[str, ...]) -> None:
        """Has steps start on their own from now on."""
        with self._one_at_a_time:
            warm, self._warm[modules] = self._warm[modules], None
            last, ending = warm.end() if warm else ("", "")
        if warm and not self._is_stopped:
            lost = f"the process that loads once for all steps {ending}"
            self._warn(f"{last}warning: {lost}; steps load what they need themselves")
