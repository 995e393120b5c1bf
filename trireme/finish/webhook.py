"""Tell a URL what came of a run."""

import time
from typing import NamedTuple

from trireme.credentials import secrets
from trireme.errors import InputError, TriremeError
from trireme.finish.outcome import Outcome
from trireme.tracking.registry import CHAMPION

TRIES = 4
PAUSE = 1.0  # seconds before the second try; doubled before each further one
LIMIT = 10.0  # seconds that an answer may take

ALWAYS, FAILED = "always", "failed"
WHEN = (ALWAYS, FAILED, CHAMPION)
"""What the key ``when`` of a Secret may name: the runs that its URL is told of."""

EXAMPLE = Outcome(
    pipeline="retraining",
    run="20260102-030405-6789-retraining",
    status="FINISHED",
    reason="held-out accuracy 0.9726 reaches min_accuracy 0.9",
    against="better than the champion: +1.94 points against version 2 (+0.56 to +3.33)",
    model="digits",
    version="3",
    alias=CHAMPION,
    metrics={"held_out_accuracy": 0.9726},
    page="https://mlflow.example.org/#/experiments/1/runs/0123456789abcdef0123456789abcdef",
)
"""What came of a run that there was not."""


class _Hook(NamedTuple):
    """What a Secret says of a webhook; a URL is a secret of its own: who knows it can post."""

    secret: str
    url: str
    token: str
    when: frozenset[str]

    def wants(self, outcome: Outcome) -> bool:
        """Tells whether it is to be told of a run."""
        has_failed = outcome.status != "FINISHED"
        is_named = {ALWAYS: True, FAILED: has_failed, CHAMPION: outcome.alias == CHAMPION}
        return any(is_named[word] for word in self.when)


def send(secret: str, outcome: Outcome, tries: int = TRIES) -> bool:
    """Posts what came of a run as JSON to the ``url`` of a Secret, if its ``when`` names the run.

    With a ``token`` in it, that goes along as a bearer token.

    Returns:
        Whether it was posted.
    """
    hook = _read(secret)
    if not hook.wants(outcome):
        return False
    _post(hook, outcome, tries)
    return True


def send_example(secret: str) -> str:
    """Posts an example to the ``url`` of a Secret, and returns what that answers."""
    return _post(_read(secret), EXAMPLE, tries=1)


def _read(secret: str) -> _Hook:
    keys = secrets.read(secret, "webhook", ("url", "token", "when"))
    url = keys.get("url", "")
    if not url.startswith(("http://", "https://")):
        raise InputError(f"webhook_secret {secret!r}: has no key url with an http or https URL")
    when = frozenset(keys.get("when", ALWAYS).split())
    if not when or not when.issubset(WHEN):
        raise InputError(
            f"webhook_secret {secret!r}: its key when is {keys['when']!r}; it must be "
            f"{', '.join(WHEN[:-1])} or {WHEN[-1]}, or several of them with spaces between"
        )
    return _Hook(secret, url, keys.get("token", ""), when)


def _post(hook: _Hook, outcome: Outcome, tries: int) -> str:
    """Returns what the URL answers."""
    import requests

    headers = {"Authorization": f"Bearer {hook.token}"} if hook.token else {}
    reason = ""
    for number in range(tries):
        time.sleep(PAUSE * 2 ** (number - 1) if number else 0)
        try:
            answer = requests.post(
                hook.url,
                json=outcome.message,
                headers=headers,
                timeout=LIMIT,
                allow_redirects=False,  # which would ask there for a page, and send nothing
            )
        except (requests.RequestException, ValueError) as error:
            reason = type(error).__name__  # whose text holds the URL
            continue
        said = f"{answer.status_code} {answer.reason}"
        if answer.status_code < 300:
            return said
        reason = f"it answers {said}"
        if answer.is_redirect:
            reason += "; give the URL that it leads to"
        if answer.status_code < 500 and answer.status_code != 429:
            break
    raise TriremeError(f"the webhook of {hook.secret} did not get the result of the run: {reason}")
