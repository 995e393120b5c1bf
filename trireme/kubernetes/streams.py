"""Reading answers that do not end by themselves, such as watches and logs."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from urllib3 import BaseHTTPResponse

_CHUNK = 64 * 1024


class Stop:
    """Tells threads to end, and wakes those that wait for a stream."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._open: set[BaseHTTPResponse] = set()

    def set(self) -> None:
        """Ends every stream that is being read, and every later one at once."""
        with self._lock:
            self._event.set()
            for response in self._open:
                shut(response)

    def is_set(self) -> bool:
        """Tells whether it is time to end."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits that long, or until it is time to end; tells whether it is."""
        return self._event.wait(seconds)

    @contextmanager
    def reading(self, response: BaseHTTPResponse) -> Iterator[None]:
        """Has the stream ended when it is time to end; closes it afterwards."""
        with self._lock:
            self._open.add(response)
            if self._event.is_set():
                shut(response)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(response)
            response.close()


def shut(response: BaseHTTPResponse) -> None:
    """Ends a stream that another thread may be reading."""
    # It may have ended by itself a moment ago.
    with suppress(ValueError, RuntimeError, OSError):
        response.shutdown()


def lines(response: BaseHTTPResponse, limit: int = sys.maxsize) -> Iterator[bytes]:
    """Yields the lines of a stream as they come, without their ends; cut after ``limit`` bytes."""
    rest = bytearray()
    for chunk in response.stream(_CHUNK, decode_content=False):
        searched = len(rest)
        rest += chunk
        begin = 0
        while (end := rest.find(b"\n", max(begin, searched))) >= 0:
            for piece in range(begin, max(end, begin + 1), limit):
                yield bytes(rest[piece : min(piece + limit, end)])
            begin = end + 1
        del rest[:begin]
        while len(rest) > limit:
            yield bytes(rest[:limit])
            del rest[:limit]
    if rest:
        yield bytes(rest)
