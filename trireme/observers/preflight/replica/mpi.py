"""The preflight of an MPI job: its launcher has mpirun start it on every host, as the program."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Mapping

from trireme.observers.preflight.replica import said
from trireme.observers.preflight.replica.place import EACH, YOUNG, lookup_error
from trireme.observers.preflight.replica.said import FAILED, Failed, Skipped

PORT = 23456
LIMIT = 360.0  # seconds for all of it, once the hosts are there, and EACH for each

_LOCAL = "OMPI_MCA_oob_tcp_if_include"  # of a job whose hosts are all this machine
HANDED_ON = ("PATH", "CHECKPOINT_DIR", "DATA_DIR", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def conduct(config: Mapping[str, Any], code: str) -> int:
    """Starts a rank on each host, passes on what they say, and returns the status to exit with."""
    hosts = _hosts(os.environ.get(config["meeting"]["hostfile"], ""))
    port = PORT
    is_here = os.environ.get(_LOCAL) == "lo"
    if is_here:
        hosts = ["127.0.0.1"] * len(hosts)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    for number, host in enumerate(hosts):
        _look_up(f"{config['role']}-{number}", host)
    if len(hosts) < 2:
        raise Skipped("there is one host")
    settings = {**config, "hosts": hosts, "port": port}
    settings["counts"] = {config["role"]: len(hosts)}
    mpirun = ["mpirun", "-np", str(len(hosts)), "--map-by", "ppr:1:node", "--bind-to", "none"]
    for name in HANDED_ON:
        if name in os.environ:
            mpirun += ["-x", name]
    command = [*mpirun, "python3", "-c", code, code, json.dumps(settings)]
    return _follow(command, LIMIT + EACH * len(hosts))


def _follow(command: list[str], limit: float) -> int:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    timer = threading.Timer(limit, process.kill)
    timer.start()
    try:
        return _read(process)
    finally:  # the job's program is next
        timer.cancel()
        process.kill()
        process.wait()


def _read(process: subprocess.Popen[str]) -> int:
    complaints: list[str] = []

    def read_errors() -> None:
        assert process.stderr
        complaints.extend(map(str.strip, process.stderr))

    reading = threading.Thread(target=read_errors)
    reading.start()
    has_verdict = has_failed = False
    assert process.stdout
    for line in process.stdout:
        os.write(1, line.encode())
        content = _content(line)
        has_verdict |= "verdict" in content or "skipped" in content
        problems = content.get("verdict", {}).get("problems", [])
        has_failed |= any(entry["fatal"] for entry in problems)
    status = process.wait()
    reading.join(1)
    if not has_verdict:
        of_ssh = [line for line in complaints if "ssh" in line.lower()]
        if of_ssh:
            raise Failed(
                "port",
                "launcher-0",
                f"mpirun cannot start a rank on each host ({of_ssh[0][:300]}): see whether the "
                "workers run an SSH server that the launcher's key opens",
            )
        raise Skipped(next(iter(complaints), f"mpirun exited with status {status}")[:300])
    return FAILED if has_failed else 0


def _content(line: str) -> dict[str, Any]:
    """Returns what a rank has said in a line; nothing where lines of several ranks are in it."""
    with contextlib.suppress(ValueError):
        content = json.loads(line.partition(said.MARK)[2])
        return content if isinstance(content, dict) else {}
    return {}


def _hosts(file: str) -> list[str]:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError as error:
        raise Skipped(f"the hostfile cannot be read: {error}") from None
    return [line.split()[0] for line in lines if line.strip()]


def _look_up(replica: str, host: str) -> None:
    if error := lookup_error(host, time.monotonic() + YOUNG):
        raise Failed(
            "name",
            replica,
            f"the launcher cannot look up {host} of replica {replica} ({error.strerror}): see "
            "whether the cluster's DNS answers, and that the job's Service exists",
        )
