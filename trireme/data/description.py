"""The description of a dataset."""

import hashlib
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from trireme import plugins
from trireme.credentials import secrets
from trireme.data import uri as uris
from trireme.data.patterns import Excluded, Included
from trireme.data.uri import CLAIM, MOUNTED, STORES, Place
from trireme.errors import InputError
from trireme.strict_model import StrictModel, dotted
from trireme.text.json_values import whole

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENDPOINT = re.compile(r"(https?://)?[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?(:[0-9]{1,5})?/?")
_NOT_OF_THE_FILES = ("secret", "access", "cache", "fingerprint", "holdout", "label")
_REGION = re.compile(r"[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?")


def _is_place(uri: str) -> str:
    try:
        uri.encode()
    except UnicodeEncodeError:
        raise ValueError("is no UTF-8, as a path has to be") from None
    try:
        uris.place(uri)
    except InputError as error:
        raise ValueError(str(error).removeprefix(f"dataset_uri {uri!r}: ")) from None
    return uri


def _is_name(secret: str) -> str:
    try:
        secrets.check("secret", secret)
    except InputError as error:
        raise ValueError(str(error)) from None
    return secret


def _matching(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            shown = f"...@{text.rpartition('@')[2]}" if "@" in text else text
            raise ValueError(f"{shown!r} must be {expected}")
        return text

    return AfterValidator(check)


def takes_secret(kind: str) -> bool:
    """Whether a kind of place can be opened with credentials."""
    if kind in (*STORES, *MOUNTED, "http", "hf", "file", "builtin", "models"):
        return kind in (*STORES, "http", "hf")
    source = plugins.load(uris.added()[kind])
    return bool(getattr(source, "takes_secret", False))


class Dataset(StrictModel):
    """A dataset: where it is, how it is reached, and which part of it is meant."""

    model_config = ConfigDict(hide_input_in_errors=True)

    purpose: ClassVar[str] = "dataset"
    """What it is for a run, of which the names of its Secret, its tags and its metrics are made."""

    uri: Annotated[str, AfterValidator(_is_place)]
    """Where it is: a path, file://, builtin://digits, pvc://claim/path, nfs://server/path, oss://bucket/path,
    s3://bucket/path, gs://bucket/path, hf://org/name@revision, hf://datasets/org/name, https:// or
    http://."""

    secret: Annotated[str, AfterValidator(_is_name)] = ""
    """The Secret that holds the credentials; empty: what the environment offers."""

    endpoint: (
        Annotated[str, _matching(_ENDPOINT, "a server, as in https://storage.example.org")] | None
    ) = None
    """The server of oss://, of an S3-compatible s3:// and of hf://."""

    region: Annotated[str, _matching(_REGION, "a region, as in cn-hangzhou")] | None = None
    """The region of oss:// and s3://."""

    include: Included = []
    """Patterns of the files that are meant, as in *.jpg or train/**; none: all of them."""

    exclude: Excluded = []
    """Patterns of the files that are left out, also of those included."""

    sha256: Annotated[str, _matching(_SHA256, "64 hexadecimal digits")] | None = None
    """The SHA-256 that the file of an https:// or http:// URL must have."""

    access: Literal["mount", "stage"] | None = None
    """Mounted into the pods, or copied to a cache; by default pvc:// and nfs:// are mounted."""

    cache: Annotated[str, _matching(CLAIM, "the name of a claim")] | None = None
    """The claim of a volume, ReadWriteMany, with a cache that the jobs of a cluster share; none:
    each pod has a copy of its own. Here jobs and pipelines share one anyhow."""

    fingerprint: Literal["times", "content"] = "times"
    """What the fingerprint of mounted data is made of in a pipeline: names, sizes and times, or
    all of it, read. Of data that is copied it is always the content."""

    holdout: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of the samples that becomes the split test, which training does not see; of a CSV
    or Parquet file, a train.npz, or pictures in folders. None: the dataset has what it has."""

    label: Annotated[str, Field(min_length=1)] | None = None
    """The column of a table with the labels; none: the one called label, target, y or class."""

    @model_validator(mode="after")
    def _fits_the_kind(self) -> Self:
        kind = self.place.kind
        if self.label and self.holdout is None:
            raise ValueError(
                "label goes with holdout; elsewhere dataset.json names it, as in "
                """{"label": "COLUMN"}"""
            )
        if kind == "models" and self.purpose != "base_model":
            raise ValueError("models:/ goes with a base model, not with a dataset")
        if self.holdout is not None and self.purpose != "dataset":
            raise ValueError("holdout goes with a dataset, not with a base model")
        if self.holdout is not None and self.way == "mount":
            raise ValueError(f"holdout does not go with {kind}:// that is mounted")
        if kind in MOUNTED and self.access == "stage":
            raise ValueError(f"access 'stage' does not go with {kind}://, which is mounted")
        if self.access == "mount" and kind not in (*MOUNTED, "oss", "s3"):
            raise ValueError("access 'mount' goes with pvc://, nfs://, oss:// and s3:// only")
        if self.way == "mount" and self.cache:
            raise ValueError("cache does not go with access 'mount'")
        if self.way == "mount" and (self.include or self.exclude):
            raise ValueError("include and exclude do not go with access 'mount'")
        if self.endpoint and kind not in ("oss", "s3", "hf"):
            raise ValueError("endpoint goes with oss://, s3:// and hf:// only")
        if self.region and kind not in ("oss", "s3"):
            raise ValueError("region goes with oss:// and s3:// only")
        if kind == "oss" and not (self.endpoint or self.region):
            raise ValueError("oss:// needs endpoint or region, as in region cn-hangzhou")
        if self.sha256 and kind != "http":
            raise ValueError("sha256 goes with https:// and http:// only")
        if self.secret and not takes_secret(kind):
            raise ValueError(f"secret does not go with {kind}:")
        if self.secret and self.way == "mount" and kind == "s3":
            raise ValueError(
                "secret does not go with access 'mount' of s3://, whose driver takes the "
                "credentials of the node or of a service account"
            )
        return self

    @classmethod
    def from_text(cls, uri: str) -> Self:
        """Describes a dataset by its URI alone."""
        uris.place(uri)
        try:
            return cls(uri=uri)
        except ValidationError as error:
            message = str(error.errors()[0]["ctx"]["error"])
            raise InputError(f"dataset_uri {uri!r}: {message}") from None

    @property
    def place(self) -> Place:
        """The URI taken apart."""
        return uris.place(self.uri)

    @property
    def key(self) -> str:
        """What stands for the URI with its options, but for those of the way to and from it."""
        identity = self.model_dump_json(exclude=set(_NOT_OF_THE_FILES))
        return hashlib.sha256(identity.encode()).hexdigest()[:32]

    @property
    def way(self) -> Literal["mount", "stage"]:
        """How the data reaches a program: as ``access`` says, else by the kind."""
        return self.access or ("mount" if self.place.kind in MOUNTED else "stage")


def described(
    uri: str, secret: str, options: dict[str, Any], model: type[Dataset] = Dataset
) -> Dataset:
    """Describes a dataset, or what is ``model``, by the parameters of a pipeline."""
    options = whole(options)
    if "cache" in options:
        raise InputError(
            "dataset_options.cache: a pipeline gets it when it is compiled, with --cache-claim"
        )
    for name in ("uri", "secret"):
        if name in options:
            raise InputError(f"dataset_options.{name}: give it as the parameter dataset_{name}")
    if secret == secrets.DEFAULTS[model.purpose] and not takes_secret(uris.place(uri).kind):
        secret = ""
    return of_fields(uri, {"secret": secrets.given(secret, model.purpose)} | options, model)


def of_fields(uri: str, fields: dict[str, Any], model: type[Dataset] = Dataset) -> Dataset:
    """Describes a dataset by its fields; errors call them as a pipeline's parameters are called."""
    try:
        return model(**{"uri": uri} | fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = dotted(first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        named = f"dataset_uri {uri!r}"
        field = {"": named, "uri": named, "secret": "dataset_secret"}.get(path)
        raise InputError(f"{field or f'dataset_options.{path}'}: {message}") from None


def check_here(dataset: Dataset) -> None:
    """Refuses a dataset that cannot be staged here, or that names nothing."""
    refuse_mounted(dataset)
    if dataset.place.kind == "file":
        uris.local(dataset.uri)


def refuse_mounted(dataset: Dataset) -> None:
    """Refuses a dataset that only a cluster can bring to a program."""
    if dataset.way == "mount":
        raise InputError(
            f"dataset_uri {dataset.uri!r}: is mounted, which needs a cluster; on this machine "
            "give a path, or a kind that can be staged"
        )
