"""trireme schedule render and --dry-run with no cluster: what is written, what is said."""

import pytest
import yaml

from trireme.schedules.schedule import Schedule
from trireme.targets.argo.schedules import ArgoSchedules

FILE = """
- {name: nightly, pipeline: pytorch-training, cron: 0 3 * * *, params: {workers: 2}}
- {name: newest, pipeline: retraining, cron: 0 4 * * 1-5, version: latest, catch_up: true}
"""


class Recording:
    """A cluster that has nothing, and keeps what it is sent."""

    namespace = "team"

    def __init__(self):
        self.created = []

    def find(self, resource, name, namespace):
        there = resource.plural == "workflowtemplates"
        return {"metadata": {"name": name}} if there else None

    def create(self, resource, body, namespace, **query):
        self.created.append(body)


@pytest.fixture
def alone(trireme, monkeypatch, tmp_path):
    """The command line where nothing says where a cluster is."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name in ("KF_PIPELINES_ENDPOINT", "KFP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schedules.yaml").write_text(FILE)
    return trireme


@pytest.mark.slow
def test_what_is_rendered_is_what_apply_sends(alone, tmp_path):
    status, output, errors = alone(
        "schedule", "render", "schedules.yaml", "--target", "argo", "-o", "git"
    )
    assert (status, errors) == (0, "")
    assert output.splitlines() == ["git/nightly.yaml", "git/newest.yaml"]
    cluster = Recording()
    schedules = ArgoSchedules(lambda: cluster, "trireme")
    for plan in schedules.plan(Schedule.read_file(tmp_path / "schedules.yaml"), {}):
        schedules.carry_out(plan)
    files = [tmp_path / "git" / f"{name}.yaml" for name in ("nightly", "newest")]
    assert [yaml.safe_load(file.read_text()) for file in files] == cluster.created
    pinned, latest = cluster.created
    assert pinned["spec"]["workflowSpec"]["templates"]
    assert latest["spec"]["workflowSpec"] == {"workflowTemplateRef": {"name": "retraining"}}


@pytest.mark.parametrize("target", ["argo", "kfp"])
def test_a_dry_run_without_a_cluster_checks_and_shows_the_times(alone, target):
    status, output, errors = alone(
        *("schedule", "pytorch-training", "--cron", "0 3 * * *", "--target", target, "--dry-run")
    )
    assert status == 0
    said = output.splitlines()
    assert said[:2] == ["pytorch-training can be scheduled", "  next in UTC:"]
    assert len([line for line in said if line.endswith("03:00:00+00:00")]) == 5
    assert errors.startswith("note: not compared with what is there: no Kube")


@pytest.mark.parametrize("target", ["argo", "kfp"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--name", "Nightly"], "it must be at most 52 small letters"),
        (["--cron", "0 25 * * *"], "bad hour"),
        (["-p", "wrokers=2"], "wrokers"),
        (["-p", "workers=many"], "workers"),
        (["--time-zone", "Europe/Berln"], "did you mean Europe/Berlin?"),
    ],
)
def test_a_dry_run_without_a_cluster_refuses_what_cannot_work(alone, target, options, words):
    status, output, errors = alone(
        *("schedule", "pytorch-training", "--cron", "0 3 * * *", "--target", target, "--dry-run"),
        *options,
    )
    assert (status, output) == (2, "")
    assert words in errors


def test_a_day_of_both_fields_is_refused_for_argo_without_a_cluster(alone):
    asked = ("schedule", "pytorch-training", "--cron", "0 3 */2 * 1", "--dry-run")
    status, _, errors = alone(*asked, "--target", "argo")
    assert status == 2
    assert "set one of them to *" in errors


def test_without_dry_run_a_missing_cluster_ends_the_command(alone):
    asked = ("schedule", "pytorch-training", "--cron", "0 3 * * *", "--target", "argo")
    status, output, errors = alone(*asked)
    assert (status, output) == (2, "")
    assert errors.startswith("error: no Kubernetes cluster to work with")
