"""trireme schedule."""

import json

import pytest
import yaml

from trireme import images
from trireme.errors import InputError, TriremeError
from trireme.schedules.schedule import Schedule
from trireme.targets.kubeflow.connection import Connection
from trireme.targets.kubeflow.schedules import KubeflowSchedules
from trireme.targets.kubeflow.target import Kubeflow

SET = ("schedule", "pytorch-training", "--cron", "0 3 * * 1-5")


@pytest.fixture(scope="module")
def uploaded():
    """What a server has after an upload, for those that only need it to be there."""
    return {}


@pytest.fixture
def server(trireme, kubeflow, uploaded):
    """A server that has the pipeline, and nothing asked of it yet."""
    if not uploaded:
        assert trireme("upload", "pytorch-training")[0] == 0
        uploaded |= {"pipelines": kubeflow.pipelines, "versions": kubeflow.versions}
        kubeflow.seen.clear()
    kubeflow.pipelines, kubeflow.versions = map(dict, uploaded.values())
    return kubeflow


def only(server):
    (found,) = server.recurring.values()
    return found


def asked_to_change(server):
    return [path for path, _ in server.seen if not path.startswith("GET ")]


def apply(server, faults=(), patience=5.0, **fields):
    """Applies a schedule of the latest version; returns what was planned."""
    described = {"name": "nightly", "pipeline": "pytorch-training", "cron": "0 3 * * *"}
    schedule = Schedule(**described | {"version": "latest"} | fields)
    connection = Kubeflow(server.url).connection
    connection.patience = patience
    server.faults += faults
    schedules = KubeflowSchedules(lambda: connection)
    (plan,) = schedules.plan([schedule], {})
    schedules.carry_out(plan)
    return plan


def test_a_schedule_is_made_of_the_version_that_is_compiled(trireme, kubeflow, untracked):
    asked = (*SET, "--time-zone", "Asia/Shanghai", "-p", "workers=2", "-p", "seed=7")
    status, output, errors = trireme(*asked)
    assert (status, errors) == (0, "")
    made, (version,) = only(kubeflow), kubeflow.versions.values()
    assert made["display_name"] == "pytorch-training"
    assert made["trigger"] == {"cron_schedule": {"cron": "0 0 19 * * 0-4"}}
    assert made["pipeline_version_reference"] == {
        "pipeline_id": version["pipeline_id"],
        "pipeline_version_id": version["pipeline_version_id"],
    }
    assert made["runtime_config"]["parameters"] == {"workers": 2, "seed": 7}
    assert (made["no_catchup"], made["max_concurrency"], made["mode"]) == (True, "1", "ENABLE")
    (experiment,) = kubeflow.experiments.values()
    assert made["experiment_id"] == experiment["experiment_id"]
    assert experiment["display_name"] == "pytorch-training"
    assert made["description"] == (
        "trireme schedule: pytorch-training at 0 3 * * 1-5 Asia/Shanghai, "
        f"version {version['name']}"
    )
    said = output.splitlines()
    assert said.pop(1).startswith("  note: Kubeflow's MLflow plugin does not record its runs")
    assert said[:2] == ["pytorch-training will be created", "  next in Asia/Shanghai:"]
    assert len([line for line in said if line.endswith("03:00:00+08:00")]) == 5
    assert said[7] == "pytorch-training created"
    assert said[8:] == [
        f"  Id    {made['recurring_run_id']}",
        f"  Page  {kubeflow.url}/#/recurringrun/details/{made['recurring_run_id']}",
    ]
    assert not untracked.exists()


def test_the_same_again_is_left_alone(trireme, server):
    trireme(*SET)
    server.seen.clear()
    status, output, _ = trireme(*SET)
    assert (status, output.splitlines()[0]) == (0, "pytorch-training is there already, unchanged")
    assert asked_to_change(server) == []


def test_what_differs_is_said_and_replaces_what_was_there(server):
    apply(server, params={"workers": 1, "seed": 3})
    first = only(server)["recurring_run_id"]
    plan = apply(server, params={"workers": 2}, cron="0 4 * * *", concurrency=2, catch_up=True)
    assert plan.verb == "changed"
    assert plan.differences == [
        "cron: 0 3 * * * UTC (on Kubeflow 0 0 3 * * *) -> 0 4 * * * UTC (on Kubeflow 0 0 4 * * *)",
        "catch_up: false -> true",
        "concurrency: 1 -> 2",
        "params.seed: 3.0 -> unset",
        "params.workers: 1.0 -> 2",
    ]
    made = only(server)
    assert made["recurring_run_id"] != first
    assert (made["status"], made["no_catchup"], made["max_concurrency"]) == ("ENABLED", False, "2")
    assert server.most_active == 1


def test_dry_run_shows_the_difference_and_makes_nothing(trireme, kubeflow):
    status, output, _ = trireme(*SET, "--dry-run")
    assert (status, output.splitlines()[0]) == (0, "pytorch-training will be created")
    trireme(*SET)
    kubeflow.seen.clear()
    status, output, _ = trireme(*SET, "-p", "workers=3", "--dry-run")
    assert (status, output.splitlines()[1]) == (0, "  params.workers: unset -> 3")
    assert asked_to_change(kubeflow) == []


# Of the seven requests of a change the last four change something.
@pytest.mark.parametrize("fault", ["503", "lost"])
@pytest.mark.parametrize("asked", range(7))
def test_a_change_that_breaks_off_anywhere_is_mended_by_another_apply(server, asked, fault):
    apply(server)
    with pytest.raises(TriremeError):
        apply(server, faults=[""] * asked + [fault], patience=0, cron="0 4 * * *")
    assert server.faults == []
    last = "0 5 * * *" if asked % 2 else "0 4 * * *"
    apply(server, cron=last)
    made = only(server)
    assert made["trigger"]["cron_schedule"]["cron"] == f"0 {last}"
    assert (made["status"], server.most_active) == ("ENABLED", 1)


@pytest.mark.parametrize("fault", ["lost", "reset"])
@pytest.mark.parametrize("asked", range(7))
def test_a_fault_that_passes_changes_nothing_about_what_there_is_in_the_end(server, asked, fault):
    apply(server)
    apply(server, faults=[""] * asked + [fault], cron="0 4 * * *")
    made = only(server)
    assert made["trigger"]["cron_schedule"]["cron"] == "0 0 4 * * *"
    assert (made["status"], server.most_active, server.faults) == ("ENABLED", 1, [])


def test_one_that_rests_goes_on_resting_until_it_is_told_otherwise(trireme, server):
    apply(server)
    assert trireme("schedule", "pause", "nightly")[:2] == (0, "nightly is paused\n")
    assert apply(server).verb == "unchanged"
    assert apply(server, cron="0 4 * * *").runs is False
    assert (only(server)["status"], server.most_active) == ("DISABLED", 1)
    assert apply(server, cron="0 4 * * *", paused=False).differences == ["paused: true -> false"]
    assert only(server)["status"] == "ENABLED"
    assert apply(server, cron="0 4 * * *", paused=True).differences == ["paused: false -> true"]
    assert trireme("schedule", "resume", "nightly")[:2] == (0, "nightly is running\n")
    assert only(server)["status"] == "ENABLED"


def test_a_file_holds_several(trireme, server, tmp_path):
    described = [
        {"name": "nightly", "pipeline": "pytorch-training", "cron": "0 3 * * *"},
        {
            "name": "weekly",
            "pipeline": "pytorch-training",
            "cron": "0 3 * * 0",
            "version": "latest",
            "params": {"workers": 2, "dataset_uri": "pvc://birds/all", "min_accuracy": 1},
            "dataset_claims": ["birds"],
            "paused": True,
            "starts": "2100-01-01T00:00",
            "ends": "2100-06-01T00:00Z",
        },
    ]
    file = tmp_path / "schedules.yaml"
    file.write_text(yaml.safe_dump(described))
    status, output, errors = trireme("schedule", "apply", str(file))
    assert (status, errors) == (0, "")
    nightly, weekly = server.recurring.values()
    assert nightly["pipeline_version_reference"]["pipeline_version_id"]
    assert "pipeline_version_id" not in weekly["pipeline_version_reference"]
    assert (nightly["status"], weekly["status"]) == ("ENABLED", "DISABLED")
    assert weekly["trigger"]["cron_schedule"] == {
        "cron": "0 0 3 * * 0",
        "start_time": "2100-01-01T00:00:00Z",
        "end_time": "2100-06-01T00:00:00Z",
    }
    status, output, _ = trireme("schedule", "list")
    rows = [line.split() for line in output.splitlines()]
    assert rows[0] == ["NAME", "PIPELINE", "CRON", "VERSION", "STATE", "NEXT"]
    assert [(row[0], row[1], row[-1]) for row in rows[1:]] == [
        ("nightly", "pytorch-training", "03:00:00+00:00"),
        ("weekly", "pytorch-training", "paused"),
    ]
    server.seen.clear()
    assert trireme("schedule", "apply", str(file))[0] == 0
    assert asked_to_change(server) == []


def test_a_beginning_that_has_passed_starts_no_run_at_once(server):
    apply(server, starts="2020-01-01")
    assert "start_time" not in only(server)["trigger"]["cron_schedule"]
    assert apply(server, starts="2020-01-01").verb == "unchanged"
    apply(server, starts="2020-01-01", catch_up=True)
    assert only(server)["trigger"]["cron_schedule"]["start_time"] == "2020-01-01T00:00:00Z"


def test_show_and_delete(trireme, server):
    apply(server, params={"workers": 2})
    made = only(server)
    status, output, _ = trireme("schedule", "show", "nightly")
    said = [line.split(None, 1) for line in output.splitlines()]
    assert (status, said[0]) == (0, ["nightly:", "running"])
    assert ["cron", "0 3 * * * UTC (on Kubeflow 0 0 3 * * *)"] in said
    assert ["id", made["recurring_run_id"]] in said
    assert sum(line[-1].endswith("03:00:00+00:00") for line in said) == 5
    server.faults = ["", "", "lost"]
    assert trireme("schedule", "delete", "nightly")[:2] == (0, "nightly deleted\n")
    assert server.recurring == {}
    for command in ("show", "pause", "resume", "delete"):
        status, _, errors = trireme("schedule", command, "nightly")
        assert (status, errors.count("\n")) == (2, 1)
        assert "there is no schedule 'nightly'" in errors


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({"params": {"workers": 2, "experiment": "ours"}}, True),  # of the latest version
        ({"version": "pinned", "params": {"workers": 2}}, False),
        ({"version": "pinned"}, True),
    ],
)
def test_parameters_of_a_schedule_arrive_and_the_plugin_is_told_what_it_can_be(
    server, fields, is_told
):
    plan = apply(server, **fields)
    name = fields.get("params", {}).get("experiment", "pytorch-training")
    told = {"mlflow": {"experiment_name": name}} if is_told else None
    assert only(server).get("plugins_input") == told
    if "params" in fields:
        assert server.without_parameters == []
    assert ["plugin does not record its runs" in note for note in plan.notes] == (
        [] if is_told else [True]
    )
    assert apply(server, **fields).verb == "unchanged"


@pytest.mark.parametrize("change", ["another cron", "delete"])
def test_runs_under_way_outlive_a_schedule_that_is_changed_or_deleted(trireme, server, change):
    apply(server)
    run = {"recurring_run_id": only(server)["recurring_run_id"], "state": "RUNNING"}
    server.runs["under-way"] = run
    if change == "delete":
        assert trireme("schedule", "delete", "nightly")[0] == 0
        assert server.recurring == {}
    else:
        apply(server, cron="0 4 * * *")
        assert only(server)["recurring_run_id"] != run["recurring_run_id"]
    assert server.destroyed == []


def test_what_trireme_did_not_make_is_left_alone(trireme, server):
    apply(server)
    only(server)["description"] = "mine"
    before = dict(only(server))
    server.seen.clear()
    for command in [("pause", "nightly"), ("delete", "nightly"), (*SET[1:], "--name", "nightly")]:
        status, _, errors = trireme("schedule", *command)
        assert (status, errors.count("\n")) == (2, 1)
        assert "that Trireme did not create; choose another name" in errors
    assert (only(server), asked_to_change(server)) == (before, [])
    assert trireme("schedule", "list")[1] == ""


def test_it_is_found_among_many(server):
    apply(server)
    mine = only(server)
    for number in range(250):
        copy = mine | {"recurring_run_id": f"{number}", "display_name": f"other-{number}"}
        server.recurring[f"{number}"] = copy
    assert apply(server).verb == "unchanged"
    schedules = KubeflowSchedules(lambda: Kubeflow(server.url).connection)
    assert len(schedules.listing()) == 251


def test_several_users_have_schedules_each(trireme, kubeflow):
    kubeflow.multi_user = True
    assert trireme(*SET, "-n", "team")[0] == 0
    assert trireme("schedule", "list", "-n", "team")[1].count("\n") == 2
    assert trireme("schedule", "list", "-n", "others")[1] == ""


def test_a_version_that_is_there_can_be_named(server):
    (version,) = server.versions.values()
    apply(server, version=version["name"])
    reference = only(server)["pipeline_version_reference"]
    assert reference["pipeline_version_id"] == version["pipeline_version_id"]


def test_a_version_may_have_a_name_of_several_words(trireme, server):
    (version,) = server.versions.values()
    version["name"] = version["display_name"] = "before the summer"
    apply(server, version="before the summer")
    status, output, _ = trireme("schedule", "list")
    assert status == 0
    assert "before the summer  running" in output


@pytest.mark.parametrize("version", ["latest", "old"])
def test_images_are_for_the_version_that_is_compiled_now(trireme, kubeflow, tmp_path, version):
    file = tmp_path / "images.yaml"
    file.write_text(f"{images.BASE}: example.org/base@sha256:{'0' * 64}")
    status, _, errors = trireme(*SET, "--version", version, "--images", str(file))
    assert (status, errors.count("\n")) == (2, 1)
    assert f"--images goes with version pinned; '{version}' keeps the images" in errors
    status, _, errors = trireme(*SET, "--version", version, "--storage-class", "fast")
    assert (status, errors.count("\n")) == (2, 1)
    assert f"storage_class goes with version pinned; '{version}' runs as it was uploaded" in errors
    assert kubeflow.seen == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cron", "0 3 * *"], "schedule.cron '0 3 * *': wrong number of fields"),
        (["--time-zone", "Mars"], "schedule.time_zone 'Mars': does not exist"),
        (["--time-zone", "Europe/Berlin"], "change with summer time"),
        (["--kubeflow-time-zone", "Mars"], "time zone 'Mars': does not"),
        (["--name", "My_Job"], "schedule.name 'My_Job': it must be at most 52 small letters"),
        (["--concurrency", "11"], "schedule.concurrency 11: "),
        (["--starts", "soon"], "schedule.starts 'soon': it must be a time such as"),
        (["--starts", "2100-01-02", "--ends", "2100-01-01"], "it must be later than starts"),
        (["--ends", "2020-01-01"], "it ends before its first run"),
        (["-p", "code_url=/tmp"], "directories travel to a cluster with 'trireme run' only"),
        (["-p", "workers=two"], "parameter workers: 'two' is not a whole number"),
        (["-p", "seed=-1"], "seed -1: must be between"),
        (["-p", "experiment=[[ScheduledTime]]"], "would be replaced by Kubeflow Pipelines"),
        (["-p", 'args=["--run", "[[Index]]"]'], "[[Index]] would be replaced"),
        (["-p", "dataset_uri=pvc://birds/all"], "the claim is not mounted"),
        (["--target", "local"], "--target 'local': must be one of kfp, argo"),
        (["--service-account", "me"], "--service-account needs --target argo"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(trireme, kubeflow, options, said):
    status, _, errors = trireme(*SET, *options)
    assert (status, errors.count("\n")) == (2, 1), errors
    assert said in errors
    assert kubeflow.seen == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "must hold a schedule, or a list of them"),
        ("[1]", "must hold a schedule, or a list of them"),
        ("{", "is not YAML"),
        ("{name: a, pipeline: pytorch-training}", "schedule a.cron is needed"),
        ("{name: a, pipeline: p, cron: '* * * * *', crom: 1}", "schedule a.crom is not a field"),
        ("{name: a, pipeline: p, cron: '* * * * *'}", "there is no pipeline 'p'"),
        ("[{name: a, pipeline: p, cron: '* * * * *'}, {name: a, pipeline: p, cron: '* * * * *'}]",
         "there are two schedules called 'a'"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file_are_told_before_anything_is_sent(
    trireme, kubeflow, tmp_path, content, said
):
    file = tmp_path / "schedules.yaml"
    file.write_text(content)
    status, _, errors = trireme("schedule", "apply", str(file))
    assert (status, errors.count("\n")) == (2, 1)
    assert said in errors
    assert kubeflow.seen == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--version", "latest"], "is not at http://127.0.0.1"),
        (["--version", "old"], "'trireme upload pytorch-training' uploads it"),
    ],
)
def test_a_pipeline_that_is_not_there_is_one_sentence(trireme, kubeflow, options, said):
    status, _, errors = trireme(*SET, *options)
    assert (status, errors.count("\n")) == (2, 1)
    assert said in errors
    assert asked_to_change(kubeflow) == []


def test_a_version_that_is_not_there_is_one_sentence(server):
    with pytest.raises(InputError, match="has no version 'old'; give pinned, latest or"):
        apply(server, version="old")


def test_one_with_a_broken_change_can_be_paused_and_is_not_resumed(trireme, server):
    apply(server)
    with pytest.raises(TriremeError):  # before the old one is deleted
        apply(server, faults=[""] * 6 + ["503"], patience=0, cron="0 4 * * *")
    status, _, errors = trireme("schedule", "resume", "nightly")
    assert (status, errors.count("\n")) == (2, 1)
    assert "a change of it was interrupted; apply it again" in errors
    assert trireme("schedule", "pause", "nightly")[0] == 0
    assert {each["status"] for each in server.recurring.values()} == {"DISABLED"}


def test_what_is_neither_a_command_nor_a_pipeline_is_said_to_be_no_command(trireme, kubeflow):
    status, _, errors = trireme("schedule", "lst")
    assert (status, kubeflow.seen) == (2, [])
    assert "schedule lst: no such command or pipeline; there are apply, " in errors


def test_what_is_rendered_is_what_apply_sends(trireme, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    described = [
        {"name": "newest", "cron": "0 4 * * *", "version": "latest", "params": {"workers": 2}},
        {"name": "nightly", "cron": "0 3 * * *", "params": {"seed": 7}, "paused": True},
    ]
    text = yaml.safe_dump([each | {"pipeline": "pytorch-training"} for each in described])
    (tmp_path / "schedules.yaml").write_text(text)
    refused = trireme("schedule", "render", "schedules.yaml")
    assert refused[0] == 2
    assert "experiment 'pytorch-training' is not at" in refused[2]
    assert asked_to_change(server) == []
    sent = []
    ask = Connection.ask

    def asked(self, method, **arguments):
        if method.endswith("create_recurring_run"):
            sent.append(arguments["recurring_run"])
        return ask(self, method, **arguments)

    monkeypatch.setattr(Connection, "ask", asked)
    assert trireme("schedule", "apply", "schedules.yaml")[0] == 0
    server.seen.clear()
    status, output, _ = trireme("schedule", "render", "schedules.yaml", "-o", "git")
    assert (status, output.splitlines()) == (0, ["git/newest.json", "git/nightly.json"])
    files = [tmp_path / "git" / f"{name}.json" for name in ("newest", "nightly")]
    assert [json.loads(file.read_text()) for file in files] == sent
    assert asked_to_change(server) == []


def test_a_version_that_is_not_uploaded_is_not_rendered(trireme, kubeflow, tmp_path):
    file = tmp_path / "schedules.yaml"
    file.write_text("{name: nightly, pipeline: pytorch-training, cron: 0 3 * * *}")
    status, output, errors = trireme("schedule", "render", str(file), "-o", str(tmp_path / "git"))
    assert (status, output) == (2, "")
    assert "'trireme upload pytorch-training' uploads it" in errors
    assert not (tmp_path / "git").exists()
