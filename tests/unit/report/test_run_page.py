"""A picture of a run: what is read for it, and the page that it becomes."""

import json
import math
import os
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from trireme.errors import StepFailed
from trireme.files.kept_record import LAYOUT
from trireme.job.job import TrainingJob
from trireme.manifests import render, to_yaml
from trireme.observers import timeline
from trireme.observers.goodput.ledger import Ledger, metrics
from trireme.observers.timeline import Attempt, Life, Span, spans
from trireme.report import curves, of_workspace, page
from trireme.report.picture import Curve, Picture, StepPicture, commands, requested_by
from trireme.targets.picturing import _add_trials
from trireme.tracking import journal

NOW = 1_700_000_100.0
START = NOW - 100
HOSTILE = "<script>alert('1')</script>\"&\u2028</style>"


def workers(count, *, failed=(), restarted=()):
    """Returns workers that ran from 20 s to 80 s; some failed then, some were restarted at 40 s."""
    lives = {}
    for number in range(count):
        attempts = [Attempt(START + 20, START + 80)]
        if number in restarted:
            attempts = [
                Attempt(START + 20, START + 40, "exited with status 3"),
                Attempt(START + 41, START + 80),
            ]
        if number in failed:
            attempts[-1] = attempts[-1]._replace(failed="was ended by SIGSEGV")
        found = spans(START + 5, attempts, placed=START + 10, goes_on=False)
        lives[f"worker-{number}"] = Life(found, 0, 30.0, 2.0**29)
    return lives


def a_picture(state="FINISHED", **train):
    """Returns a run of two steps, the second of which trained."""
    picture = Picture("digits", NOW, state, START, None if state == "running" else NOW)
    about = {"state": state, "began": START + 3, "ended": None if state == "running" else NOW - 10}
    picture.add(
        [
            StepPicture("checkout", "FINISHED", START, START + 3, "main at 0123"),
            StepPicture("train", **about | train),
        ]
    )
    picture.close()
    return picture


class Page(HTMLParser):
    """The texts and the elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.elements = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data.strip())

    def bars(self, kind):
        return [
            each["title"]
            for tag, each in self.elements
            if tag == "i" and kind in each["class"].split() and "title" in each
        ]

    @property
    def text(self):
        return " ".join(filter(None, self.texts))


def shown(picture):
    return Page(page.render(picture))


def test_restarts_failures_and_waits_are_in_the_time_line():
    lives = workers(3, failed=[2], restarted=[1, 2])
    found = shown(a_picture("FAILED", replicas=lives, error="replica worker-2 was ended"))
    assert len(found.bars("queued")) == len(found.bars("starting")) == 3
    assert found.bars("restarting") == [
        f"worker-{number}: waiting to be started again, 1.0 s" for number in (1, 2)
    ]
    assert [title for title in found.bars("ended-badly") if "SIGSEGV" in title] == [
        "worker-2: running, 39 s; was ended by SIGSEGV"
    ]
    assert "1 restart, was ended by SIGSEGV" in found.texts
    assert found.bars("failed") == ["train: FAILED, 1 min 27 s"]


def test_the_words_of_what_failed_are_there_and_nothing_that_is_said_is_markup():
    lines = "\n".join(f"[worker-0] line {number}" for number in range(100)) + "\n" + HOSTILE
    picture = a_picture(
        "FAILED",
        error=HOSTILE,
        last_lines=lines,
        result=HOSTILE,
        params={"world_size": 2, "entrypoint": HOSTILE},
        replicas={HOSTILE: Life([Span("running", START, NOW, HOSTILE)])},
        requested={HOSTILE: {}},
        curves={HOSTILE: Curve([1, 2], [1, 2], HOSTILE)},
    )
    picture.name = picture.message = HOSTILE
    picture.tags = dict.fromkeys(("pipeline", "git.url", "git.commit", "image", "cpu"), HOSTILE)
    picture.metrics, picture.notes = {"cost": 1.0}, [HOSTILE]
    picture.tags["currency"] = HOSTILE
    found = shown(picture)
    assert {tag for tag, _ in found.elements} & {"script", "a", "link", "iframe", "img"} == set()
    assert HOSTILE in found.texts  # as it was said
    text = page.render(picture)
    assert text.count("</style>") == 1 and "<script" not in text
    (last,) = (text for text in found.texts if "line 99" in text)
    assert "line 60" not in last and last.count("\n") < page.LINES


def test_the_colours_of_what_a_program_printed_are_not_shown():
    said = "\x1b[32mdone\x1b[0m \u202egnp.exe"
    found = shown(a_picture("FAILED", error=said, result=said, last_lines=said))
    assert any("done gnp.exe" in text for text in found.texts)
    text = page.render(a_picture("FAILED", error=said, result=said, last_lines=said))
    assert not {"\x1b", "\u202e"} & {*text}


def test_a_run_that_went_on_after_a_failure_has_not_failed():
    found = shown(a_picture(error="too wide"))  # as a sweep does after that of a trial
    assert "Finished" in found.texts and "What failed: train" in found.texts
    assert "Failed at train" in shown(a_picture("FAILED", error="too wide")).texts


def test_a_step_that_was_cancelled_has_not_failed():
    found = shown(a_picture("KILLED", error="the job was cancelled"))
    assert "What failed" not in found.text and not found.bars("failed")
    assert "the job was cancelled" in found.texts


def test_of_a_trial_that_failed_is_told_which_it_was():
    picture = a_picture()
    picture.add([StepPicture("trial-002", "FAILED", START, NOW, "--n 2: failed: no", error="no")])
    assert shown(picture).texts.count("--n 2: failed: no") == 2


def test_a_run_under_way_lasts_until_now():
    life = Life([Span("running", START + 20)])
    found = shown(a_picture("running", replicas={"worker-0": life}))
    assert found.bars("running") == ["worker-0: running, 1 min 20 s"]
    assert "Running" in found.texts and any("As it was at 2023-11-14" in t for t in found.texts)
    assert "Runs for 1 min 40 s" in found.text


def test_the_end_of_a_run_that_was_killed_is_the_last_that_is_known_of_it():
    lives = {"worker-0": Life([Span("running", START + 9, NOW)])}
    picture = Picture("digits", NOW + 1e6, "lost", START, NOW + 1e6)
    picture.add([StepPicture("train", "running", START, replicas=lives)])
    picture.close()
    assert (picture.ended, picture.steps["train"].ended) == (NOW, NOW)
    assert picture.steps["train"].state == "lost"
    assert "Took 1 min 40 s" in shown(picture).text


def test_a_program_that_writes_another_time_does_not_stretch_the_run():
    lives = {"worker-0": Life([Span("running", 0.0, 1e300)])}
    picture = a_picture("FAILED", replicas=lives)
    assert (picture.began, picture.ended) == (START, NOW)
    found = shown(picture)
    styles = [each["style"] for tag, each in found.elements if tag == "i" and "style" in each]
    assert styles[-1] == "left: 0.000%; width: 100.000%"


def test_what_is_logged_and_is_no_number_is_left_out(tmp_path):
    with journal.opened(tmp_path, "train"):
        journal.log_metrics({"cpu_seconds": math.nan, "peak_memory_bytes": math.inf, "cost": 1})
    (step,) = of_workspace.read(tmp_path)
    assert step.metrics == {"cost": 1.0}


def test_of_very_many_replicas_those_that_failed_are_shown():
    lives = workers(1000, failed=[999], restarted=[998])
    text = page.render(a_picture(replicas=lives))
    found = Page(text)
    names = [text for text in found.texts if re.fullmatch(r"worker-\d+", text)]
    assert len(names) == page.ROWS and names[:2] == ["worker-0", "worker-1"]
    assert names[-2:] == ["worker-998", "worker-999"]
    assert f"{1000 - page.ROWS} more replicas are not shown" in found.text
    assert len(text) < 500_000


def test_what_replicas_used_is_beside_what_they_asked_for(replicas_of_a_job):
    lives = workers(2)
    lives["worker-1"] = Life(lives["worker-1"].spans, 0, 120.0, 2.0**31)
    found = shown(a_picture(replicas=lives, requested=replicas_of_a_job))
    assert "0.50 to 2.00 (worker-1)" in found.texts
    assert "512.0 MiB to 2.0 GiB (worker-1)" in found.texts
    meters = [each["title"] for tag, each in found.elements if each.get("class") == "meter"]
    assert meters == ["100 % of what it has asked for", "200 % of what it has asked for"]


@pytest.fixture
def replicas_of_a_job(job, replicas):
    resources = {"requests": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "4"}}
    worker = replicas(["x"], 2, resources=resources)
    return requested_by(job("PyTorchJob", Master=replicas(["x"]), Worker=worker))


def test_on_a_cluster_use_is_not_measured_and_what_was_asked_for_is_told(replicas_of_a_job):
    life = Life([Span("running", START + 20, NOW - 10)])
    found = shown(a_picture(replicas={"worker-0": life}, requested=replicas_of_a_job))
    assert found.texts.count("not measured") == 2 and "4" in found.texts


def test_cost_is_told_of_the_run_and_of_its_steps():
    picture = a_picture(metrics={"cost": 2.5})
    picture.metrics, picture.tags = {"cost": 3.0}, {"currency": "EUR"}
    found = shown(picture)
    assert "3.00 EUR" in found.texts and "2.50 EUR" in found.texts
    assert "cost" not in shown(a_picture()).texts


def test_what_the_time_went_to_is_a_bar_and_a_table():
    of = Ledger(seconds={"training": 60.0, "hang": 40.0}, cost={"training": 3.0}, ran=100.0)
    picture = a_picture(metrics=metrics(of))
    picture.tags = {"currency": "EUR"}
    found = shown(picture)
    assert found.bars("training") == ["training: 1 min 00 s, 60.0 %"]
    assert found.bars("hang") == ["hang: 40 s, 40.0 %"]
    assert "60% of 1 min 40 s: training 1 min 00 s, hang 40 s; 3.00 EUR" in found.texts
    assert "Goodput" not in shown(a_picture()).texts


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED", "lost", "running", "pending"])
def test_of_a_run_that_has_recorded_nothing_there_is_a_page(state):
    picture = Picture("digits", NOW, state)
    picture.add([StepPicture("train"), StepPicture("evaluate", "pending")])
    picture.close()
    assert "digits" in shown(picture).text


@pytest.mark.parametrize(
    "values",
    [
        [1, math.nan, 3, math.inf, 5],
        [7, 7],
        [math.nan, 2],
        [-1.7e308, 1.7e308],
        [0, 5e-324],
    ],
)
def test_a_curve_is_drawn_whatever_its_values_are(values):
    text = curves.draw(
        "loss", {"train": Curve([float(n) for n in range(len(values))], values)}, {"train": 0}
    )
    assert "nan" not in text and "inf" not in text
    places = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", text)
    numbers = [float(number) for place in places for number in place]
    assert all(0 <= number <= curves.WIDTH for number in numbers)


def test_a_spike_among_very_many_values_is_still_there():
    values = [1.0] * 100_000
    values[54_321] = 50.0
    text = curves.draw(
        "loss", {"train": Curve([float(n) for n in range(100_000)], values)}, {"train": 11}
    )
    assert len(text) < 20_000
    assert f" {curves.TOP:.1f}" in text.partition("line3")[2]


def test_more_curves_than_a_person_looks_at_are_counted():
    many = {f"metric {number:03}": Curve([1, 2], [1, 2]) for number in range(page.CHARTS + 5)}
    found = shown(a_picture(curves=many))
    assert sum(tag == "figure" for tag, _ in found.elements) == page.CHARTS
    assert "5 more are in MLflow." in found.texts


def test_of_very_many_trials_the_lines_are_those_that_can_be_told_apart():
    picture = Picture("digits", NOW, "FINISHED", START, NOW)
    curve = Curve([1, 2], [1, 2])
    picture.add(StepPicture(f"trial-{n:03}", curves={"loss": curve}) for n in range(15))
    picture.close()
    found = shown(picture)
    lines = [
        each["class"] for tag, each in found.elements if each.get("class", "").startswith("line")
    ]
    assert len(lines) == len(set(lines)) == curves.LINES
    assert f"Those of {15 - curves.LINES} more steps are in MLflow." in found.texts


def test_what_is_read_of_a_program_is_drawn_and_what_it_logs_itself_wins(tmp_path):
    with journal.opened(tmp_path, "train"):
        journal.log_points({"loss": [(1, 3.0, 0), (2, 2.0, 0)], "once": [(2, 0.5, 0)]})
        journal.log_points({"loss": [(2, 1.0, 0), (3, math.nan, 0)], "b": [(1, 1, 0), (2, 1, 0)]})
    (step,) = of_workspace.read(tmp_path)
    assert step.told["loss"].at == [1, 2, 3]
    assert step.told["loss"].values[:2] == [3, 1]  # after a restart
    assert step.metrics == {"once": 0.5, "b": 1.0}
    logged = StepPicture("train", curves={"loss": Curve([1, 2], [7, 7])}, told=step.told)
    charts = page._charts(Picture("digits", NOW, steps={"train": logged})).charts
    assert [(chart.name, chart.last) for chart in charts] == [("loss", "7"), ("b", "1")]


def test_a_curve_has_points_of_one_kind_and_says_which(tmp_path):
    with journal.opened(tmp_path, "train"):
        loss = [(1, 9.0, 0, "epoch"), (100, 3.0, 0, "step"), (200, 2.0, 0, "step")]
        journal.log_points({"loss": loss, "val_loss": [(n, n, 0, "epoch") for n in (1, 2)]})
    (step,) = of_workspace.read(tmp_path)
    assert step.told == {
        "loss": Curve([100, 200], [3, 2], "step"),
        "val_loss": Curve([1, 2], [1, 2], "epoch"),
    }
    # As MLflow has them.
    step.curves = {"val_loss": Curve([1, 2], [1, 2]), "loss": Curve([1, 2], [1, 2])}
    texts = shown(a_picture(curves=step.curves, told=step.told)).texts
    assert "epoch 1" in texts and "step 1" in texts


def test_the_folder_of_a_run_is_read_while_a_step_is_under_way(tmp_path, job, replicas):
    logs = tmp_path / "trials" / "003" / "steps" / "train"
    logs.mkdir(parents=True)
    lives = {"worker-0": Life([Span("running", 5.0)])}
    job_of = SimpleNamespace(has_ended=False, lives=lambda: lives)
    timeline.Timeline(logs / timeline.NAME).tick(job_of)
    (logs / "job.yaml").write_text(json.dumps(job("PyTorchJob", Master=replicas(["x"]))))
    with journal.opened(tmp_path, "trial-003"):
        journal.log_params({"lr": 0.1})
        journal.log_artifact(logs / timeline.NAME)
        journal.log_error(StepFailed("too wide", "the end"), is_fatal=False)
        (step,) = of_workspace.read(tmp_path)
    assert (step.name, step.state, step.ended) == ("trial-003", "", None)
    assert (step.error, step.last_lines) == ("too wide", "the end")
    assert step.replicas == lives and set(step.requested) == {"master"}


def requested_in(folder):
    step = StepPicture("train")
    of_workspace.describe_training(step, folder)
    return step.requested


def test_what_a_trainjob_asked_for_is_read_with_the_runtime_before_it(tmp_path):
    job = TrainingJob.create(name="a", entrypoint="train.py", workers=1, cpu=3)
    (tmp_path / "job.yaml").write_text(to_yaml(render(job, "trainer")))
    requested = requested_in(tmp_path)
    assert {role: asked["cpu"] for role, asked in requested.items()} == {"master": 3, "worker": 3}


@pytest.mark.parametrize(
    "text",
    ["", "[", "- 1", "kind: PyTorchJob", "kind: [x]\nspec: 1", "1\n---\nkind: TrainJob\nspec: 1"],
)
def test_a_manifest_that_a_program_has_written_to_asks_for_nothing(tmp_path, text):
    (tmp_path / "job.yaml").write_text(text)
    assert requested_in(tmp_path) == {}


def test_what_is_known_first_stays_and_what_is_empty_is_filled():
    picture = Picture("digits", NOW)
    picture.add([StepPicture("train", "FAILED", params={"a": 1})])
    picture.add([StepPicture("train", "running", 5.0, error="why", params={"a": 2, "b": 3})])
    step = picture.steps["train"]
    assert (step.state, step.began, step.error) == ("FAILED", 5.0, "why")
    assert step.params == {"a": 1, "b": 3}


def test_a_run_that_is_not_there_is_bad_input(trireme, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path))
    status, output, errors = trireme("report", "no-such-run")
    assert (status, output) == (2, "")
    assert errors.startswith("error: there is no run 'no-such-run'") and errors.count("\n") == 1


def a_run(home, name, **fields):
    folder = home / "runs" / name
    (folder / "workspace").mkdir(parents=True)
    record = {"layout": LAYOUT, "state": "FINISHED", "started": START, "seconds": 9.0, "cwd": "/"}
    (folder / "run.json").write_text(json.dumps(record | fields))
    return folder / "workspace"


def test_a_run_that_mlflow_does_not_know_has_a_page_that_says_so(trireme, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    error = ["replica worker-0 exited with status 1", "", 1]
    workspace = a_run(tmp_path, "digits-1", state="FAILED", error=error)
    with journal.opened(workspace, "train"):
        journal.log_error(StepFailed(error[0], "[worker-0] the end"))
        journal.log_end("FAILED")
    status, output, _ = trireme("report", "digits-1")
    assert (status, output) == (0, "digits-1.html\n")
    found = Page((tmp_path / "digits-1.html").read_text())
    assert "[worker-0] the end" in found.texts and "What failed: train" in found.texts
    assert "What MLflow has recorded is not in this picture: " in found.text


def test_a_file_that_cannot_be_written_is_bad_input(trireme, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path))
    a_run(tmp_path, "digits-1")
    status, _, errors = trireme("report", "digits-1", "-o", str(tmp_path / "no" / "page.html"))
    assert status == 2 and errors.count("\n") == 1
    assert "cannot be written: No such file or directory" in errors


def test_a_page_goes_to_where_a_link_leads_into_a_folder_and_through_a_pipe(
    trireme, tmp_path, monkeypatch
):
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path))
    a_run(tmp_path, "digits-1")
    (tmp_path / "latest.html").symlink_to("real.html")
    for place, file in (("latest.html", "real.html"), (".", "digits-1.html")):
        assert trireme("report", "digits-1", "-o", str(tmp_path / place))[0] == 0
        assert (tmp_path / file).read_text().startswith("<!doctype html>")
    assert (tmp_path / "latest.html").is_symlink()
    (tmp_path / "page.html").symlink_to(tmp_path / "elsewhere" / "page.html")
    (tmp_path / "elsewhere").mkdir()
    status, _, errors = trireme("report", "digits-1", "-o", str(tmp_path / "page.html"))
    assert status == 2 and "page.html: is a link out of its folder" in errors
    assert [*(tmp_path / "elsewhere").iterdir()] == []
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert trireme("report", "digits-1", "-o", str(tmp_path / "pipe"))[0] == 0
    assert os.read(reader, 15) == b"<!doctype html>"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("seconds", [0, 0.01, 3, 59, 3600, 86_400, 40 * 86_400, 400 * 86_400, 1e9])
def test_the_time_line_has_a_few_lines_however_long_it_is(seconds):
    picture = Picture("digits", NOW, "FINISHED", NOW - seconds, NOW)
    picture.add([StepPicture("train", "FINISHED", NOW - seconds, NOW)])
    picture.close()
    labels = page._tick_labels(picture, page._tick(seconds))
    assert page.FEWEST_TICKS <= len(labels) <= 16
    assert all(0 <= left < 95 for left, _ in labels)


@pytest.mark.parametrize(
    ("made", "steps"),
    [(2, ["trial-000", "trial-001"]), (3, ["step trial-000", "step trial-001"])],
)
def test_steps_that_make_several_trials_are_not_taken_for_these(made, steps):
    picture = Picture("sweep", NOW)
    picture.add(StepPicture(f"trial-{number:03}", metrics={"loss": 1}) for number in range(made))
    _add_trials(picture, [StepPicture(f"trial-{number:03}", "FINISHED") for number in range(2)])
    assert [name for name, step in picture.steps.items() if step.state] == steps
    assert sum(bool(step.metrics) for step in picture.steps.values()) == made


def dl(text, heading):
    """Returns names and values of the first list below a heading."""
    below = text.partition(f"<h2>{heading}</h2>")[2].partition("</dl>")[0]
    return dict(re.findall("<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", below))


def test_the_programs_arguments_are_as_they_are_typed():
    args = ["--rate", "0.1", "--name", "a b"]
    for kept in (args, str(args)):  # here, and as MLflow keeps them
        params = {"world_size": 1, "entrypoint": "train.py", "args": kept}
        text = page.render(a_picture(params=params))
        assert dl(text, "The run")["Program"] == "train.py --rate 0.1 --name &#39;a b&#39;"
    for kept in ("['--cut off", "", None, "7"):
        params = {"world_size": 1, "entrypoint": "train.py", "args": kept}
        assert dl(page.render(a_picture(params=params)), "The run")["Program"] == "train.py"


def test_parameters_that_differ_from_the_defaults_come_first_and_all_others_are_folded():
    picture = a_picture()
    picture.params = {"workers": "3", "seed": "0", "code_url": HOSTILE}
    picture.defaults = {"workers": "1", "seed": "0", "code_url": ""}
    text = page.render(picture)
    assert set(dl(text, "Parameters")) == {"workers", "code_url"}
    folded = text.partition("<details><summary>1 defaults</summary>")[2].partition("</details>")[0]
    assert "<dt>seed</dt><dd>0</dd>" in folded
    assert HOSTILE not in text

    picture.defaults = dict(picture.params)
    text = page.render(picture)
    assert "All are the pipeline&#39;s defaults" in text or "All are the pipeline's" in text
    assert "<summary>3 defaults</summary>" in text

    picture.defaults = None  # of somebody's own pipeline that ran elsewhere
    assert "<summary>3 parameters</summary>" in page.render(picture)
    picture.params = {}
    assert "Parameters" not in page.render(picture)


def test_links_are_followed_where_they_can_be_and_read_where_not():
    picture = a_picture()
    picture.links = {"MLflow": "https://example.org/#/runs/1", "Report": 'a".html'}
    assert '<a href="https://example.org/#/runs/1">MLflow</a>' in page.render(picture)
    assert '<a href="a&#34;.html">Report</a>' in page.render(picture)
    framed = page.render(picture, is_framed=True)
    assert "<a " not in framed
    assert '<dt>MLflow</dt><dd class="copied">https://example.org/#/runs/1</dd>' in framed


LINEAGE = {"git.commit": "0123", "dataset.fingerprint": "4567", "pipeline": "pytorch-training"}


@pytest.mark.parametrize(
    ("state", "tags", "more", "said"),
    [
        ("FAILED", {}, {}, "trireme resume run-1"),
        ("KILLED", {}, {"target": "argo"}, "trireme resume run-1 --target argo"),
        ("lost", LINEAGE, {}, "trireme resume run-1"),
        ("FINISHED", LINEAGE, {}, "trireme reproduce run-1"),
        ("FINISHED", LINEAGE, {"target": "kfp", "recorded": "89ab"}, "trireme reproduce 89ab"),
        ("FINISHED", LINEAGE, {"target": "kfp", "recorded": ""}, None),
        ("FINISHED", LINEAGE | {"pipeline": "flowers"}, {}, None),  # which has to be named
        ("FINISHED", {"pipeline": "pytorch-training"}, {}, None),
        ("running", LINEAGE, {}, None),
    ],
)
def test_what_may_be_done_with_a_run_is_a_command(state, tags, more, said):
    picture = a_picture()
    picture.commands = commands("run-1", state, tags, **more)
    assert list(picture.commands.values()) == ([said] if said else [])
    if said:
        assert f'<code class="copied">{said}</code>' in page.render(picture)
