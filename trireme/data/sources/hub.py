"""Repositories of the Hugging Face Hub, and of servers with its API: models and datasets.

See https://huggingface.co/docs/hub/api. A revision is resolved to a commit once,
and files are read at that commit.
"""

import hashlib
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import requests

from trireme.credentials import secrets
from trireme.data.description import Dataset
from trireme.data.listing import Entry
from trireme.data.sources import Fault, SourceFailed, why_broken
from trireme.data.sources.web import TIMEOUT, Bearer, accepted, body, session
from trireme.data.uri import origin
from trireme.errors import InputError
from trireme.tracking import journal

SERVER = "https://huggingface.co"


class HubSource:
    """The files of a repository, or those below a path in it."""

    readers = 4

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self._uri = dataset, dataset.uri
        place = dataset.place
        server = dataset.endpoint or os.environ.get("HF_ENDPOINT") or SERVER
        self._server = (server if "://" in server else f"https://{server}").rstrip("/")
        self._session = session()
        secret = secrets.read(dataset.secret, dataset.purpose, ["token"])
        if dataset.secret and "token" not in secret:
            raise InputError(f"dataset_secret {dataset.secret!r} has no token")
        if secret:
            host = origin(self._server)[1]
            secrets.check_host("dataset_secret", dataset.secret, dataset.purpose, host)
        if token := secret.get("token") or self._token_of_environment():
            self._session.auth = Bearer(token, self._server)
        self._prefix = f"{place.path}/" if place.path else ""
        self._commit = ""

    def _token_of_environment(self) -> str:
        """Returns HF_TOKEN where it is for the server: the Hub's own, or HF_ENDPOINT."""
        named = (SERVER, os.environ.get("HF_ENDPOINT") or SERVER)
        is_its = origin(self._server) in map(origin, named)
        return os.environ.get("HF_TOKEN", "") if is_its else ""

    def list(self) -> list[Entry]:
        """Returns all files; see ``Source``."""
        place = self._dataset.place
        name = place.host.removeprefix("datasets/")
        kind = "models" if name == place.host else "datasets"
        repository = f"{self._server}/api/{kind}/{name}"
        try:
            with self._get(f"{repository}/revision/{quote(place.revision, safe='')}") as answer:
                self._commit = str(answer.json()["sha"])
            tree = self._tree(f"{repository}/tree/{self._commit}?recursive=true")
            files = {str(file["path"]): file for file in tree if file["type"] == "file"}
            if place.path in files:
                files = {place.path: files[place.path]}
                self._prefix = place.path.removesuffix(place.path.rpartition("/")[2])
            below = [path for path in files if path.startswith(self._prefix)]
            entries = [self._entry(path, files[path]) for path in below]
        except Fault as fault:
            raise SourceFailed(f"dataset_uri {self._uri!r} could not be read: {fault}") from None
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"dataset_uri {self._uri!r}: {self._server} does not answer as a Hugging Face Hub"
            ) from None
        if not entries:
            raise InputError(
                f"dataset_uri {self._uri!r}: the repository has no files there at commit "
                f"{self._commit[:12]}"
            )
        journal.log_tags({f"{self._dataset.purpose}.commit": self._commit})
        return entries

    def _tree(self, url: str) -> Iterator[dict[str, Any]]:
        while url:  # page by page
            with self._get(url) as answer:
                yield from answer.json()
                url = answer.links.get("next", {}).get("url", "")

    def _entry(self, path: str, described: dict[str, Any]) -> Entry:
        large = described.get("lfs")
        version = large["oid"] if large else described["oid"]
        return Entry(path.removeprefix(self._prefix), int(described["size"]), str(version))

    def read(self, entry: Entry, start: int, length: int) -> Iterator[bytes]:
        """Reads a part of a file; see ``Source``."""
        if length == 0:
            return
        path = quote(f"{self._prefix}{entry.name}")
        url = f"{self._server}/{self._dataset.place.host}/resolve/{self._commit}/{path}"
        is_whole = length == entry.size
        headers = {} if is_whole else {"Range": f"bytes={start}-{start + length - 1}"}
        digest = _digest(entry)
        with self._get(url, headers) as answer:
            if answer.status_code == 200:  # all of it: not every server gives parts
                for _ in body(answer, start):
                    pass
            for piece in body(answer, length):
                if is_whole:
                    digest.update(piece)
                yield piece
        if is_whole and digest.hexdigest() != entry.version:
            raise Fault(f"{entry.name!r} arrived with another hash than its repository has")

    def _get(self, url: str, headers: dict[str, str] | None = None) -> Any:
        try:
            answer = self._session.get(url, headers=headers, stream=True, timeout=TIMEOUT)
        except requests.RequestException as error:
            raise Fault(why_broken(str(error))) from None
        place, code = self._dataset.place, answer.headers.get("X-Error-Code", "")
        if code in ("RepoNotFound", "RevisionNotFound") and not (
            answer.status_code == 401 and self._withholds_token
        ):  # also with 401, of what may be private
            answer.close()
            raise InputError(
                f"dataset_uri {self._uri!r}: {self._server} has no {place.host} with revision "
                f"{place.revision}, or it is private and needs another token"
            )
        if answer.status_code in (401, 403) and self._withholds_token:
            answer.close()
            raise InputError(
                f"dataset_uri {self._uri!r}: {self._server} asks for a token, and HF_TOKEN is not "
                f"sent there: set HF_ENDPOINT={self._server} if it is for that server, or name a "
                "dataset_secret"
            )
        return accepted(answer, self._dataset, f"{self._server} does not have it")

    @property
    def _withholds_token(self) -> bool:
        return self._session.auth is None and bool(os.environ.get("HF_TOKEN"))


def _digest(entry: Entry) -> Any:
    """Returns what hashes a file as its repository does: those in LFS by SHA-256, others as git."""
    if len(entry.version) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % entry.size, usedforsecurity=False)
