"""Runs what has been prepared, in a process of its own: ``python -m ... NAME``."""

import sys

from trireme.components.errors import TriremeError
from trireme.components.home import home
from trireme.components.signals import Interrupted, from_a_terminal, handled, interrupt
from trireme.pipelines.targets.local.runs import Record


def main(name: str) -> None:
    """Runs a prepared run to its end, which its record has; prints what ``trireme run`` would."""
    record = Record(home() / "runs" / name)
    state, error = "FAILED", None
    try:
        with handled(interrupt, from_a_terminal()):
            from trireme.pipelines.console import Console  # kfp takes a second
            from trireme.pipelines.targets.local import running

            pipeline, arguments = running.prepared(record.directory)
            console = Console(sys.stdout)
            result = running.go(pipeline, arguments, record, console)
        state, error = result.status, result.error
        result.show(console)
    except Interrupted:
        state = "KILLED"
    except TriremeError as refusal:
        error = refusal
    finally:
        record.end(state, error)
    if error:
        print(error.shown(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
