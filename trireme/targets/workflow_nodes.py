"""The nodes in the status of an Argo Workflow."""

import base64
import gzip
import json
from typing import Any


def nodes(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the nodes by their ids, also where Argo packs them, as those of large Workflows."""
    if packed := status.get("compressedNodes"):
        unpacked: dict[str, dict[str, Any]] = json.loads(gzip.decompress(base64.b64decode(packed)))
        return unpacked
    return status.get("nodes") or {}
