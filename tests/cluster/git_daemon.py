"""Serves git://HOST/code to clones, as git daemon does, which the image of this pod lacks.

The protocol: https://git-scm.com/docs/pack-protocol#_git_transport
"""

import socketserver
import subprocess
from socket import MSG_WAITALL


class Clone(socketserver.StreamRequestHandler):
    """Hands a connection to git upload-pack."""

    def handle(self):
        length = int(self.connection.recv(4, MSG_WAITALL) or b"0", 16)
        if not length:
            return  # the kubelet looks whether it is there
        request = self.connection.recv(length - 4, MSG_WAITALL).split(b"\0")
        if request[0] == b"git-upload-pack /code":
            asked = [word.decode() for word in request if b"version=" in word]
            subprocess.run(
                ["git", "upload-pack", "/tmp/code"],
                stdin=self.connection,
                stdout=self.connection,
                env={"PATH": "/usr/bin", "HOME": "/tmp", "GIT_PROTOCOL": ":".join(asked)},
            )


class Server(socketserver.ThreadingTCPServer):
    """Takes several at once."""

    allow_reuse_address = True


if __name__ == "__main__":
    Server(("", 9418), Clone).serve_forever()
