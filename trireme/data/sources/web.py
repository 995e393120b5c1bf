"""One file from a web server."""

import re
import time
from collections.abc import Iterator
from typing import Any

import requests
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from trireme.credentials import secrets
from trireme.data.description import Dataset
from trireme.data.listing import Entry
from trireme.data.sources import PIECE, Fault, SourceFailed, changed, denied, why_broken
from trireme.data.uri import origin
from trireme.errors import InputError

KEYS = ("username", "password", "token")
"""The keys of a Secret: a user and a password, or a token."""

TIMEOUT = (10, 60)  # seconds to connect, and between two pieces of an answer

_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)")


class Bearer(requests.auth.AuthBase):
    """A token of one server; as a mere header it would give way to a password in ~/.netrc."""

    def __init__(self, token: str, url: str) -> None:
        self._token, self._origin = token, origin(url)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Adds the token to a request to its server, which may name another for what is next."""
        if origin(request.url or "") == self._origin:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class WebSource:
    """The file that a URL names, read in parts where the server can, else from its beginning."""

    readers = 4

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self._uri = dataset, dataset.uri
        self._session = session()
        secret = secrets.read(dataset.secret, dataset.purpose, KEYS)
        if dataset.secret and not ("token" in secret or {"username", "password"} <= set(secret)):
            raise InputError(
                f"dataset_secret {dataset.secret!r} has neither token nor username and password"
            )
        if secret:
            secrets.check_host(
                "dataset_secret", dataset.secret, dataset.purpose, dataset.place.host
            )
        if "token" in secret:
            self._session.auth = Bearer(secret["token"], self._uri)
        elif secret:
            self._session.auth = (secret["username"], secret["password"])
        self._strong = ""  # the ETag, where one byte's change changes it
        self._whole: requests.Response | None = None  # being read from its beginning
        self._at = 0

    def list(self) -> list[Entry]:
        """Returns the file; see ``Source``."""
        try:
            answer = self._get({"Range": "bytes=0-0"})
        except Fault as fault:
            raise SourceFailed(f"dataset_uri {self._uri!r} could not be read: {fault}") from None
        with answer:
            size = self._size(answer)
            etag = answer.headers.get("ETag", "")
            self._strong = "" if etag.startswith("W/") else etag
            version = etag or answer.headers.get("Last-Modified") or self._dataset.sha256
        # Without any of them nothing tells whether the file is as it was.
        entry = Entry(
            self._dataset.place.path, size, (version or str(time.time_ns())).replace("\0", "")
        )
        return [entry]

    def read(self, entry: Entry, start: int, length: int) -> Iterator[bytes]:
        """Reads a part of the file; see ``Source``."""
        if length == 0:
            return
        if self.readers == 1:
            yield from self._next(entry, start, length)
            return
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        if self._strong:
            headers["If-Match"] = self._strong
        with self._get(headers) as answer:
            if answer.status_code != 206:
                raise changed(self._uri, entry.name)
            self._refuse_another(answer, entry)
            match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            if not match or (match[1], match[3]) != (str(start), str(entry.size)):
                raise changed(self._uri, entry.name)
            yield from body(answer, length)

    def _next(self, entry: Entry, start: int, length: int) -> Iterator[bytes]:
        """Reads on, where the last call ended, or from the beginning as far as it takes."""
        if self._whole is None or self._at > start:
            self._whole, self._at = self._get({}), 0
            self._refuse_another(self._whole, entry)
        try:
            for piece in body(self._whole, start - self._at):
                self._at += len(piece)
            for piece in body(self._whole, length):
                self._at += len(piece)
                yield piece
        except Fault:
            self._whole.close()
            self._whole = None
            raise

    def _get(self, headers: dict[str, str]) -> Any:
        try:
            answer = self._session.get(self._uri, headers=headers, stream=True, timeout=TIMEOUT)
        except requests.RequestException as error:
            raise Fault(why_broken(str(error))) from None
        if answer.status_code == 412:
            answer.close()
            raise changed(self._uri, self._dataset.place.path)
        return accepted(answer, self._dataset, "there is no such file")

    def _size(self, answer: Any) -> int:
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if answer.status_code in (206, 416) and match:
            return int(match[3])
        length = answer.headers.get("Content-Length", "")
        if answer.status_code != 200 or not length.isdigit():
            raise InputError(
                f"dataset_uri {self._uri!r}: the server does not give the size of the file"
            )
        self.readers = 1  # it does not give parts
        return int(length)

    def _refuse_another(self, answer: Any, entry: Entry) -> None:
        etag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        length = answer.headers.get("Content-Length")
        if (etag and etag != entry.version) or (
            answer.status_code == 200 and length != str(entry.size)
        ):
            raise changed(self._uri, entry.name)


def session() -> requests.Session:
    """Returns what asks servers again where they fail for a moment."""
    client = requests.Session()
    retry = Retry(
        total=5,
        backoff_factor=0.3,
        status_forcelist=(429, 500, 502, 503, 504),
        raise_on_status=False,
        respect_retry_after_header=True,
    )
    for scheme in ("http://", "https://"):
        client.mount(scheme, requests.adapters.HTTPAdapter(max_retries=retry))
    client.headers["Accept-Encoding"] = "identity"
    return client


def accepted(answer: Any, dataset: Dataset, missing: str) -> Any:
    """Returns an answer that holds what was asked for; ``missing`` says what 404 means."""
    status = answer.status_code
    if status in (200, 206, 416):
        return answer
    answer.close()
    if status in (401, 403):
        raise denied(dataset, f"status {status}")
    if status in (404, 410):
        raise InputError(f"dataset_uri {dataset.uri!r}: {missing}")
    if status == 429 or status >= 500:
        raise Fault(f"the server answered status {status}")
    raise InputError(f"dataset_uri {dataset.uri!r}: the server refuses it (status {status})")


def body(answer: Any, length: int) -> Iterator[bytes]:
    """Reads on in an answer's body."""
    try:
        while length:
            piece = answer.raw.read(min(PIECE, length))
            if not piece:
                raise Fault("the answer ended early")
            length -= len(piece)
            yield piece
    except OSError as error:
        raise Fault(why_broken(str(error))) from None
    except HTTPError:
        raise Fault("the connection broke") from None
