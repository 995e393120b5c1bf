"""A remote shell to the workers of an MPIJob that share one machine: takes the place of ssh.

mpirun starts it as its remote shell agent (OMPI_MCA_plm_rsh_agent):

    python -S -I rsh.py [-o OPTION] HOST COMMAND...

See https://docs.open-mpi.org/en/v4.1.x/faq/rsh.html; ``host`` is what answers.
"""

import os
import socket
import sys
import time

PREFIX = "TRIREME_MPI_HOSTS"
"""The variable with what the names of the sockets begin with."""

PATIENCE = 30.0  # seconds for a worker to come up, as ssh's ConnectionAttempts gives it


def main() -> int:
    """Runs a command on a worker; returns its exit status."""
    arguments = sys.argv[1:]
    while arguments and arguments[0].startswith("-"):
        del arguments[: 2 if arguments[0] == "-o" else 1]
    host, command = arguments[0], " ".join(arguments[1:])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        if not _connected(connection, "\0" + os.environ[PREFIX] + host):
            sys.stderr.write(f"{host}: this worker does not run\n")
            return 255
        socket.send_fds(connection, [command.encode()], [0, 1, 2])
        answer = connection.recv(1)
        return answer[0] if answer else 255


def _connected(connection: socket.socket, name: str) -> bool:
    """Connects as soon as somebody listens; tells whether anybody did in time."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        try:
            connection.connect(name)
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
