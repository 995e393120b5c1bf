"""Parameter values that Kubeflow Pipelines would not hand on as they are."""

import json
import re
from typing import Any

from trireme.errors import InputError

# https://github.com/kubeflow/pipelines/blob/2.17.0/backend/src/common/util/parameter_formatter.go
_MACRO = re.compile(r"\[\[(RunUUID|ScheduledTime|CurrentTime|Index)\b.*?\]\]")


def check(values: dict[str, Any]) -> None:
    """Refuses values that would arrive in a step as something else."""
    for name, value in values.items():
        # A schedule's are replaced wherever they are, a run's in texts.
        if macro := _MACRO.search(json.dumps(value)):
            raise InputError(
                f"parameter {name}: {macro[0]} would be replaced by Kubeflow Pipelines; it cannot "
                "be part of a text there"
            )
