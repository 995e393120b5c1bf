"""Deploying a model: checked, rolled out, tested with real samples, and put back if that fails."""

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import NoReturn

from trireme.deployment import objects
from trireme.deployment.objects import Manifest, named
from trireme.deployment.openai_api import OpenAIApi
from trireme.deployment.pod_problems import Pod
from trireme.deployment.rollout import Rollout, RolloutStatus, Superseded
from trireme.deployment.smoke_test import Agreement, Expected, Predicting, compare
from trireme.errors import InputError, TriremeError
from trireme.kubernetes.connection import Cluster
from trireme.process.signals import from_a_terminal, handled
from trireme.tracking.model_versions import ModelVersion

RESTORING = 120.0  # seconds that are waited for the version before to be back


class NotDeployed(TriremeError):
    """The new version did not take its place; says why, and what was done about it."""


class Interrupted(TriremeError):
    """A person or the system has told this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted ({signal.Signals(number).name})")
        self.exit_status = 128 + number


@dataclass(frozen=True)
class Plan:
    """What is to be deployed, and how one knows that it works.

    Attributes:
        manifests: Its objects; the first is the one that makes the pods.
        look: Looks how far the first object is, given it as it was applied.
        ask: Makes of a pod what answers requests.
        api: How a language model is asked; none: as MLflow's server, or KServe's.
    """

    model: ModelVersion
    manifests: list[Manifest]
    pairs: list[Expected]
    look: Callable[[Cluster, Manifest], RolloutStatus]
    ask: Callable[[Cluster, Pod], Predicting]
    api: OpenAIApi | None = None


def deploy(
    cluster: Cluster, plan: Plan, timeout: float, on_state: Callable[[str], None]
) -> Agreement | None:
    """Deploys a model version; afterwards either that answers, or what did before.

    To be called from the main thread.

    Args:
        timeout: Seconds that it may take to come up.
        on_state: Called with a short sentence whenever it has come on.

    Returns:
        How well the new version's answers agree with the right ones; ``None`` if it was there.
    """
    objects.check_rights(cluster, plan.manifests)
    before = [objects.find(cluster, manifest) for manifest in plan.manifests]
    for manifest, existing in zip(plan.manifests, before, strict=True):
        objects.refuse_others(manifest, existing, plan.model)
        _refuse_stopped(existing)
    # What the cluster would refuse it refuses now, when nothing has been made yet.
    planned = [objects.apply(cluster, manifest, dryRun="All") for manifest in plan.manifests]
    if all(map(objects.is_same, planned, before)) and plan.look(cluster, planned[0]).done:
        return None
    if planned[0]["kind"] == "Deployment":
        objects.check_pod(cluster, plan.manifests[0])
    with handled(_interrupt, from_a_terminal()):
        try:
            return _roll_out(cluster, plan, timeout, on_state)
        except Superseded as error:
            raise NotDeployed(
                f"{plan.model} was not deployed: {error}; it is left as it is"
            ) from None
        except BaseException as error:
            _ignore_signals()
            _fail(error, plan.model, _put_back(cluster, plan, before, on_state))


def _roll_out(
    cluster: Cluster, plan: Plan, timeout: float, on_state: Callable[[str], None]
) -> Agreement:
    applied = [objects.apply(cluster, manifest) for manifest in plan.manifests]
    rollout = Rollout(cluster, partial(plan.look, cluster, applied[0]), timeout, on_state)
    pod = rollout.wait_for_pod()
    agreement = compare(plan.ask(cluster, pod), plan.pairs)
    on_state(f"smoke test passed: {agreement.samples} samples")
    rollout.wait_until_done()
    return agreement


def _put_back(
    cluster: Cluster, plan: Plan, before: list[Manifest | None], on_state: Callable[[str], None]
) -> str:
    """Undoes it, and says so if anybody still reads; on Kubeflow the reader is ended, too."""
    with suppress(OSError):
        on_state("rolling back")
    done = _undo(cluster, plan, before)
    with suppress(OSError):
        on_state(done)
    return done


def _undo(cluster: Cluster, plan: Plan, before: list[Manifest | None]) -> str:
    """Puts everything back; says in words what there is now."""
    now, problems = [], []
    for manifest, existing in zip(plan.manifests, before, strict=True):
        try:
            now.append(objects.restore(cluster, manifest, existing))
        except TriremeError as error:
            problems.append(f"{named(manifest)} could not be rolled back: {error}")
    if problems:
        return "; ".join(problems)
    if now[0] is None:
        return "there was no previous version; the new one is deleted"
    uri = objects.served_by(now[0])
    try:
        status_of = partial(plan.look, cluster, now[0])
        Rollout(cluster, status_of, RESTORING, lambda sentence: None).wait_until_done()
    except TriremeError as error:
        return f"rolled back to {uri}, which is not ready again: {error}"
    return f"rolled back to {uri}"


def _fail(error: BaseException, model: ModelVersion, done: str) -> NoReturn:
    if not isinstance(error, TriremeError):
        raise error
    failure: TriremeError = NotDeployed(f"{model} was not deployed: {error}; {done}", error.detail)
    failure.exit_status = error.exit_status if isinstance(error, Interrupted) else 1
    raise failure from None


def _refuse_stopped(existing: Manifest | None) -> None:
    if existing and existing["spec"].get("replicas") == 0:
        raise InputError(
            f"{named(existing)} is scaled to 0 replicas, so a new version could not be tested; "
            f"first run: kubectl scale --replicas=1 deployment/{existing['metadata']['name']}"
        )


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ignore_signals()
    raise Interrupted(number)


def _ignore_signals() -> None:
    """There is something to put back; being told again to end does not make it faster."""
    for number in from_a_terminal():
        signal.signal(number, signal.SIG_IGN)
