"""Tells what importing costs each Python process below ``profile_run.py``.

Python loads a module of this name when it starts. What is imported within an import counts for
that one.
"""

import atexit
import importlib._bootstrap as machinery
import json
import os
import sys
import threading
import time
from pathlib import Path

FOLDER = os.environ["TRIREME_PROFILE"]
ENOUGH = 0.02  # seconds of new imports that are worth writing down: the process may be killed

_find, _thread, _lock = machinery._find_and_load, threading.local(), threading.Lock()
_spent: dict[str, float] = {}
_written = 0.0


def _timed(name, *rest):
    if getattr(_thread, "within", False):
        return _find(name, *rest)
    _thread.within, started = True, time.thread_time()
    try:
        return _find(name, *rest)
    finally:
        _thread.within = False
        package = name.partition(".")[0]
        with _lock:
            _spent[package] = _spent.get(package, 0.0) + time.thread_time() - started
            if sum(_spent.values()) > _written + ENOUGH:
                _write()


def _write():
    global _written
    _written = sum(_spent.values())
    record = {
        "command": [*sys.orig_argv, *sys.argv],  # a fork has other arguments
        "cpu": time.process_time(),
        "imports": _spent,
    }
    partial = Path(FOLDER, f"{os.getpid()}.partial")
    partial.write_text(json.dumps(record))
    partial.replace(partial.with_suffix(".json"))


def _forked():
    _spent.clear()
    globals().update(_written=0.0, _lock=threading.Lock())


machinery._find_and_load = _timed
atexit.register(_write)
os.register_at_fork(after_in_child=_forked)
