"""trireme ui: MLflow's own pages on the runs recorded here."""

import json
import time
import urllib.request

import pytest
from git_servers import free_port

pytestmark = pytest.mark.slow


def test_the_page_it_names_shows_the_runs_and_a_port_in_use_is_refused(trireme):
    experiment = trireme.client.create_experiment("flowers")
    port = free_port()
    process = trireme.start("ui", "--port", str(port))
    try:
        page = f"http://127.0.0.1:{port}/#/experiments?workflowType=machine_learning"
        assert process.stdout.readline().startswith(f"{page} shows sqlite:///")
        found = answer(
            process, f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/experiments/get", experiment
        )
        assert found["experiment"]["name"] == "flowers"
        second = trireme.call("ui", "--port", str(port))
        assert second.returncode == 2
        assert second.stderr == f"error: --port {port}: address already in use; name another\n"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def answer(process, url, experiment):
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}?experiment_id={experiment}", timeout=5) as reply:
                return json.load(reply)
        except OSError:
            time.sleep(0.1)
    raise AssertionError(process.stderr.read())
