"""trireme schedule --target argo: CronWorkflows on an API server."""

from functools import cache

import pytest
import yaml
from argo_runs import begun

from trireme.errors import InputError
from trireme.kubernetes.errors import AlreadyThere, NotFound, Unavailable
from trireme.pipeline import catalog
from trireme.schedules.schedule import Schedule
from trireme.targets.argo import compiling, workflows
from trireme.targets.argo.compiling import VERSION
from trireme.targets.argo.schedules import CRON_WORKFLOWS, ArgoSchedules

NAME = "pytorch-training"
SET = ("schedule", NAME, "--cron", "0 3 * * 1-5", "--version", "latest")


_compiled = compiling.compiled


@cache
def made(account="trireme"):
    return _compiled(catalog.load(NAME), account)


@pytest.fixture
def argo(argo, monkeypatch):
    """Argo with the pipeline, which is compiled once for all tests."""
    workflows.upload(argo, made())
    monkeypatch.setattr(compiling, "compiled", lambda pipeline, account: made(account))
    return argo


def there(argo, name=NAME):
    return argo.get(CRON_WORKFLOWS, name, argo.namespace)


def apply(argo, **fields):
    """Applies a schedule of the latest version; returns what was planned."""
    described = {"name": NAME, "pipeline": NAME, "cron": "0 3 * * *", "version": "latest"}
    schedules = ArgoSchedules(lambda: argo, "trireme")
    (plan,) = schedules.plan([Schedule(**described | fields)], {})
    if plan.verb != "unchanged":
        schedules.carry_out(plan)
    return plan


def test_a_schedule_is_made_shown_listed_paused_and_deleted(argo, command):
    asked = (*SET, "--time-zone", "Europe/Berlin", "-p", "workers=2", "-p", 'args=["{{x}}"]')
    said = command(*asked, "--dry-run").splitlines()
    assert said[:2] == [f"{NAME} will be created", "  next in Europe/Berlin:"]
    assert len([line for line in said if ":00:00+0" in line]) == 5
    with pytest.raises(NotFound):
        there(argo)
    command(*asked)
    spec = there(argo)["spec"]
    assert {key: value for key, value in spec.items() if key != "workflowSpec"} == {
        "schedules": ["0 3 * * 1-5"],
        "timezone": "Europe/Berlin",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 10,
        "failedJobsHistoryLimit": 10,
        "suspend": False,
    }
    given = spec["workflowSpec"].pop("arguments")["parameters"]
    assert spec["workflowSpec"] == {"workflowTemplateRef": {"name": NAME}}
    assert given == [
        {"name": "workers", "value": "2"},
        {"name": "args", "value": r'["\u007b{x}}"]'},
    ]
    assert command(*asked).splitlines()[0] == f"{NAME} is there already, unchanged"
    row = command("schedule", "list").splitlines()[1].split()
    assert row[:8] == [NAME, NAME, "0", "3", "*", "*", "1-5", "Europe/Berlin"]
    assert row[8:10] == ["latest", "running"]
    assert command("schedule", "pause", NAME) == f"{NAME} is paused\n"
    assert there(argo)["spec"]["suspend"] is True
    assert command(*asked).splitlines() == [f"{NAME} is there already, unchanged, paused"]
    assert command("schedule", "show", NAME).splitlines()[0] == f"{NAME}: paused"
    assert command("schedule", "resume", NAME) == f"{NAME} is running\n"
    assert there(argo)["spec"]["suspend"] is False
    assert command("schedule", "delete", NAME) == f"{NAME} deleted\n"
    for verb in ("show", "pause", "resume", "delete"):
        with pytest.raises(InputError, match=f"there is no schedule '{NAME}' in namespace"):
            command("schedule", verb, NAME)


def test_what_differs_is_said_and_changed_in_one_request(argo):
    apply(argo, params={"workers": 1}, starts="2100-01-01T00:00", ends="2100-02-01T03:00:30Z")
    before = there(argo)
    assert before["spec"]["when"] == (
        "{{=now() >= date('2100-01-01T00:01:00Z') && now() < date('2100-02-01T03:01:00Z')}}"
    )
    status = {
        "active": [],
        "conditions": [],
        "failed": 0,
        "lastScheduledTime": "2026-01-01T03:00:00Z",
        "phase": "Active",
        "succeeded": 3,
    }
    argo.patch(CRON_WORKFLOWS, NAME, argo.namespace, {"status": status})
    plan = apply(argo, params={"workers": 2}, cron="0 4 * * *", concurrency=2, catch_up=True)
    assert plan.differences == [
        "cron: 0 3 * * * UTC -> 0 4 * * * UTC",
        "starts: 2100-01-01T00:00:00+00:00 -> unset",
        "ends: 2100-02-01T03:00:30+00:00 -> unset",
        "catch_up: false -> true",
        "concurrency: 1 -> 2",
        "params.workers: 1 -> 2",
    ]
    assert [note.partition(":")[0] for note in plan.notes] == ["concurrency 2", "catch_up"]
    after = there(argo)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"] == status
    assert "when" not in after["spec"]
    assert after["spec"]["concurrencyPolicy"] == "Allow"
    assert after["spec"]["startingDeadlineSeconds"] == 365 * 86400
    argo.patch(CRON_WORKFLOWS, NAME, argo.namespace, {"spec": {"timezone": "Asia/Shanghai"}})
    again = {"params": {"workers": 2}, "cron": "0 4 * * *", "concurrency": 2, "catch_up": True}
    assert "changed by somebody else" in apply(argo, **again).differences[0]
    assert there(argo)["spec"] == after["spec"]
    assert apply(argo, **again).verb == "unchanged"


def test_a_pinned_version_stays_what_it_was(argo):
    plan = apply(argo, version="pinned", params={"workers": 2})
    version = made().labels[VERSION]
    assert plan.schedule.version == version
    pinned = there(argo)["spec"]["workflowSpec"]
    given = {each["name"]: each["value"] for each in pinned["arguments"]["parameters"]}
    assert (given["workers"], given["seed"]) == ("2", "0")
    assert pinned["templates"] == made().to_dict()["spec"]["templates"]
    assert apply(argo, version="pinned", params={"workers": 2}).verb == "unchanged"
    workflows.upload(argo, made("another"))
    assert there(argo)["spec"]["workflowSpec"] == pinned
    assert apply(argo, version=version, params={"workers": 2}).verb == "unchanged"
    with pytest.raises(InputError, match=f"no version '{version}'; Argo has only the one uploaded"):
        apply(argo, version=version, params={"workers": 3})
    newest = made("another").labels[VERSION]
    plan = apply(argo, version=newest, params={"workers": 2})
    assert plan.differences == [f"version: {version} -> {newest}"]
    assert there(argo)["spec"]["workflowSpec"]["serviceAccountName"] == "another"
    apply(argo)
    assert VERSION not in there(argo)["metadata"]["labels"]


def test_one_that_rests_goes_on_resting_until_it_is_told_otherwise(argo):
    apply(argo, paused=True)
    assert apply(argo, cron="0 4 * * *").runs is False
    assert there(argo)["spec"]["suspend"] is True
    assert apply(argo, cron="0 4 * * *", paused=False).differences == ["paused: true -> false"]
    assert there(argo)["spec"]["suspend"] is False


def test_what_trireme_did_not_make_is_left_alone(argo, command):
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": NAME},
        "spec": {"schedules": ["0 3 * * *"], "workflowSpec": {}},
    }
    argo.create(CRON_WORKFLOWS, body, argo.namespace)
    before = there(argo)
    for words in (SET, *(("schedule", verb, NAME) for verb in ("show", "pause", "delete"))):
        with pytest.raises(InputError, match="that Trireme did not create; choose another name"):
            command(*words)
    assert there(argo) == before
    assert command("schedule", "list") == ""


def test_one_that_cannot_be_read_hides_no_other(argo, command):
    apply(argo)
    note = there(argo)["metadata"]["annotations"]
    apply(argo, name="other")
    changed = {"metadata": {"annotations": dict.fromkeys(note, '{"from": "the future"}')}}
    argo.patch(CRON_WORKFLOWS, NAME, argo.namespace, changed)
    said = [line.split()[0] for line in command("schedule", "list").splitlines()]
    assert said == ["warning:", "NAME", "other"]
    with pytest.raises(InputError, match=f"CronWorkflow {NAME}: its annotation .* cannot be read"):
        apply(argo)


def test_runs_stay_when_their_schedule_is_deleted(argo, command, eventually):
    apply(argo)
    owner = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "name": NAME,
        "uid": there(argo)["metadata"]["uid"],
    }
    run = begun(argo, NAME)
    argo.patch(workflows.WORKFLOWS, run, argo.namespace, {"metadata": {"ownerReferences": [owner]}})
    command("schedule", "delete", NAME)

    def is_gone():
        return not argo.list(CRON_WORKFLOWS, argo.namespace)["items"]

    assert eventually(is_gone)
    assert workflows.find(argo, run).name == run


def test_a_file_holds_several_and_nothing_is_made_if_one_is_wrong(argo, command, tmp_path):
    schedules = [
        {"name": "nightly", "pipeline": NAME, "cron": "0 3 * * *", "version": "latest"},
        {"name": "weekly", "pipeline": NAME, "cron": "0 3 * * 0", "paused": True},
    ]
    file = tmp_path / "schedules.yaml"
    file.write_text(yaml.safe_dump([*schedules, {**schedules[0], "name": "x", "version": "old"}]))
    with pytest.raises(InputError, match="has no version 'old'"):
        command("schedule", "apply", str(file))
    assert command("schedule", "list") == ""
    file.write_text(yaml.safe_dump(schedules))
    command("schedule", "apply", str(file), "--service-account", "another")
    assert there(argo, "weekly")["spec"]["workflowSpec"]["serviceAccountName"] == "another"
    assert len(command("schedule", "list").splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cron", "0 3 */2 * 1"], "the day has to match both"),
        (["--ends", "2020-01-01"], "it ends before its first run"),
        (["-p", "workers=two"], "parameter workers: 'two' is not a whole number"),
        (["--kubeflow-time-zone", "UTC"], "--kubeflow-time-zone needs --target kfp"),
        (["--endpoint", "http://x"], "--endpoint needs --target kfp"),
    ],
)
def test_mistakes_of_a_schedule_are_one_sentence(command, options, said):
    with pytest.raises(InputError, match=said):
        command(*SET, *options)


def test_an_answer_that_is_lost_changes_nothing(argo_standing_in, server):
    argo = argo_standing_in
    workflows.upload(argo, made())
    for method, cron in (("POST", "0 3 * * *"), ("PUT", "0 4 * * *")):
        server.fail(method, "cronworkflows", after=True)
        apply(argo, cron=cron)
        assert there(argo)["spec"]["schedules"] == [cron]
    server.fail("PUT", "cronworkflows", times=99)
    argo.patience = 0.05
    with pytest.raises(Unavailable):
        apply(argo, cron="0 5 * * *")
    assert there(argo)["spec"]["schedules"] == ["0 4 * * *"]


def test_what_somebody_else_changes_meanwhile_is_not_overwritten(argo_standing_in):
    argo = argo_standing_in
    workflows.upload(argo, made())
    apply(argo)
    schedules = ArgoSchedules(lambda: argo, "trireme")
    fields = {"name": NAME, "pipeline": NAME, "cron": "0 4 * * *", "version": "latest"}
    (plan,) = schedules.plan([Schedule(**fields)], {})
    apply(argo, cron="0 5 * * *")
    with pytest.raises(AlreadyThere, match="modified"):
        schedules.carry_out(plan)
    assert there(argo)["spec"]["schedules"] == ["0 5 * * *"]
