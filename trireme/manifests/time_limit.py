"""The time limit of a job, in the manifest of whichever kind."""

from typing import Any

from trireme.frameworks import kind_of


def set_time_limit(manifest: dict[str, Any], seconds: int) -> None:
    """Makes a job end after some time; where its operator does not see to that, its pods do."""
    kind, spec = kind_of(manifest), manifest["spec"]
    policy = spec["runPolicy"] if kind.replicas else spec
    policy["activeDeadlineSeconds"] = seconds
    if not kind.keeps_time:
        for replicas in spec[kind.replicas].values():
            replicas["template"]["spec"]["activeDeadlineSeconds"] = seconds
