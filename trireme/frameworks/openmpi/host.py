"""A worker of an MPIJob that shares its machine with the others: takes the place of sshd.

Used as a program, with nothing imported but the standard library:

    python -S -I host.py NAME

It listens on the abstract Unix socket NAME and runs what ``rsh`` sends, as a process of its
own and with its own environment, as sshd would.
"""

import os
import socket
import struct
import subprocess
import sys
import threading

LIMIT = 1 << 20  # bytes of a command
HOME = "/"  # directory of a session; mpirun says which one its ranks start in


def main() -> None:
    """Serves until it is ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind("\0" + sys.argv[1])
        server.listen(64)
        while True:
            connection, _ = server.accept()
            if _peer(connection) == os.getuid():
                threading.Thread(target=_session, args=(connection,), daemon=True).start()
            else:
                connection.close()


def _peer(connection: socket.socket) -> int:
    """Returns the user at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[1])


def _session(connection: socket.socket) -> None:
    """Runs one command with the standard streams of whoever sent it; answers its status."""
    with connection:
        command, streams, _, _ = socket.recv_fds(connection, LIMIT, 3)
        process = subprocess.Popen(
            ["sh", "-c", command.decode()],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=HOME,
        )
        for stream in streams:
            os.close(stream)
        status = process.wait()
        connection.send(bytes([status if status >= 0 else 128 - status]))


if __name__ == "__main__":
    main()
