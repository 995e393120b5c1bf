"""Free TCP ports for servers that bind them only seconds later."""

import errno
import random
import socket

from trireme.errors import InputError

# Below the ports that the kernel gives to outgoing connections (ip_local_port_range).
_RANGE = range(20000, 32768)


class Ports:
    """Hands out ports of this machine, each to one holder at a time."""

    # Other runs are kept away by a Unix socket named after the port, in the abstract namespace: the
    # kernel takes the name back however this process ends.

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []

    def take(self) -> int:
        """Returns a port that nothing listens on and that no other run has been given."""
        first = random.randrange(len(_RANGE))  # to shuffle all of them takes longer than the rest
        for port in (*_RANGE[first:], *_RANGE[:first]):
            if self._claim(port):
                return port
        raise InputError(f"no free TCP port between {_RANGE[0]} and {_RANGE[-1]}")

    def close(self) -> None:
        """Gives all ports back."""
        for claim in self._claims:
            claim.close()

    def _claim(self, port: int) -> bool:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0trireme-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        self._claims.append(claim)
        return True
