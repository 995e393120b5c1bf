"""The ways in which a registered model is deployed."""

from trireme.errors import InputError

KINDS = {"deployment": ("Deployment", "Service"), "kserve": ("InferenceService",)}
"""The ways in which a cluster serves a model, and the kinds of objects that do."""


def check_kind(field: str, kind: str) -> None:
    """Refuses a way to deploy that there is not."""
    if kind not in KINDS:
        raise InputError(f"{field} {kind!r}: must be {' or '.join(KINDS)}")
