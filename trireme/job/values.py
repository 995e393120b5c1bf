"""The values that the description of a training job is made of, each checked by itself."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from trireme.data.description import Dataset
from trireme.errors import InputError
from trireme.frameworks import FRAMEWORKS
from trireme.kubernetes.amounts import quantity

LARGEST = 2**63 - 1  # what Kubernetes counts up to
MEBIBYTE = 2**20
LONGEST = 2**17 - 1024  # bytes of an argument or variable: MAX_ARG_STRLEN, its name included

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
_LABEL_VALUE = r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?"
_LABEL_NAME = r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_PREFIX = rf"(?=[^/]{{1,253}}/){_LABEL}(\.{_LABEL})*/"
# https://github.com/distribution/reference/blob/v0.6.0/regexp.go
_HOST = r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*"
_PATH = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
_IMAGE = (
    rf"((?=[^/]*[.:][^/]*/|localhost/){_HOST}(:[0-9]+)?/)?{_PATH}(/{_PATH})*"
    r"(:[A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?(@[A-Za-z0-9+._-]+:[0-9a-fA-F]{32,})?"
)


def _as_text(value: Any) -> Any:
    """Turns the numbers that YAML reads where a text is meant, as in ``cpu: 4``, into text."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    return text


def _short_enough(text: str) -> str:
    if len(text.encode(errors="replace")) > LONGEST:
        raise ValueError(f"is {len(text)} characters long, and no process can be started with that")
    return text


def _described(dataset: Any) -> Any:
    """Returns a dataset that is given by its URI alone as one that says more could be."""
    if not isinstance(dataset, str):
        return dataset
    try:
        return Dataset.from_text(dataset)
    except InputError as error:
        raise ValueError(str(error).removeprefix(f"dataset_uri {dataset!r}: ")) from None


def _matching(pattern: str, expected: str) -> AfterValidator:
    fits = re.compile(pattern).fullmatch  # once, for every fork of this process

    def check(text: str) -> str:
        if not fits(text):
            raise ValueError(f"must be {expected}")
        return text

    return AfterValidator(check)


def _quantity(least: Decimal, bounds: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        try:
            is_right = least <= quantity(text) <= LARGEST
        except ValueError:
            is_right = False
        if not is_right:
            raise ValueError(f"must be a Kubernetes quantity {bounds}")
        return text

    return check


def _is_framework(name: str) -> str:
    if name not in FRAMEWORKS:
        *first, last = map(repr, FRAMEWORKS)
        raise ValueError(f"must be {', '.join(first)} or {last}")
    return name


def _is_path(path: str) -> str:
    if not path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise ValueError("must be an absolute path, without '..'")
    return "/" + str(PurePosixPath(path)).lstrip("/")


def _holds_no_password(uri: str) -> str:
    if re.match(r"\w+://[^/@\s]+@", uri):
        raise ValueError(
            "must not hold a user, password or token; give MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD in secret_env"
        )
    return uri


def _is_extended(name: str) -> str:
    # https://github.com/kubernetes/kubernetes/blob/v1.31.0/pkg/apis/core/v1/helper/helpers.go
    domain = name.partition("/")[0]
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        raise ValueError("must be a device plugin's name, which none below kubernetes.io is")
    return name


_FromNumber = BeforeValidator(_as_text, json_schema_input_type=str | int | float)

Text = Annotated[str, _FromNumber, AfterValidator(_no_nul)]
"""A text; a number in YAML is taken for its text."""

Argument = Annotated[Text, AfterValidator(_short_enough)]
"""A text that a process can be started with."""

Cpu = Annotated[
    str,
    _FromNumber,
    AfterValidator(_quantity(Decimal("0.001"), "of at least 1m, as in 500m or 4")),
]
"""CPUs as Kubernetes writes them: ``500m`` is half a one."""

Bytes = Annotated[
    str,
    _FromNumber,
    AfterValidator(_quantity(Decimal(MEBIBYTE), "of at least 1Mi, as in 512Mi or 16Gi")),
]
"""Memory as Kubernetes writes it: a number of bytes, or one with a unit."""

AbsolutePath = Annotated[str, AfterValidator(_no_nul), AfterValidator(_is_path)]
"""A path in the container, without ``//`` or a ``/`` at its end."""

ObjectName = Annotated[
    str,
    _matching(
        rf"(?=.{{1,253}}\Z){SUBDOMAIN}",
        "the name of a Kubernetes object: at most 253 lower-case letters, digits, - and .",
    ),
]
"""The name of something in the cluster."""

QueueName = Annotated[
    str,
    _matching(
        rf"(?=.{{1,63}}\Z){SUBDOMAIN}",
        "the name of a queue: at most 63 lower-case letters, digits, - and .",
    ),
]
"""The name of a queue, which is also the value of a label."""

LabelKey = Annotated[
    str,
    _matching(
        rf"({_PREFIX})?{_LABEL_NAME}",
        "a key as Kubernetes takes it, as in team or example.org/team",
    ),
]
"""The key of a label or an annotation."""

LabelValue = Annotated[
    str,
    _FromNumber,
    _matching(_LABEL_VALUE, "a label's value: at most 63 letters, digits, -, _ and ."),
]
"""The value of a label."""

VariableName = Annotated[
    str, _matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")
]
"""The name of an environment variable."""

DeviceName = Annotated[
    str,
    _matching(
        rf"(?!requests\.){_PREFIX}{_LABEL_NAME}", "a device plugin's name, as in amd.com/gpu"
    ),
    AfterValidator(_is_extended),
]
"""The name of an extended resource."""

SecretKey = Annotated[
    str,
    _matching(
        rf"(?=[^/]{{1,253}}/){_LABEL}(\.{_LABEL})*/(?!\.\.|\.\Z)[-._A-Za-z0-9]{{1,253}}",
        "a Secret's name and one of its keys, as in mlflow/password",
    ),
]
"""``secret/key``: a key of a Secret."""

Image = Annotated[
    str, _matching(rf"({_IMAGE})?", "a container image, as in example.org/team/train:1.2")
]
"""A reference to a container image; empty for the default one."""

ModuleName = Annotated[
    str, _matching(r"[^\W\d]\w*(\.[^\W\d]\w*)*", "the name of a Python module, as in package.train")
]
"""The name of a Python module."""

TrackingUri = Annotated[str, AfterValidator(_no_nul), AfterValidator(_holds_no_password)]
"""A tracking URI of MLflow."""

Interfaces = Annotated[
    str,
    _matching(
        r"[-.:A-Za-z0-9_]{1,15}(,[-.:A-Za-z0-9_]{1,15})*",
        "the name of a network interface, as in eth0, or several with commas",
    ),
]
"""Network interfaces."""

NcclName = Annotated[str, _matching(r"NCCL_[A-Z0-9_]+", "a variable of NCCL, as in NCCL_DEBUG")]
"""The name of one of NCCL's variables."""

FrameworkName = Annotated[
    str, AfterValidator(_is_framework), WithJsonSchema({"enum": list(FRAMEWORKS), "type": "string"})
]
"""The name of a framework."""

CONNECTIONS = [f"{framework.name} {framework.connects_by}" for framework in FRAMEWORKS.values()]
"""What connects the replicas of each."""

Seconds = Annotated[int, Field(ge=1, le=2**31 - 1)]

Count = Annotated[int, Field(ge=1, le=1000)]

RestartPolicy = Literal["Never", "OnFailure", "Always", "ExitCode"]

DatasetOrUri = Annotated[Dataset, BeforeValidator(_described, json_schema_input_type=str | Dataset)]
"""A dataset, by its URI where nothing else is to be said."""
