"""A dataset that lies in the repository: it is no code, and is shown where it lies."""

import os
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from trireme.code import snapshot
from trireme.code import url as urls
from trireme.data import uri as uris
from trireme.text.say import say

_NEEDED = ("code_url", "code_revision", "code_directory", "code_without", "dataset_uri", "job")


def apart(given: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
    """Returns values with which a dataset in the code's repository is no part of the code.

    The program finds it where it lies all the same. What git has whole stays code.

    Args:
        given: Values of a pipeline's parameters, by name.
        known: The pipeline's parameters.
    """
    if not all(name in known for name in _NEEDED) or given.get("code_without"):
        return {}
    url, revision = given.get("code_url", ""), given.get("code_revision", "")
    data = _folder(given.get("dataset_uri", ""))
    if not (data and snapshot.is_meant(url, revision)):
        return {}
    top = urls.directory(url)
    code = (top / given.get("code_directory", "")).resolve()
    if not data.is_relative_to(top) or code.is_relative_to(data):
        return {}
    inside, at = data.relative_to(top).as_posix(), Path(os.path.relpath(data, code)).as_posix()
    job = given.get("job") or {}
    if job.get("data_at", at) != at or snapshot.is_committed(url, inside):
        return {}
    say(f"{inside} is the dataset and no code; the program finds it where it lies")
    return {"code_without": [inside], "job": job | {"data_at": at}}


def _folder(uri: str) -> Path | None:
    """Returns the folder of this machine that a dataset is; one that is a link by its own name."""
    place = uris.place(uri) if uri else None
    if not place or place.kind != "file" or not urls.is_directory(place.path):
        return None
    path = Path(place.path).expanduser().absolute()
    return path.resolve() if path.name == ".." else path.parent.resolve() / path.name
