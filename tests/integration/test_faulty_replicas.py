"""A job's preflight, real: each fault is of one replica of three, and named.

docs/explanation/preflight.md has the table.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from faulty_replicas import FILTER, Hosts

from trireme.observers.preflight import report

AT_ONCE = 4  # jobs: most of their time they wait for each other

pytestmark = pytest.mark.slow

isolating = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("nft") and shutil.which("tc")),
    reason="needs root, iproute2 and nftables",
)


def unknown_name(hosts):
    # A mount's file cannot be replaced, only written anew.
    hosts.on("worker-1", 'known=$(grep -v train-master-0 /etc/hosts); echo "$known" > /etc/hosts')


def firewall(hosts):
    hosts.on("master-0", FILTER + "nft add rule inet t i ip saddr 10.77.0.3 tcp dport 23456 drop")


def firewall_of_other_ports(hosts):
    hosts.on("worker-1", FILTER + "nft add rule inet t i ct state new tcp dport != 22 drop")


def other_interface(hosts):
    hosts.on(
        "worker-1",
        "ip link set eth0 down; ip link set eth0 name ens5; ip link set ens5 up",
    )


def other_version(hosts):
    other = hosts.folder / "other" / "torch-2.4.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.4.0\n")
    hosts.on("worker-1", f"mount --bind {other.parent} {hosts.folder}/packages")


def read_only_checkpoints(hosts):
    folder = hosts.folder / "checkpoints"
    hosts.on("worker-1", f"mount --bind {folder} {folder}; mount -o remount,bind,ro {folder}")


def small_mtu(hosts):
    hosts.on("worker-1", FILTER + "nft add rule inet t i meta length '>' 1000 drop")


def late(hosts):
    hosts.delay("worker-1", 0.05)


def lossy(hosts):
    hosts.on("worker-1", FILTER + "nft add rule inet t i numgen random mod 100 '<' 1 drop")


def narrow(hosts):
    hosts.on("worker-1", "tc qdisc add dev eth0 root tbf rate 10mbit burst 32k latency 400ms")


def half_a_processor(hosts):
    hosts.limit_processor("worker-1", 0.5)
    for name in hosts.pods:  # each on a node of its own
        boot = hosts.folder / f"boot-{name}"
        boot.write_text(name)
        hosts.on(name, f"mount --bind {boot} /proc/sys/kernel/random/boot_id")


def full_shared_memory(hosts):
    script = "mount -t tmpfs -o size=80m none /dev/shm; head -c 70000000 /dev/zero > /dev/shm/full"
    hosts.on("worker-1", script)


FAULTS = {
    unknown_name: ("name", True, r"worker-1 cannot look up the name train-master-0"),
    firewall: ("port", True, r"worker-1 cannot reach port 23456 of train-master-0.*no answer"),
    firewall_of_other_ports: ("port", True, r"cannot reach worker-1 on port \d+ \(no answer\)"),
    other_interface: ("interface", True, r"worker-1 has no network interface 'eth0' .* has ens5$"),
    other_version: ("version", True, r"worker-1 has torch 2.4.0, replicas master-0, worker-0 have"),
    read_only_checkpoints: ("disk", True, r"worker-1 cannot write to .* \(read-only file system\)"),
    small_mtu: ("size", True, r"worker-1 answers, but nothing large comes through"),
    late: ("slow", False, r"worker-1 answers after 1\d\d\.\d ms"),
    lossy: ("slow", False, r"worker-1 loses [012]\.\d % of its packets"),
    narrow: ("slow", False, r"worker-1 .*moves (\d|1\d)\.\d Mbit/s, the others \d"),
    half_a_processor: ("slow", False, r"worker-1 has 0.5 processors, the others \d+"),
    full_shared_memory: ("small", False, r"worker-1 has \d+ MiB free of 80 in /dev/shm"),
}
"""What is said of each: its step of the ladder, whether the job must not train, and the words."""

FIELDS = {
    other_interface: {"network": {"interface": "eth0"}},
    other_version: {"framework": "pytorch"},
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Jobs with each of the faults: their hosts, and the problems that they have found."""

    def run(fault):
        with Hosts(tmp_path_factory.mktemp(fault.__name__), **FIELDS.get(fault, {})) as hosts:
            fault(hosts)
            return hosts, hosts.run()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(FAULTS, pool.map(run, FAULTS), strict=True))


@isolating
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_named_with_its_replica(outcomes, fault):
    hosts, problems = outcomes[fault]
    step, is_fatal, words = FAULTS[fault]
    # On a busy machine any replica may compute more slowly than the others, and be slow otherwise.
    busy = {each["replica"] for each in problems if "computes at" in each["sentence"]}
    problems = [
        each for each in problems if "worker-1" in each["sentence"] or each["replica"] not in busy
    ]
    assert problems, hosts.said
    first = problems[0]
    assert re.search(words, first["sentence"]), problems
    assert (first["step"], first["fatal"]) == (step, is_fatal)
    assert all("worker-1" in each["sentence"] for each in problems)
    assert is_fatal != (len(hosts.has_trained) == 3)
    if is_fatal:
        assert str(hosts.report.failure) == f"preflight: {first['sentence']}"


@isolating
def test_a_job_that_is_well_trains_and_is_tested_once(tmp_path):
    with Hosts(tmp_path) as hosts:
        assert not hosts.run()
        assert sorted(hosts.has_trained) == ["master-0", "worker-0", "worker-1"]
        assert ("master-0", "trained") in hosts.said
        found = report.read(tmp_path / "preflight.json")
        assert [row[0] for row in report.table(found)] == ["master-0", "worker-0", "worker-1"]
        metrics = report.figures(found)
        assert metrics["preflight/slowest_link_gbit_per_s"] > 0.1
        assert 0 < metrics["preflight/seconds"] < 20
        assert not list((tmp_path / "checkpoints").iterdir())
        hosts.said.clear()
        (tmp_path / ".trireme-preflight").unlink()  # where a job has no volume
        hosts.run()
    assert {line for _, line in hosts.said} == {
        "preflight was skipped: the job has passed it before",
        "trained",
    }


def job_file(folder, **fields):
    (folder / "train.py").write_text("raise SystemExit('trained')\n")
    file = folder / "job.yaml"
    file.write_text(json.dumps({"entrypoint": "train.py", "workers": 1} | fields))
    return file


def preflight(folder, *options):
    command = [sys.executable, "-m", "trireme", "job", "preflight", "job.yaml", *options]
    environment = os.environ | {"TRIREME_HOME": str(folder / "home")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )


def test_the_command_tests_a_job_with_its_own_library_and_trains_nothing(tmp_path):
    job_file(tmp_path)
    done = preflight(tmp_path, "--local")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trained" not in done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("master-0 ") and "bit/s" in line for line in lines)
    assert any(line.startswith("all reduce large gbit per s: ") for line in lines)
    assert not list((tmp_path / "home" / "jobs").iterdir())


def test_the_ranks_of_an_mpi_job_are_tested_by_mpirun(tmp_path):
    if not shutil.which("mpirun"):
        pytest.skip("needs mpirun")
    job_file(tmp_path, framework="mpi", workers=2)
    done = preflight(tmp_path, "--local")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("worker-1 ") and "bit/s" in line for line in lines)
    assert any(line.startswith("all reduce large gbit per s: ") for line in lines)
