"""Tell a URL what came of a run."""

import time

from trireme.credentials import secrets
from trireme.errors import InputError, TriremeError
from trireme.finish.outcome import Outcome

TRIES = 4
PAUSE = 1.0  # seconds before the second try; doubled before each further one
LIMIT = 10.0  # seconds that an answer may take


def send(secret: str, outcome: Outcome, tries: int = TRIES) -> None:
    """Posts what came of a run as JSON to the ``url`` of a Secret.

    With a ``token`` in it, that goes along as a bearer token. The URL is a secret of its own: who
    knows it can post.
    """
    import requests

    keys = secrets.read(secret, "webhook", ("url", "token"))
    url = keys.get("url", "")
    if not url.startswith(("http://", "https://")):
        raise InputError(f"webhook_secret {secret!r}: has no key url with an http or https URL")
    headers = {"Authorization": f"Bearer {keys['token']}"} if "token" in keys else {}
    reason = ""
    for number in range(tries):
        time.sleep(PAUSE * 2 ** (number - 1) if number else 0)
        try:
            answer = requests.post(
                url,
                json=outcome.message,
                headers=headers,
                timeout=LIMIT,
                allow_redirects=False,  # which would ask there for a page, and send nothing
            )
        except (requests.RequestException, ValueError) as error:
            reason = type(error).__name__  # whose text holds the URL
            continue
        if answer.status_code < 300:
            return
        reason = f"it answers {answer.status_code} {answer.reason}"
        if answer.is_redirect:
            reason += "; give the URL that it leads to"
        if answer.status_code < 500 and answer.status_code != 429:
            break
    raise TriremeError(f"the webhook of {secret} did not get the result of the run: {reason}")
