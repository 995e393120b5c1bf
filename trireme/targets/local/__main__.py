"""Runs what has been prepared, in a process of its own: ``python -m ... NAME``."""

import sys

from trireme.errors import TriremeError, first_line
from trireme.files.home import home
from trireme.process import extras
from trireme.process.signals import Interrupted, from_a_terminal, handled, interrupt
from trireme.targets.local.runs import CONSOLE, Record
from trireme.tracking.environment import separate_login


def main(name: str) -> None:
    """Runs a prepared run to its end, which its record has; prints what ``trireme run`` would."""
    record = Record(home() / "runs" / name)
    state, error = "FAILED", None
    try:
        with handled(interrupt, from_a_terminal()), extras.explained():
            from trireme.targets.local import running
            from trireme.terminal.console import Console  # kfp takes a second

            pipeline, arguments = running.prepared(record.directory)
            console = Console(sys.stdout)
            result = running.go(pipeline, arguments, record, console)
        state, error = result.status, result.error
        result.show(console)
    except Interrupted:
        state = "KILLED"
    except TriremeError as refusal:
        error = refusal
    except Exception as fault:  # of ours
        log = record.directory / CONSOLE
        error = TriremeError(f"run {name} failed: {first_line(fault)}; {log} has the traceback")
        raise
    finally:
        if not record.has_ended:
            record.end(state, error)
    if error:
        print(error.shown(), flush=True)


if __name__ == "__main__":
    separate_login()
    main(sys.argv[1])
