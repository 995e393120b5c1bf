"""Following the objects of a resource as they change, over one connection at a time."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from urllib3.exceptions import HTTPError

from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Expired
from trireme.kubernetes.resources import Resource
from trireme.kubernetes.streams import Stop, lines
from trireme.process import patience

RENEW = 60  # seconds after which a watch is opened anew, so that none is followed that is dead
SLACK = 15  # seconds that the server may be late in ending it


@dataclass(frozen=True)
class Change:
    """An object that is new, has changed or is gone."""

    object: dict[str, Any]
    gone: bool = False


def changes(
    cluster: Cluster, resource: Resource, namespace: str, stop: Stop, **selectors: str
) -> Iterator[Change]:
    """Yields every object that there is, then each one that changes, until told to stop.

    A watch that breaks goes on from the version it had come to. Where the server no longer
    knows that version (410 Gone) all objects are listed again, and what has changed or gone
    meanwhile is yielded as if it had been watched.
    https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
    """
    store: dict[str, dict[str, Any]] = {}
    version, pauses = "", patience.Pauses()
    while not stop.is_set():
        began, heard = time.monotonic(), False
        try:
            if not version:
                listing = cluster.list(resource, namespace, stop=stop, **selectors)
                version = listing["metadata"]["resourceVersion"]
                yield from _differences(store, listing.get("items") or [])
            for event in _events(cluster, resource, namespace, version, stop, selectors):
                version = event["object"]["metadata"]["resourceVersion"]
                heard = True
                if event["type"] != "BOOKMARK":
                    yield _taken_in(store, event)
        except Expired:
            version = ""
        except (HTTPError, ValueError):
            pass  # ValueError: the connection broke in the middle of an event
        # However a watch ends, even well: if that is at once, so may the next one.
        lasted = time.monotonic() - began
        stop.wait(max(0.0, pauses.take() - lasted))
        if heard or lasted > patience.LONGEST_PAUSE:
            pauses.start_anew()


def _events(
    cluster: Cluster,
    resource: Resource,
    namespace: str,
    version: str,
    stop: Stop,
    selectors: dict[str, str],
) -> Iterator[dict[str, Any]]:
    query = [
        *selectors.items(),
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", version),
        ("timeoutSeconds", str(RENEW)),
    ]
    response = cluster.stream(resource, resource.path(namespace), query, stop, RENEW + SLACK)
    with stop.reading(response):
        for line in lines(response):
            event = json.loads(line)
            if event["type"] != "ERROR":
                yield event
            elif event["object"].get("code") == 410:
                raise Expired(event["object"].get("message", "too old resource version"))
            else:
                raise HTTPError(event["object"].get("message"))


def _taken_in(store: dict[str, dict[str, Any]], event: dict[str, Any]) -> Change:
    changed, gone = event["object"], event["type"] == "DELETED"
    if gone:
        store.pop(changed["metadata"]["uid"], None)
    else:
        store[changed["metadata"]["uid"]] = changed
    return Change(changed, gone)


def _differences(store: dict[str, dict[str, Any]], items: list[dict[str, Any]]) -> Iterator[Change]:
    now = {item["metadata"]["uid"]: item for item in items}
    for uid in store.keys() - now.keys():
        yield Change(store.pop(uid), gone=True)
    for uid, item in now.items():
        before = store.get(uid)
        store[uid] = item
        if before is None or _version(before) != _version(item):
            yield Change(item)


def _version(item: dict[str, Any]) -> str:
    return item["metadata"]["resourceVersion"]
