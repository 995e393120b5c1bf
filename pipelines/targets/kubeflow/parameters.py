"""Parameter values that Kubeflow Pipelines would not hand on as they are."""

import json
import math
import re
from typing import Any

from trireme.components.errors import InputError

WHOLE = 2**53  # up to which a double holds every whole number

# https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/common/util/parameter_formatter.go
_MACRO = re.compile(r"\[\[(RunUUID|ScheduledTime|CurrentTime|Index)\b.*?\]\]")


def check(values: dict[str, Any]) -> None:
    """Refuses values that would arrive in a step as something else."""
    # Kubeflow Pipelines keeps parameters as ``google.protobuf.Value``, whose numbers are doubles.
    for name, value in values.items():
        _check(name, value)
        # A schedule's are replaced wherever they are, a run's in texts.
        if macro := _MACRO.search(json.dumps(value)):
            raise InputError(
                f"parameter {name}: {macro[0]} would be replaced by Kubeflow Pipelines; it cannot "
                "be part of a text there"
            )


def _check(name: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InputError(f"parameter {name}: the key {key!r} is not a text")
            _check(name, key)
            _check(f"{name}.{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check(f"{name}.{index}", inner)
    elif isinstance(value, str):
        _check_text(name, value)
    elif isinstance(value, int):
        if abs(value) > WHOLE:
            raise InputError(
                f"parameter {name}: {value} would be rounded by Kubeflow Pipelines, which is "
                f"exact up to {WHOLE}"
            )
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"parameter {name}: {value} is not a JSON number")
    elif value is not None:
        raise InputError(f"parameter {name}: {value!r} is not a JSON value")


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"parameter {name}: {text!r} is not valid text") from None
