"""MLflow's client, which waits while the tracking server is away."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from trireme.credentials import certificates
from trireme.errors import TrackingRefused, TrackingUnavailable
from trireme.files.whole_file import no_room
from trireme.text.say import say
from trireme.tracking.environment import SECRET
from trireme.tracking.store import CA_VARIABLES, public, reason_of, uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

Made = TypeVar("Made")

PARENT = "mlflow.parentRunId"
"""The tag of a nested run that names the one that it is nested in."""

_TOLD = re.compile(r"failed with error code (\d{3}) ")

_NOT_OURS = ("attempt to write a readonly database", "unable to open database file")
"""What SQLite says of a file that another user, or nobody, may write to."""

PATIENCE = 120.0  # seconds that a tracking server may be away before we give up
HURRY = 10.0  # the same, when somebody waits for the process to end
LONG = 5.0  # seconds of waiting after which it is said
RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"

_patience = PATIENCE


def hurry(patience: float = HURRY) -> None:
    """From now on gives up on a tracking server soon."""
    global _patience
    _patience = patience
    os.environ.setdefault(RETRIES, "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", f"{HURRY:.0f}")


@contextmanager
def _few_retries(number: str = "") -> Iterator[None]:
    """Has MLflow itself try a call again so often, or twice where nobody has said how often.

    By itself it does so seven times, which takes four minutes.
    """
    before = os.environ.get(RETRIES)
    os.environ[RETRIES] = number or before or "2"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(RETRIES, None)
        else:
            os.environ[RETRIES] = before


def patiently(call: Callable[[], Any], patience: float | None = None) -> Any:
    """Calls MLflow until it answers, or for some seconds."""
    started, pause, is_told = time.monotonic(), 0.5, False
    while True:
        try:
            with _few_retries():
                return call()
        except Exception as error:
            if (status := _status(error)) in (401, 403):
                raise TrackingRefused(
                    f"the MLflow tracking server does not allow this ({status}); are its user and "
                    f"password, or token, in the Secret {SECRET} or the environment?"
                ) from None
            if refused := certificates.refused(str(error), "the MLflow server", CA_VARIABLES[-1]):
                raise TrackingRefused(str(refused)) from None
            if any(words in str(error) for words in _NOT_OURS):
                raise TrackingRefused(
                    f"MLflow's database {public(uri())} cannot be written, as by user {os.getuid()}"
                ) from None
            if not _is_away(error):
                raise
            limit = _patience if patience is None else patience  # somebody may hurry meanwhile
            if time.monotonic() + pause > started + limit:
                raise TrackingUnavailable(
                    f"the MLflow tracking server does not answer: {reason_of(error)}"
                ) from None
            if not is_told and time.monotonic() - started > LONG:
                is_told = True
                say(f"waits for the MLflow tracking server: {reason_of(error)}")
        time.sleep(pause)
        pause = min(2 * pause, 10.0)


def once(
    make: "Callable[[MlflowClient], Made]", find: "Callable[[MlflowClient], Made | None]"
) -> Made:
    """Makes something in MLflow, and one of it, also where the answer that it is made was lost.

    Args:
        find: Looks for it before it is made once more.
    """
    from mlflow import MlflowClient

    is_first = True

    def attempt() -> Made:
        nonlocal is_first
        mlflow, is_again, is_first = MlflowClient(), not is_first, False
        if is_again and (existing := find(mlflow)):
            return existing
        with _few_retries("0"):
            return make(mlflow)

    return patiently(attempt)


def every(search: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    """Yields all that a search finds, of which MLflow hands out a page at a time."""
    token = None
    while True:
        page = search(*arguments, page_token=token)
        yield from page
        if not (token := page.token):
            return


def _status(error: Exception) -> int:
    """Returns the status of the server's answer; 0 where it is not that."""
    from mlflow.exceptions import MlflowException
    from requests import HTTPError

    if isinstance(error, MlflowException):
        # Of a status that MLflow has no name for, such as 413, it makes an error of the server's.
        match = _TOLD.search(str(error))
        return int(match[1]) if match else int(error.get_http_status_code())
    if isinstance(error, HTTPError) and error.response is not None:
        return int(error.response.status_code)
    return 0


def _is_away(error: Exception) -> bool:
    """Tells 5xx and no answer at all, which are worth another try, from a refusal."""
    from requests import RequestException

    if no_room(error):
        return False
    if status := _status(error):
        return status >= 500
    # A database as the store, where not even taking a call back succeeds; not every image has it.
    database = sys.modules.get("sqlalchemy.exc")
    if database and isinstance(error, database.OperationalError):
        return True
    return isinstance(error, RequestException | ConnectionError | TimeoutError)


class _Client:
    """``MlflowClient``, each of whose calls goes through ``patiently``."""

    @property
    def refusal(self) -> Any:
        """What a call raises that MLflow has answered and refused."""
        from mlflow.exceptions import MlflowException

        return MlflowException

    def every_run(self, experiments: list[str], query: str) -> "Iterator[Run]":
        """Yields all runs that a query finds."""
        return every(self.search_runs, experiments, query)

    def nested_in(self, run: "Run", experiments: list[str]) -> "Iterator[Run]":
        """Yields the runs that are nested in a run, directly."""
        return self.every_run(experiments, f"tags.`{PARENT}` = '{run.info.run_id}'")

    def whole(self, run: "Run") -> "Run":
        """Returns the run that a run is nested in, directly or not; itself if it is in none."""
        while above := run.data.tags.get(PARENT):
            run = self.get_run(above)
        return run

    def experiment_ids(self) -> list[str]:
        """Returns the ids of all experiments."""
        return [experiment.experiment_id for experiment in every(self.search_experiments)]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):  # asked for by whoever looks what an object is
            raise AttributeError(name)

        def call(*arguments: Any, **options: Any) -> Any:
            from mlflow import MlflowClient

            # Of a database, MLflow opens it and brings its tables up to date here.
            return patiently(lambda: getattr(MlflowClient(), name)(*arguments, **options))

        return call


client = _Client()
