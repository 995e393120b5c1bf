"""``trireme job`` on a cluster, as a person uses it."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from player import Player

from trireme.cli import app as cli
from trireme.code import command
from trireme.frameworks import KINDS
from trireme.kubernetes import connection
from trireme.kubernetes.connection import Cluster
from trireme.runner.cluster import follower, submission

JOB = "entrypoint: train.py\nimage: example.org/train\nworkers: 1\noperator: training-operator\n"


@pytest.fixture(autouse=True)
def quick_to_settle(monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 1.0)


@pytest.fixture
def trireme(monkeypatch, capsys, tmp_path):
    """Runs a command about jobs; returns its exit status and what it printed."""
    # Where there is an operator it leaves the job to the test.
    (tmp_path / "job.yaml").write_text(JOB + "suspend: true\n")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["trireme", "job", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output, errors = capsys.readouterr()
        return SimpleNamespace(status=ended.value.code, output=output, errors=errors)

    return run


@pytest.fixture
def there(trireme, cluster):
    """Runs a command in the test's own namespace."""
    return lambda *arguments: trireme(*arguments, "--namespace", cluster.namespace)


@pytest.fixture
def manifest(there):
    """What ``submit job.yaml --name digits`` brings to the cluster."""
    return yaml.safe_load(there("submit", "job.yaml", "--name", "digits", "--dry-run").output)


def test_a_job_is_checked_and_not_made(cluster, there, manifest):
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("PyTorchJob", "digits")
    assert submission.find(cluster, manifest) is None


def test_a_job_is_submitted_listed_shown_cancelled_and_deleted(cluster, there, talkative, manifest):
    done = there("submit", "job.yaml", "--name", "digits")
    assert (done.status, done.output) == (
        0,
        f"PyTorchJob digits is in namespace {cluster.namespace}; "
        f"follow it with: trireme job logs -f digits --namespace {cluster.namespace}\n",
    )
    job = talkative.wait_for(manifest)
    pod = talkative.pod(job, "worker")
    talkative.run(pod)
    talkative.logs.write(pod, "hello", "and more")
    talkative.event(job, "JobCreated", "it is there", kind="Normal")
    head, row = there("list").output.splitlines()
    assert head.split() == ["NAME", "KIND", "STATE", "REPLICAS", "AGE", "REASON"]
    assert row.split()[:4] == ["digits", "PyTorchJob", "suspended", "1/2"]
    shown = there("status", "digits").output
    assert shown.startswith("PyTorchJob digits: suspended, 1 of 2 running\n")
    assert f"worker-0  running  0         {talkative.get(pod)['spec'].get('nodeName', '')}" in shown
    assert "JobCreated  it is there" in shown
    logs = there("logs", "digits", "--replica", "worker-0")
    assert (logs.status, logs.output) == (0, "[worker-0] hello\n[worker-0] and more\n")
    assert there("cancel", "digits").output == "digits cancelled\n"
    assert there("list").output.split()[8] == "cancelled"
    talkative.remove(pod)
    assert there("delete", "digits").output == "digits deleted\n"
    gone = there("status", "digits")
    assert (gone.status, gone.errors) == (
        2,
        f"error: job 'digits': there is no such job in namespace {cluster.namespace}\n",
    )
    nothing = there("list")
    assert (nothing.output, nothing.errors) == ("", f"no jobs in namespace {cluster.namespace}\n")


def test_what_has_succeeded_is_not_run_again(there, talkative, manifest):
    there("submit", "job.yaml", "--name", "digits")
    talkative.condition(talkative.wait_for(manifest), "Succeeded")
    again = there("submit", "job.yaml", "--name", "digits")
    assert "is in namespace" in again.output and " and has succeeded already; " in again.output


def test_what_a_job_refers_to_has_to_be_there(server, trireme, tmp_path):
    (tmp_path / "job.yaml").write_text(JOB + "service_account: gone\n")
    for words in (("submit", "job.yaml"), ("submit", "job.yaml", "--dry-run")):
        refused = trireme(*words)
        assert refused.status == 2
        assert refused.errors == (
            "error: ServiceAccount gone is not in team: create it, or name another\n"
        )
    assert not [path for method, path in server.requests if method == "POST" and "jobs" in path]


def test_a_namespace_that_is_not_there_lists_nothing(server, trireme):
    refused = trireme("list", "-n", "nope")
    assert refused.status == 2 and "namespace" in refused.errors and "nope" in refused.errors


def test_a_job_that_is_waited_for_shows_its_lines_and_its_failure(
    cluster, there, talkative, manifest
):
    def happens():
        job = talkative.wait_for(manifest)
        pod = talkative.pod(job, "worker")
        talkative.run(pod)
        talkative.logs.write(pod, "hello", "no such luck")
        talkative.exit(pod, 3)
        talkative.condition(job, "Failed")

    thread = threading.Thread(target=happens)
    thread.start()
    failed = there("submit", "job.yaml", "--name", "digits", "--wait")
    thread.join()
    assert failed.status == 1
    assert "[worker-0] hello\n[worker-0] no such luck\n" in failed.output
    assert "\nqueued: it is suspended\n" in failed.errors
    assert failed.errors.endswith(
        "[worker-0] no such luck\nerror: replica worker-0 exited with status 3\n"
    )


def test_submitting_asks_for_rights_once(server, trireme):
    assert trireme("submit", "job.yaml").status == 0
    tried_out = [path.partition("?")[0] for _, path in server.requests if "dryRun" in path]
    assert [path.rpartition("/")[2] for path in tried_out] == ["pytorchjobs", "pods", "pods"]


# As Kubernetes 1.36 refuses pods (plugin/pkg/admission), by 403 as if it were a matter of rights.
SECURITY = (
    'pods "digits-master-0" is forbidden: violates PodSecurity "restricted:latest": '
    "runAsNonRoot != true"
)
WEBHOOK = 'admission webhook "w" denied the request: no'
RANGE = 'pods "x" is forbidden: maximum memory usage per Container is 3Gi, but limit is 4Gi'
QUOTA = 'pods "x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=9, limited: 9'


@pytest.mark.parametrize(
    "message", [SECURITY, RANGE, 'admission webhook "w" denied the request: no']
)
def test_pods_that_would_be_refused_are_named_before_there_is_a_job(server, trireme, message):
    server.fail("POST", r"/pods\?dryRun", times=-1, code=403, message=message)
    refused = trireme("submit", "job.yaml", "--name", "digits")
    assert refused.status == 2
    said = message.rpartition("forbidden: ")[2]
    assert refused.errors.endswith(f"error: a pod of role Master would be refused: {said}\n")
    assert trireme("list").output == ""
    planned = trireme("plan", "job.yaml")
    assert planned.status == 1
    assert f"failed   a pod of role Master would be refused: {said}" in planned.output


def test_who_may_make_no_pods_tries_none_out(server, trireme):
    server.denied = {"create pods"}
    server.fail("POST", r"/pods\?dryRun", times=-1, code=403, message=SECURITY)
    assert trireme("submit", "job.yaml").status == 0
    assert trireme("plan", "job.yaml").status == 0


def test_a_quota_that_is_used_up_may_have_room_later(server, trireme):
    server.fail("POST", r"/pods\?dryRun", times=-1, code=403, message=QUOTA)
    assert trireme("submit", "job.yaml").status == 0
    assert "a pod of role Master would be refused: exceeded quota" in (
        trireme("plan", "job.yaml").output
    )


def test_what_pod_security_warns_of_is_said_in_a_plan(server, trireme):
    warning = 'would violate PodSecurity "restricted:latest"'
    header = {"Warning": '299 - "would violate PodSecurity \\"restricted:latest\\""'}
    server.fail("POST", r"/pods\?dryRun", times=-1, code=201, headers=header)
    planned = trireme("plan", "job.yaml")
    assert planned.status == 0
    assert planned.output.count(f"the API server warns: {warning}") == 1


def test_a_gang_that_nobody_schedules_is_said_at_once(server, trireme):
    Path("job.yaml").write_text(JOB + "scheduling: {gang: true}\n")
    said = "scheduling.gang: the cluster has no PodGroups, so the pods are scheduled one by one"
    assert f"note: {said}" in trireme("submit", "job.yaml").errors
    assert f"failed   {said}" in trireme("plan", "job.yaml").output
    server.plurals["podgroups"] = "PodGroup"
    assert said not in trireme("submit", "job.yaml").errors
    assert said not in trireme("plan", "job.yaml").output


def test_what_an_operator_does_otherwise_is_said(server, trireme):
    again = "note: runtime torch-distributed sets how often a failed program is restarted"
    assert again not in trireme("submit", "job.yaml", "--operator", "trainer").errors
    Path("job.yaml").write_text(JOB + "runtime: torch-distributed\n")
    assert again in trireme("submit", "job.yaml", "--operator", "trainer").errors
    Path("job.yaml").write_text(JOB + "suspend: true\nelastic: {min: 1, max: 2}\n")
    assert "note: elastic: the job succeeds with its first worker" in (
        trireme("submit", "job.yaml").errors
    )
    Path("job.yaml").write_text(JOB + "suspend: true\nretries: 3\nscheduling: {spot: gke}\n")
    assert "note: retries 3: the training operator does not count restarts" in (
        trireme("submit", "job.yaml").errors
    )


def test_one_kind_that_a_user_may_see_is_enough(server, container_logs, trireme):
    trireme("submit", "job.yaml", "--name", "digits")
    others = [kind for kind in KINDS.values() if kind.name != "PyTorchJob"]
    for kind in others:
        server.fail("GET", f"/{kind.plural}", times=-1, code=403)
    assert trireme("list").output.splitlines()[1].startswith("digits")
    assert trireme("status", "digits").status == 0
    assert trireme("logs", "digits").status == 0
    gone = trireme("status", "other")
    hidden = " or ".join(kind.name for kind in others)
    assert gone.errors.endswith(f"in namespace team; this user may not see any {hidden}\n")
    assert trireme("cancel", "digits").status == 0
    assert trireme("delete", "digits").status == 0
    server.fail("GET", "/pytorchjobs", times=-1, code=403)
    none = trireme("list")
    assert (none.status, none.errors) == (
        1,
        "error: not allowed on the cluster: something is wrong\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "--command", "echo 'a"], '--command "echo \'a": cannot be split into words'),
        (["submit", "--isolated"], "--isolated goes with --local"),
        (["submit", "--queued-limit", "5"], "--queued-limit goes with --wait"),
        (["submit", "--starting-limit", "0"], "--starting-limit goes with --wait"),
        (["submit", "--local", "--wait", "--queued-limit", "5"], "not --local"),
        (["submit", "--local", "--operator", "trainer"], "--operator is for clusters"),
        (
            ["submit", "--local", "-n", "team"],
            "--namespace (or --workspace) is for clusters, not for --local",
        ),
        (["list", "--local", "-n", "team"], "--namespace (or --workspace) is for clusters"),
        (
            ["logs", "x", "--local", "--context", "here"],
            "--context (or --workspace) is for clusters",
        ),
        (["list", "-n", "../../x"], "namespace '../../x': must be"),
        (["list", "--context", "other"], "context 'other': it is not in the kubeconfig"),
    ],
)
def test_what_cannot_work_is_one_sentence(server, trireme, arguments, said):
    refused = trireme(*arguments)
    assert refused.status == 2
    assert refused.errors.startswith("error: ") and said in refused.errors
    assert refused.errors.count("\n") == 1 and refused.output == ""
    assert server.requests == []


def test_a_cluster_that_is_away_is_not_waited_for_long(server, trireme, monkeypatch):
    monkeypatch.setattr(connection, "PATIENCE_OF_A_PERSON", 0.5)
    monkeypatch.setattr(connection, "UNSAID", 0.0)
    server.down()
    for words in (["list"], ["logs", "-f", "x"], ["submit", "job.yaml", "--wait"]):
        away = trireme(*words)
        assert away.status == 1
        waiting, error = away.errors.splitlines()[-2:]
        assert waiting.startswith(f"waiting: the cluster at {server.url} is away: ")
        assert error.startswith(f"error: the cluster at {server.url} is away: ")
    server.up()


@pytest.fixture
def reader(server, container_logs, pytorch):
    """Follows a job's log in a process of its own; returns that, the player and the pod."""
    player = Player(Cluster(), container_logs)
    pod = player.pod(submission.submit(player.cluster, pytorch), "worker")
    player.run(pod)
    processes = []

    def start(**environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "trireme", "job", "logs", "-f", "digits"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        processes.append(process)
        return process, player, pod

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_logs_end_quietly_with_their_reader(reader):
    process, player, pod = reader()
    player.logs.write(pod, "one", "two")
    assert process.stdout.readline() == "[worker-0] one\n"
    process.stdout.close()
    player.logs.write(pod, "three", "four")
    assert process.wait(60) == 0
    assert process.stderr.read() == ""
    process.stdout = None


def test_a_letter_that_cannot_be_shown_loses_no_line(reader):
    process, player, pod = reader(PYTHONIOENCODING="ascii")
    player.logs.write(pod, "100% ✓ done", "goodbye")
    assert process.stdout.readline() == "[worker-0] 100% ? done\n"
    assert process.stdout.readline() == "[worker-0] goodbye\n"


@pytest.fixture
def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def served(make_repository, unaided_git, tmp_path, free_port, eventually):
    """A repository with a commit, and the URL that git's own server has it under."""
    repository = make_repository("code")
    commit = repository.commit("one")
    daemon = subprocess.Popen(
        [
            *("git", "daemon", "--export-all", "--reuseaddr", "--listen=127.0.0.1"),
            *(f"--port={free_port}", f"--base-path={repository.directory.parent}"),
        ],
        start_new_session=True,
    )
    url = f"git://127.0.0.1:{free_port}/{repository.directory.name}"
    try:
        assert eventually(
            lambda: subprocess.run(["git", "ls-remote", url], capture_output=True).returncode == 0
        )
        yield SimpleNamespace(url=url, commit=commit)
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait()


def test_all_replicas_are_told_the_same_commit(standing_in, trireme, served):
    code = f"code: {{url: {served.url}, revision: main}}\n"
    Path("job.yaml").write_text(JOB + code)
    assert trireme("submit", "job.yaml", "--name", "digits").status == 0
    (manifest,) = standing_in.list(KINDS["PyTorchJob"], "team")["items"]
    for role in manifest["spec"]["pytorchReplicaSpecs"].values():
        (fetch,) = role["template"]["spec"]["initContainers"]
        assert fetch["args"][:2] == [served.url, served.commit]


def test_a_repository_that_only_the_cluster_reaches_is_left_to_the_replicas(
    standing_in, trireme, monkeypatch, free_port
):
    monkeypatch.setattr(command, "PAUSES", ())
    url = f"git://127.0.0.1:{free_port}/code"
    Path("job.yaml").write_text(JOB + f"code: {{url: {url}, revision: main}}\n")
    done = trireme("submit", "job.yaml", "--name", "digits")
    assert done.status == 0
    assert "note: each replica resolves code.revision itself: " in done.errors
