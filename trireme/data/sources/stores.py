"""Opening a bucket of an object store, and saying what a store answered in a sentence."""

import ipaddress
import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import GCSStore, S3Store

from trireme.credentials import secrets
from trireme.data.description import Dataset
from trireme.data.sources import Fault, SourceFailed, denied, why_broken
from trireme.data.uri import origin
from trireme.errors import InputError, TriremeError, first_line

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

KEYS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "oss": ("akId", "akSecret"),  # as in the Secrets of Alibaba's CSI driver
    "gs": ("service-account.json",),
}
"""The keys of a Secret for each kind of store."""

_ENDPOINTS = (
    *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "MLFLOW_S3_ENDPOINT_URL",  # beside which pods have the keys of MLflow's store
)
_KEYS_OF_ENVIRONMENT = {
    *("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
}

# Not all in that domain is Amazon's own: anybody's API is at ID.execute-api.REGION.amazonaws.com.
# https://docs.aws.amazon.com/general/latest/gr/s3.html
_AMAZONS = re.compile(
    r"([^.]+\.)*s3(express)?(-[a-z0-9-]+)?(\.dualstack)?(\.[a-z]+(-[a-z]+)+-\d+)?(\.vpce)?"
    r"\.amazonaws\.com(\.cn)?"
)

READ_TIMEOUT = 60  # seconds without a byte

_RETRIES: "RetryConfig" = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "base": 2,
        "init_backoff": timedelta(seconds=0.2),
        "max_backoff": timedelta(seconds=10),
    },
}
_URL = re.compile(r"https?://\S+")
_STATUS = re.compile(r"status code: (\d{3})|\((\d{3}) [A-Z]")
# Where the libraries look for credentials when nobody has given them any.
_LOOKED_FOR = re.compile(r"https?://(169\.254\.|metadata\.google)|performing token request")
_CODE = re.compile(r"<Code>([\w.]{1,80})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")


def bucket_of(
    dataset: Dataset, changed: dict[str, Any] | None = None, *, is_opened: bool = True
) -> S3Store | GCSStore:
    """Returns the bucket that a dataset is in.

    Args:
        changed: What of the library's configuration is another than the dataset's.
        is_opened: Whether with the dataset's credentials, which ``changed`` has otherwise.
    """
    kind, bucket = dataset.place.kind, dataset.place.host
    secret = secrets.read(dataset.secret, dataset.purpose, KEYS[kind])
    missing = [key for key in KEYS[kind] if key not in secret and key != "AWS_SESSION_TOKEN"]
    if dataset.secret and missing:
        raise InputError(f"dataset_secret {dataset.secret!r} has no {' and no '.join(missing)}")
    if kind == "gs":
        account = {"service_account_key": secret["service-account.json"]} if secret else {}
        return GCSStore(bucket, retry_config=_RETRIES, **account | (changed or {}))
    if secret and dataset.endpoint:
        host = origin(dataset.endpoint)[1]
        secrets.check_host("dataset_secret", dataset.secret, dataset.purpose, host)
    if kind == "s3" and not secret and is_opened:
        _refuse_elsewhere(dataset)
    config = _oss(dataset) if kind == "oss" else _s3(dataset)
    config |= (_credentials(secret, kind) if is_opened else {}) | (changed or {})
    endpoint = config.get("endpoint")
    client: ClientConfig = {
        "timeout": timedelta(days=1),  # a slow line takes its time for a block
        "read_timeout": timedelta(seconds=READ_TIMEOUT),
        "connect_timeout": timedelta(seconds=10),
        # An address from the environment is the library's to read, so it is to be allowed too.
        "allow_http": not endpoint or endpoint.startswith("http://"),
    }
    settings = {name: value for name, value in config.items() if value is not None}
    try:
        return S3Store(bucket, retry_config=_RETRIES, client_options=client, **settings)
    except BaseError as error:  # which has a page of debugging below its first line
        raise InputError(
            f"dataset_uri {dataset.uri!r}: the environment's variables of S3 do not fit together: "
            f"{first_line(error)}"
        ) from None


def _refuse_elsewhere(dataset: Dataset) -> None:
    """Refuses to sign for a server with keys of the environment or the machine that are not its."""
    is_public = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true", "on", "yes", "y")
    if not dataset.endpoint or is_public:
        return
    scheme, host, _ = to = origin(dataset.endpoint)
    is_amazons = scheme == "https" and _AMAZONS.fullmatch(host)
    if is_amazons or to in map(origin, filter(None, map(os.environ.get, _ENDPOINTS))):
        return
    if keys := _KEYS_OF_ENVIRONMENT & os.environ.keys():
        raise InputError(
            f"dataset_options.endpoint {dataset.endpoint!r}: {min(keys)} of the environment is not "
            f"for that server; set AWS_ENDPOINT_URL={_url(dataset.endpoint)} if it is, name a "
            "dataset_secret, or set AWS_SKIP_SIGNATURE=true for a public bucket"
        )
    raise _nobodys(dataset)  # an instance of Amazon's has a role, whose token would be sent


def _credentials(secret: secrets.Secret, kind: str) -> dict[str, Any]:
    """Returns what a store is opened with, so that nothing of the environment is mixed in."""
    if secret:
        names = ("access_key_id", "secret_access_key", "token")
        values = dict(zip(names, map(secret.get, KEYS[kind]), strict=False))
        return {"credential_provider": lambda: values | {"expires_at": None}}
    # What the environment may hold is Amazon's.
    return {"skip_signature": True} if kind == "oss" else {}


def _s3(dataset: Dataset) -> dict[str, Any]:
    environment = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return {
        "endpoint": _url(dataset.endpoint) if dataset.endpoint else None,
        "region": dataset.region or environment or "us-east-1",
    }


def _oss(dataset: Dataset) -> dict[str, Any]:
    """OSS speaks S3's language when the bucket is part of the server's name.

    https://www.alibabacloud.com/help/en/oss/developer-reference/compatibility-with-amazon-s3
    """
    endpoint = _url(dataset.endpoint or f"https://oss-{dataset.region}.aliyuncs.com")
    parts = urlsplit(endpoint)
    named = re.match(r"(?:s3\.)?(oss-[a-z0-9-]+?)(-internal)?\.aliyuncs\.com", parts.hostname or "")
    config: dict[str, Any] = {"region": dataset.region or (named[1] if named else "oss")}
    if _is_address(parts.hostname or ""):
        return config | {"endpoint": endpoint}
    virtual = f"{parts.scheme}://{dataset.place.host}.{parts.netloc}"
    return config | {"endpoint": virtual, "virtual_hosted_style_request": True}


def _url(endpoint: str) -> str:
    return (endpoint if "://" in endpoint else f"https://{endpoint}").rstrip("/")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def explained(error: BaseError, dataset: Dataset) -> TriremeError | Fault:
    """Returns what a store's error means to a person, with nothing secret in it."""
    text, uri = str(error), dataset.uri
    if _LOOKED_FOR.search(text):
        return _nobodys(dataset)
    text = _URL.sub("", text)  # which holds names that could be taken for what is looked for
    match = _STATUS.search(text)
    if status := int(match[1] or match[2]) if match else 0:
        return answered(text, status, dataset)
    if "non-partial response" in text:
        return InputError(
            f"dataset_uri {uri!r}: the server does not answer requests for a part of an object as "
            "S3 does (status 206), and large objects are read in parts"
        )
    return Fault(_words(text))


def _nobodys(dataset: Dataset) -> InputError:
    public = ", or set AWS_SKIP_SIGNATURE=true for a public bucket"
    return InputError(
        f"dataset_uri {dataset.uri!r}: there are no credentials; name a dataset_secret"
        + public * (dataset.place.kind == "s3")
    )


def answered(text: str, status: int, dataset: Dataset) -> TriremeError | Fault:
    """Returns what an answer of a store means that is no success."""
    uri, words = dataset.uri, _words(text, status)
    if status in (401, 403):
        return denied(dataset, words)
    if status == 404:
        return InputError(f"dataset_uri {uri!r}: there is no such bucket or object ({words})")
    if status in (408, 429) or status >= 500:
        return Fault(f"the store answered {words}")
    return InputError(f"dataset_uri {uri!r}: the store refuses the request ({words})")


def unreachable(dataset: Dataset, fault: Fault) -> SourceFailed:
    """Returns the error for a source that stayed away."""
    where = f" from {_url(dataset.endpoint)}" if dataset.endpoint else ""
    return SourceFailed(f"dataset_uri {dataset.uri!r} could not be read{where}: {fault}")


def _words(text: str, status: int = 0) -> str:
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code:
        return f"{code[1]}: {message[1]}" if message else code[1]
    if status:
        return f"status {status}"
    return why_broken(text)
