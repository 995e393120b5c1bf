"""trireme/runner/local/ports.py"""

import socket
import subprocess
import sys

import pytest

from trireme.runner.local import ports
from trireme.runner.local.ports import Ports


@pytest.fixture
def few(monkeypatch):
    """Leaves no more than two ports to choose from, which are free just now."""
    first = Ports()
    found = first.take()
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("", found + 1))
                break
            except OSError:
                found = first.take()
    first.close()
    monkeypatch.setattr(ports, "_RANGE", range(found, found + 2))
    return found


@pytest.fixture
def taker():
    """Gives ports back at the end."""
    made = []

    def make():
        made.append(Ports())
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_no_port_is_handed_out_twice_even_though_nothing_is_bound(taker, few):
    assert {taker().take(), taker().take()} == {few, few + 1}


def test_a_port_that_something_listens_on_is_left_alone(taker, few):
    with socket.socket() as server:
        server.bind(("127.0.0.1", few))
        server.listen()
        assert taker().take() == few + 1


def test_a_server_can_bind_the_port(taker):
    port = taker().take()
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()


def test_ports_come_back_when_their_holder_is_killed(taker, few):
    program = (
        "import time\n"
        "from trireme.runner.local import ports\n"
        f"ports._RANGE = range({few}, {few + 2})\n"
        "taken = ports.Ports()\n"
        "print(taken.take(), taken.take(), flush=True)\n"
        "time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout.readline()
        with pytest.raises(Exception, match="no free TCP port"):
            taker().take()
        holder.kill()
    assert taker().take() in (few, few + 1)
