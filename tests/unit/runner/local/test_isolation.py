"""trireme/runner/local/isolation.py: a host for each replica, on this machine."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from line_by_line import line_by_line

from trireme.errors import InputError, JobFailed
from trireme.runner.local import runner
from trireme.runner.local.isolation import Isolated
from trireme.runner.local.manifest import read

LIMIT = 60  # seconds; far more than any of this takes

isolating = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"
)


@pytest.fixture
def hosts(job, replicas):
    """The hosts of a job with a master and a worker, and what makes a command run on one."""
    made = read(job("PyTorchJob", Master=replicas(["x"]), Worker=replicas(["x"])))
    pods = {pod.name: pod for pod in made.pods}
    with Isolated(made) as network:
        yield network, lambda name, *command: network.inside(pods[name], list(command), "/")


def output(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT).stdout.strip()


@isolating
def test_every_host_has_a_name_and_an_address_that_the_others_know(hosts):
    _, on = hosts
    for name, host in [("master-0", "job-master-0"), ("worker-0", "job-worker-0")]:
        assert output(on(name, "hostname")) == host
        assert output(on(name, "cat", "/etc/hostname")) == host
        address = output(on(name, "hostname", "-I")).split()[0]
        for other in ("master-0", "worker-0"):
            known = output(on(other, "getent", "hosts", f"{host}.default.svc"))
            assert known.split()[0] == address
            assert output(on(other, "getent", "hosts", host)).split()[0] == address


@isolating
def test_nothing_of_it_is_seen_on_the_machine(hosts):
    _, on = hosts
    assert "eth0" in output(on("master-0", "ip", "link"))
    assert "job-master-0" not in Path("/etc/hosts").read_text()
    assert not socket.gethostname().startswith("job-")
    links = {name for _, name in socket.if_nameindex()}
    assert "lo" in links and not links & {"host0", "host1", "pods"}


ASK = """
import socket, sys
with socket.socket() as asking:
    asking.settimeout(float(sys.argv[2]))
    try:
        asking.connect((sys.argv[1], 4000))
        print(asking.recv(100).decode())
    except OSError as error:
        print(type(error).__name__)
"""
SERVE = """
import socket
with socket.create_server(("", 4000)) as server:
    print("ready", flush=True)
    while True:
        server.accept()[0].sendall(b"hello")
"""


@isolating
def test_a_link_is_cut_and_mended(hosts):
    network, on = hosts

    def ask(patience):
        return output(on("worker-0", "python3", "-c", ASK, "job-master-0", patience))

    serving = on("master-0", "python3", "-c", SERVE)
    with subprocess.Popen(serving, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"ready\n"
            assert ask("30") == "hello"
            network._in_switch("ip link set host0 nomaster")
            assert ask("0.5") == "TimeoutError"
            network._in_switch("ip link set host0 master pods")
            assert ask("30") == "hello"
        finally:
            server.kill()


@isolating
def test_two_jobs_of_the_same_name_are_not_in_each_others_way(job, replicas):
    made = read(job("PyTorchJob", Master=replicas(["x"])))
    with Isolated(made) as one, Isolated(made) as other:
        assert one._pids["master-0"] != other._pids["master-0"]


@isolating
def test_replicas_find_their_master_by_its_name(manifest, logs):
    program = (
        "import os, socket\n"
        "print(socket.gethostname(), os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'],"
        " socket.gethostbyname(os.environ['MASTER_ADDR']))\n"
    )
    said: dict[str, str] = {}
    runner.run(manifest(program), logs, line_by_line(said.__setitem__), isolated=True)
    assert said == {
        "master-0": "job-master-0 job-master-0 23456 10.77.0.1",
        "worker-0": "job-worker-0 job-master-0 23456 10.77.0.1",
    }


@isolating
def test_a_path_that_the_job_gives_is_the_programs_alone(manifest, logs):
    said: dict[str, str] = {}
    job = manifest("", workers=0, env={"PATH": "/nowhere"})
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["command"] = [sys.executable, "-c", "import os; print(os.environ['PATH'])"]
    runner.run(job, logs, line_by_line(said.__setitem__), isolated=True)
    assert said == {"master-0": "/nowhere"}


@isolating
def test_a_lost_node_is_named(manifest, logs, impatient):
    # As if the machine had lost its power: all of one host is gone at once.
    program = (
        "import os, pathlib, signal, time\n"
        "here = os.readlink('/proc/self/ns/net')\n"
        "if os.environ['RANK'] == '1':\n"
        "    for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "        try:\n"
        "            there = os.readlink(f'/proc/{pid}/ns/net') == here\n"
        "        except OSError:\n"
        "            continue\n"
        "        if there and int(pid) != os.getpid():\n"
        "            os.kill(int(pid), signal.SIGKILL)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(JobFailed, match=r"^replica worker-0 was ended by SIGKILL$"):
        runner.run(manifest(program), logs, isolated=True)


@isolating
def test_nothing_is_left_when_the_runner_is_killed(manifest, alone, runs, eventually):
    program = (
        "import os, time; print(os.readlink('/proc/self/ns/net'), flush=True); time.sleep(600)"
    )
    process = alone(manifest(program), isolated=True)
    spaces = {process.stdout.readline().split()[1] for _ in range(2)}
    assert len(spaces) == 2

    def inside():
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if str((process / "ns/net").readlink()) in spaces and runs(int(process.name)):
                    found.append(process)
        return found

    assert len(inside()) >= 4  # the replicas, and what holds their hosts
    process.send_signal(signal.SIGKILL)
    assert eventually(lambda: not inside())


def test_without_root_it_is_refused(manifest, logs, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match="isolation needs root"):
        runner.run(manifest(""), logs, isolated=True)
    assert not logs.exists()
