"""The keys of a bucket as they are, also those that are no path, of which obstore lists nothing.

See https://github.com/developmentseed/obstore/issues/429. It signs the requests nevertheless, with
whatever credentials it finds, by a store whose endpoint holds the query.
"""

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_plus, urlencode
from xml.etree import ElementTree

import obstore
import requests

from trireme.data.description import Dataset
from trireme.data.sources import Fault, why_broken
from trireme.data.sources.stores import answered, bucket_of
from trireme.data.sources.web import TIMEOUT, session
from trireme.errors import InputError

_UNSIGNED = {"s3": "AWS_SKIP_SIGNATURE", "gs": "GOOGLE_SKIP_SIGNATURE"}
"""Variables by which the library reads public buckets."""

_VALID = timedelta(hours=1)


class Key(NamedTuple):
    """An object as a bucket lists it."""

    name: str
    size: int
    e_tag: str | None
    last_modified: datetime


def keys_of(dataset: Dataset, prefix: str) -> Iterator[Key]:
    """Yields what a bucket holds under a prefix, in the order of the keys.

    Raises:
        Fault: The network's.
        InputError: The store refuses it, or does not list objects as S3 does.
        obstore.exceptions.BaseError: There are no credentials.
    """
    query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
    client = session()
    client.auth = lambda request: request  # or a password in ~/.netrc would go along
    while True:
        try:
            answer = client.get(_url(dataset, query), timeout=TIMEOUT)
        except requests.RequestException as error:
            raise Fault(why_broken(str(error))) from None
        if answer.status_code != 200:
            raise answered(answer.text, answer.status_code, dataset)
        try:
            page = ElementTree.fromstring(answer.content)
            yield from list(_keys(page))
        except (ElementTree.ParseError, ValueError):
            raise InputError(
                f"dataset_uri {dataset.uri!r}: the server does not list objects as S3 does"
            ) from None
        query["continuation-token"] = page.findtext("{*}NextContinuationToken", "")
        if page.findtext("{*}IsTruncated") != "true" or not query["continuation-token"]:
            return


def _keys(page: ElementTree.Element) -> Iterator[Key]:
    # XML has no control characters, and a server need not know that it is to encode them.
    is_encoded = page.findtext("{*}EncodingType") == "url"
    for item in page.iterfind("{*}Contents"):
        name = item.findtext("{*}Key", "")
        yield Key(
            unquote_plus(name) if is_encoded else name,
            int(item.findtext("{*}Size", "")),
            item.findtext("{*}ETag"),
            datetime.fromisoformat(item.findtext("{*}LastModified", "")),
        )


def _url(dataset: Dataset, query: dict[str, str]) -> str:
    """Returns the URL that answers a query about a bucket."""
    # The library appends the path of an object. AWS's own ones send x-id, which servers ignore.
    encoded = urlencode(query | {"x-id": ""}, quote_via=quote)
    if dataset.place.kind == "gs":
        server = os.environ.get("GOOGLE_BASE_URL", "https://storage.googleapis.com")
        address = f"{server}/{dataset.place.host}"
        options: dict[str, Any] = {"base_url": f"{address}?{encoded}"}
    else:
        # Where the bucket is, as the library has it, for which it needs no credentials.
        none: dict[str, Any] = {"access_key_id": "-", "secret_access_key": "-"}
        bucket = bucket_of(dataset, none | {"skip_signature": False}, is_opened=False)
        address = obstore.sign(bucket, "GET", "x", _VALID).partition("?")[0].removesuffix("/x")
        options = {"endpoint": f"{address}?{encoded}", "virtual_hosted_style_request": True}
    if _is_public(dataset):
        return f"{address}?{encoded}"
    return obstore.sign(bucket_of(dataset, options), "GET", "x", _VALID)


def _is_public(dataset: Dataset) -> bool:
    kind = dataset.place.kind
    unsigned = os.environ.get(_UNSIGNED.get(kind, ""), "").lower()
    return not dataset.secret and (kind == "oss" or unsigned in ("1", "true", "on", "yes", "y"))
