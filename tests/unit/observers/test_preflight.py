"""trireme/observers/preflight: what is put before a program, and what is made of the findings."""

import ast
import copy
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from shapes import SHAPES

from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.manifests.roles import roles
from trireme.observers.preflight import replica, report, wrapping
from trireme.observers.preflight.observer import Preflight
from trireme.observers.preflight.replica import (
    all_reduce,
    collective,
    meeting,
    mpi,
    place,
    said,
    verdict,
)
from trireme.observers.preflight.replica.place import Place
from trireme.observers.preflight.replica.said import Skipped
from trireme.report import page
from trireme.report.picture import Picture, StepPicture
from trireme.runner import preflight as alone

SOURCES = sorted(Path(replica.__file__).parent.glob("*.py"))


def described(**fields):
    return TrainingJob.create(**{"entrypoint": "train.py", "workers": 2} | fields)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_replicas_need_no_more_than_python_3_8(source):
    tree = ast.parse(source.read_text(), feature_version=(3, 8))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {*os.sys.stdlib_module_names, "trireme"}
    ours = re.findall(r"from (trireme\.\S+) import", source.read_text())
    assert all(name.startswith(replica.__name__) for name in ours)


@pytest.mark.parametrize("operator", ["training-operator", "trainer"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrapped_program_is_what_it_was(shape, operator):
    job = TrainingJob.create(**SHAPES[shape])
    try:
        before = render(job, operator)
    except InputError:
        pytest.skip("not for this operator")
    after = copy.deepcopy(before)
    Preflight(job).prepare(after)
    if wrapping.why_not(job):
        assert after == before
        return
    changed = 0
    for was, now in zip(roles(before), roles(after), strict=True):
        old, new = was.pod["containers"][0], now.pod["containers"][0]
        if old == new:
            continue
        changed += 1
        assert new["command"][5:] == old.get("command", []) and new.get("args") == old.get("args")
        assert not re.search(r"\$\(", "".join(new["command"][:5]))
        assert json.loads(new["command"][4])["role"] in {*job.roles, "node"}
    assert changed or job.runtime


def test_a_job_can_leave_it_out():
    def changes(job):
        Preflight(job).prepare(manifest := render(job))
        return manifest != render(job)

    assert changes(described())
    assert not changes(described(preflight=False))
    assert not changes(described(workers=0))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"workers": 0}, "the job is one replica"),
        ({"elastic": {"min": 1, "max": 2}}, "an elastic job come and go"),
        ({"entrypoint": None, "command": ["/trainer"]}, "the command of the master is /trainer"),
    ],
)
def test_what_cannot_be_tested_is_refused(fields, why):
    with pytest.raises(InputError, match=f"there is no preflight: .*{why}"):
        alone.described(described(**fields))


def test_a_job_of_a_runtime_of_the_cluster_is_tested_as_that_says():
    job = described(runtime="torch-distributed")
    assert alone.described(job).restart_policy is None
    render(alone.described(job), "trainer")


def wrapped(tmp_path, path=None, **environment):
    """Starts what stands before a program, which prints ``trained``."""
    manifest = render(described(framework="custom", entrypoint=None, command=["sh"]))
    wrapping.wrap(manifest, described(framework="custom"), 60.0)
    command = roles(manifest)[1].pod["containers"][0]["command"][:-1]
    variables = {"PATH": path or os.environ["PATH"], "CHECKPOINT_DIR": str(tmp_path)}
    return subprocess.Popen(
        [*command, "/bin/echo", "trained"],
        env=variables | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_an_image_without_python_trains_and_says_so(tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    done = wrapped(tmp_path, path=str(tmp_path)).communicate(timeout=60)[0].splitlines()
    assert report.Report().shown("worker-0", done[0]) == (
        "preflight was skipped: the image has no python3"
    )
    assert done[1:] == ["trained"]


def test_a_fault_of_the_test_is_none_of_the_jobs(tmp_path):
    done = wrapped(tmp_path).communicate(timeout=60)[0].splitlines()
    assert "PET_NODE_RANK and RANK are not set" in done[0]
    assert done[1:] == ["trained"]


def test_a_replica_that_waits_ends_when_it_is_told_to(tmp_path):
    where = {"RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    process = wrapped(tmp_path, **where)
    assert said.MARK in process.stdout.readline()  # it says what it waits for
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143
    process.stdout.close()


def record(name, **facts):
    usual = {
        "node": name,
        "asked": "",
        "saves": True,
        "answer": 0.0001,
        "clock": 0.0,
        "versions": {"python": "3.11", "torch": "2.13.0", "numpy": "2.4.6"},
        "cores": 8.0,
        "speed": 30.0,
        "memory": 64 << 30,
        "shm": {"size": 16 << 30, "free": 16 << 30},
        "disk": {"write": 3e8, "read": 6e8, "folder": "/ckpt"},
        "data": {"files": 100, "read": 5e8, "folder": "/data"},
        "problems": [],
        "links": [],
        "interface": "",
        "all_reduce": {"4096": 0.001},
    }
    return {"replica": name} | usual | facts


def ring(size, figure=lambda one, other: {}):
    """Returns the records of a job, each of whose links is as usual but for some figures."""
    names = [f"worker-{rank}" for rank in range(size)]
    usual = {"answer": 0.0002, "resent": 0.0, "rate": 3e9}
    return [
        record(
            name,
            links=[
                {"from": name, "to": other} | usual | figure(name, other)
                for stride in (1, 2)
                if stride < size
                for other in [names[(rank + stride) % size]]
            ],
        )
        for rank, name in enumerate(names)
    ]


def sentences(records):
    return [problem["sentence"] for problem in verdict.judge(records, "torch")]


def test_nothing_is_wrong_with_replicas_that_are_alike():
    for size in (2, 3, 8, 64):
        assert not sentences(ring(size))


@pytest.mark.parametrize("size", [3, 4, 8, 64])
@pytest.mark.parametrize("end", [0, 1])
def test_of_many_the_slow_one_is_named(size, end):
    """Also if it is slow in one direction only, which its neighbours have a part in."""
    slow = f"worker-{size - 1}"
    found = sentences(
        ring(size, lambda *ends: {"rate": 9e8 if ends[end] == slow else 3e9, "answer": 0.0001})
    )
    assert found == [
        f"replica {slow} moves 7.2 Gbit/s, the others 24.0 Gbit/s: see what limits its node's "
        "network, or take another node"
    ]


def test_two_replicas_have_only_each_other():
    assert sentences(ring(2, lambda *ends: {"answer": 0.1, "rate": 1e6})) == [
        "each replica answers after 100.0 ms, moves 8.0 Mbit/s: put all replicas into one zone "
        "and network"
    ]


@pytest.mark.parametrize(("size", "who"), [(2, "each replica"), (3, "replica worker-1")])
def test_where_nothing_large_comes_through_neither_of_two_is_blamed(size, who):
    found = sentences(ring(size, lambda *ends: {"rate": 0.0} if "worker-1" in ends else {}))
    assert [sentence.partition(",")[0] for sentence in found] == [f"{who} answers"]


@pytest.mark.parametrize(("apart", "differ"), [(0.9, []), (1.5, ["1.5"]), (3.0, ["3.0"])])
def test_the_clocks_of_two_differ_and_neither_is_blamed(apart, differ):
    records = ring(2)
    records[1]["clock"] = -apart
    assert sentences(records) == [
        f"the clocks of replicas worker-0 and worker-1 differ by {seconds} s: set each by NTP on "
        "its node; tokens and logs go by it"
        for seconds in differ
    ]


def test_a_clock_a_node_and_a_disk_that_differ_are_named():
    records = ring(4)
    records[1] |= {"clock": -30.0, "disk": {"write": 2e6, "read": 6e8, "folder": "/ckpt"}}
    records[2] |= {"speed": 15.0, "data": {"files": 0, "folder": "/data"}}
    records[3] |= {"memory": 1 << 30, "versions": {"python": "3.10", "torch": "2.13.0"}}
    found = sentences(records)
    for words in (
        "the clock of replica worker-1 is 30.0 s behind the others",
        "replica worker-1 writes to CHECKPOINT_DIR at 2.0 MB/s, the others at 300.0",
        "replica worker-2 computes at 50% of the others' speed",
        "replica worker-2 cannot read DATA_DIR /data (there are no files), though others can",
        "replica worker-3 has 1.0 GiB of memory free, the others 64.0",
        "replica worker-3 has python 3.10, replicas worker-0, worker-1, worker-2 have 3.11",
    ):
        assert any(words in sentence for sentence in found), found
    assert len(found) == 6


def test_what_all_have_is_said_once():
    records = ring(8)
    for each in records:
        each["disk"] = {"error": "permission denied", "full": False, "there": True, "folder": "/c"}
    (only,) = verdict.judge(records, "torch")
    assert only["fatal"]
    assert "replica worker-0 (and 7 more) cannot write to CHECKPOINT_DIR" in only["sentence"]


def test_only_those_that_save_need_a_disk_to_train():
    records = ring(2)
    for each in records:
        each["disk"] = {"error": "permission denied", "full": False, "there": True, "folder": "/c"}
    records[0]["saves"] = False
    assert [each["fatal"] for each in verdict.judge(records, "torch")] == [False, True]
    roles_there = {name: {"count": 1} for name in ("chief", "ps", "worker", "evaluator")}
    job = TrainingJob.create(framework="tensorflow", entrypoint="t.py", replicas=roles_there)
    manifest = render(job)
    wrapping.wrap(manifest, job)
    commands = [role.pod["containers"][0]["command"] for role in roles(manifest)]
    told = {config["role"]: config["saves"] for config in (json.loads(c[4]) for c in commands)}
    assert told == {"chief": True, "ps": True, "worker": True, "evaluator": False}


def test_each_name_is_looked_up_by_two_replicas_however_many_there_are(monkeypatch):
    monkeypatch.setattr(place, "YOUNG", 0.0)
    looked_up, look_up = [], socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda name, *more: looked_up.append(name) or look_up(name, *more)
    )
    addresses = [f"127.0.{number // 250}.{1 + number % 250}:2222" for number in range(256)]
    addresses[5] = "missing.invalid:2222"
    config = {"meeting": {"config": "TF_CONFIG"}, "counts": {"worker": 256}, "role": "worker"}
    missed = []
    for index in range(256):
        task = {"type": "worker", "index": index}
        told = json.dumps({"cluster": {"worker": addresses}, "task": task})
        missed += place.unknown(place.find(config, {"TF_CONFIG": told}))
    assert [each["replica"] for each in missed] == ["worker-3", "worker-4"]
    assert len(looked_up) == 2 * 256 - 1  # the first that fails is enough
    assert {*looked_up} == {address.rpartition(":")[0] for address in addresses}


def test_what_all_have_said_is_written_once_for_all(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    places = [Place("worker", rank, rank, 16, "127.0.0.1", port, []) for rank in range(16)]
    written, dumps = [], json.dumps
    monkeypatch.setattr(
        meeting.json, "dumps", lambda content: written.append(content) or dumps(content)
    )
    hub, answers = meeting.Hub(places[0], "token", 30.0), []
    hub.start()

    def meet(where):
        met = meeting.Meeting(where, "token", 30.0, lambda problem: None)
        answers.append(met.exchange({"rank": where.rank}))
        met.close()

    threads = [threading.Thread(target=meet, args=(where,)) for where in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == 16 * [[{"rank": rank} for rank in range(16)]]
    assert sum("all" in content for content in written) == 1


def test_what_no_replica_says_ends_the_meeting():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    one, other = (Place("worker", rank, rank, 2, "127.0.0.1", port, []) for rank in range(2))
    hub = meeting.Hub(one, "token", 30.0)
    hub.start()
    met = meeting.Meeting(one, "token", 30.0, lambda problem: None)
    met.connection.settimeout(30)
    odd = meeting.Meeting(other, "token", 30.0, lambda problem: None)
    odd.connection.sendall(b"[]\n")
    with pytest.raises(Skipped, match="a connection broke"):
        met.exchange({})
    met.close()
    odd.close()


def test_what_a_library_prints_need_be_no_text():
    source = r"""import sys; sys.stdout.buffer.write(b'\xff\n{"versions": {}}\n')"""
    process = collective.Collective(source, "json", Place("worker", 0, 0, 1, "127.0.0.1", 1, []))
    assert process.load() == {}
    process.end()


STALLS = """
import sys, time
print('{"versions": {}}', flush=True)
sys.stdin.readline()
time.sleep(1)
print('{"joined": true}', flush=True)
"""


@pytest.mark.parametrize(("size", "is_patient"), [(2, False), (2000, True)])
def test_many_replicas_have_longer_to_join(monkeypatch, size, is_patient):
    monkeypatch.setattr(collective, "STALLED", 0.1)
    monkeypatch.setattr(collective, "EACH", 0.02)
    process = collective.Collective(STALLS, "json", Place("worker", 0, 0, size, "127.0.0.1", 1, []))
    assert process.load() == {}
    process.run([])
    process.end()
    assert (process.problem is None) == is_patient
    assert is_patient or process.problem["sentence"].endswith("it has stalled")


def test_who_has_reduced_stays_as_long_as_others_may_need_it():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    source = Path(all_reduce.__file__).read_text()
    there = Place("worker", 0, 0, 1, "127.0.0.1", port, [])
    process = collective.Collective(source, "torch", there)
    try:
        assert process.load() is not None
        assert process.run([(4096, 1)]).keys() == {"4096"}
        with pytest.raises(subprocess.TimeoutExpired):
            process._process.wait(1)
    finally:
        process.end()


MARK = said.MARK.encode()


@pytest.mark.parametrize("garbled", [MARK + b'{"rec' + MARK, MARK + b"7", b"\xff"])
def test_a_garbled_line_of_a_rank_is_passed_over(garbled, capfd):
    problem = said.problem("disk", "worker-0", "its disk", is_fatal=True)
    text = garbled + b"\n" + line(verdict={"problems": [problem]}).encode()
    command = [sys.executable, "-c", f"import os; os.write(1, {text!r})"]
    assert mpi._follow(command, 60.0) == said.FAILED
    assert said.MARK in capfd.readouterr().out


def test_mpirun_does_not_outlive_a_fault_of_the_test(runs, tmp_path, capfd):
    odd = line(verdict=[])
    script = f"echo $$ > {tmp_path}/pid; echo '{odd}'; exec sleep 600"
    with pytest.raises(AttributeError):
        mpi._follow(["sh", "-c", script], 60.0)
    assert not runs(int((tmp_path / "pid").read_text()))


def test_less_is_reduced_where_links_are_slow():
    fast = dict(collective.sizes([3e9, 2e9], [0.0001], 8))
    slow = dict(collective.sizes([3e9, 1e6], [0.1], 8))
    assert max(fast) == 64 << 20 and max(slow) == 2 << 20
    assert fast[4096] == 50 and slow[4096] == 2


def line(**content):
    return said.MARK + json.dumps(content)


def test_a_report_is_of_all_replicas(tmp_path):
    found = report.Report(tmp_path / "preflight.json")
    assert found.shown("worker-0", "epoch 1") == "epoch 1"
    for nothing in (said.MARK + "{", said.MARK + "[" * 50_000):
        assert found.shown("worker-0", nothing) == nothing
    assert not found.content and not found.metrics()
    for each in ring(2):
        assert found.shown(each["replica"], line(record=each)) is None
    said_last = found.shown("worker-0", line(verdict={"problems": [], "seconds": 6.04}))
    assert said_last == "preflight passed in 6.0 s"
    found.check(1e6)  # and does not end the job
    metrics = found.metrics()
    assert metrics["preflight/slowest_link_gbit_per_s"] == 24
    assert metrics["preflight/seconds"] == 6.04
    content = report.read(tmp_path / "preflight.json")
    assert len(report.table(content)) == 2 and report.figures(content) == metrics


def test_runs_whose_links_differ_have_figures_of_the_same_names():
    figures = []
    for rates in ([3e9], [1e7]):
        took = {str(size): 0.01 for size, _ in collective.sizes(rates, [0.0001], 2)}
        content = {"seconds": 1.0, "problems": [], "replicas": ring(2)}
        for each in content["replicas"]:
            each["all_reduce"] = took
        figures.append(report.figures(content))
    fast, slow = figures
    assert fast.keys() == slow.keys()
    assert fast["preflight/all_reduce_large_mib"] == 64
    assert slow["preflight/all_reduce_large_mib"] < 8


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"replicas": [{}]}', "\0", "[" * 100_000])
def test_a_file_that_a_program_has_written_is_no_report(tmp_path, text):
    (tmp_path / "preflight.json").write_text(text)
    assert report.read(tmp_path / "preflight.json") == {}


def test_what_explains_the_others_is_why_a_job_ends(monkeypatch):
    monkeypatch.setattr(report, "TOGETHER", 0.0)
    found = report.Report()
    for step in ("size", "name", "port"):
        problem = said.problem(step, "worker-0", f"its {step}", is_fatal=True)
        found.shown("worker-0", line(verdict={"problems": [problem]}))
    with pytest.raises(report.PreflightFailed, match=r"^preflight: its name$") as caught:
        found.check(0)
    assert caught.value.detail == "its port\nits size"


def test_what_keeps_replicas_waiting_that_all_run_ends_the_job(monkeypatch):
    found = report.Report()
    problem = said.problem("port", "worker-1", "it cannot reach", is_fatal=True)
    assert found.shown("worker-1", line(waiting=problem)) is None
    found.check(report.CERTAIN / 2)
    found.shown("worker-1", line(waiting=None))
    found.check(2 * report.CERTAIN)
    found.shown("worker-1", line(waiting=problem))
    for said_by_the_first in (
        {"verdict": {"problems": [], "seconds": 1.0}},
        {"all_here": True},  # the lines of others may come much later
        {"skipped": "MASTER_PORT is not set"},
    ):
        other = report.Report()
        other.shown("worker-1", line(waiting=problem))
        other.shown("master-0", line(**said_by_the_first))
        other.shown("worker-1", line(waiting=problem))  # one that is started again
        other.check(2 * report.CERTAIN)
    with pytest.raises(report.PreflightFailed, match="it cannot reach"):
        found.check(2 * report.CERTAIN)


def test_a_start_that_passes_makes_up_for_one_that_has_not():
    found = report.Report()
    problem = said.problem("disk", "worker-1", "its disk", is_fatal=True)
    found.shown("master-0", line(verdict={"problems": [problem], "seconds": 1.0}))
    assert found.failure
    found.shown("master-0", line(verdict={"problems": [], "seconds": 2.0}))
    found.check(0)
    assert not found.failure


def test_what_a_program_prints_like_a_record_is_shown():
    text = line(record={"replica": "worker-1"})
    found = report.Report()
    assert found.shown("worker-1", text) == text
    assert found.shown("worker-1", line(record=ring(1)[0] | {"replica": "worker-²"})) is None
    found.shown("worker-1", line(verdict={"problems": [], "seconds": 1.0}))
    assert found.metrics()["preflight/problems"] == 0


def test_the_page_of_a_run_has_the_table_and_what_is_wrong():
    records = ring(3)
    records[2]["disk"] = {"error": "<b>full</b>", "full": True, "there": True, "folder": "/c"}
    problems = verdict.judge(records, "torch")
    content = {"seconds": 6.0, "problems": problems, "replicas": records}
    picture = Picture("digits", 1.0, "FAILED", 0.5, 1.0)
    picture.add([StepPicture("train", "FAILED", 0.5, 1.0, preflight=content)])
    picture.close()
    text = page.render(picture)
    assert "<h2>Preflight</h2>" in text
    assert '<th scope="row">worker-2</th><td>0.2 ms</td><td>24.0 Gbit/s</td>' in text
    assert "replica worker-2 cannot write to CHECKPOINT_DIR /c" in text
    assert "&lt;b&gt;full" in text and "<b>full" not in text
