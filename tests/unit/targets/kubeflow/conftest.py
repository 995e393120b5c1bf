"""A server to talk to, and nothing of whoever runs the tests."""

from collections.abc import Iterator
from pathlib import Path

import kfp
import pytest
from kfp_server import KubeflowServer

from trireme.process import patience
from trireme.targets import pod_logs, remote

MINE = (
    "KF_PIPELINES_ENDPOINT",
    "KFP_ENDPOINT",
    "KF_PIPELINES_UI_ENDPOINT",
    "KF_PIPELINES_SA_TOKEN_PATH",
    "KFP_EXISTING_TOKEN",
    "KFP_NAMESPACE",
    "REQUESTS_CA_BUNDLE",
    "KUBECONFIG",
)


@pytest.fixture
def kubeflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[KubeflowServer]:
    """A server that is set as the one to use."""
    for name in MINE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kfp.Client, "_LOCAL_KFP_CONTEXT", str(tmp_path / "context.json"))
    monkeypatch.setattr(remote, "PAUSE", 0.01)
    monkeypatch.setattr(pod_logs, "PAUSE", 0.01)
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(patience, "LONGEST_PAUSE", 0.02)
    with KubeflowServer() as server:
        monkeypatch.setenv("KF_PIPELINES_ENDPOINT", server.url)
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # registries are not asked
        yield server
