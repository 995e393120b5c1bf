"""The ledgers of runs that MLflow has."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from trireme.observers.goodput import ledger
from trireme.observers.goodput.ledger import Ledger
from trireme.tracking import store
from trireme.tracking.abandoned_runs import OF_A_PIPELINE
from trireme.tracking.client import PARENT, client
from trireme.tracking.journal import GOODPUT

if TYPE_CHECKING:
    from mlflow.entities import Run


class KeptLedger(NamedTuple):
    """The ledger of a run: of all its trainings."""

    run: "Run"
    ledger: Ledger

    @property
    def pipeline(self) -> str:
        """The name of its pipeline."""
        return self.run.data.tags.get("pipeline", "")


def kept(since: float, pipeline: str = "") -> Iterator[KeptLedger]:
    """Yields the ledgers of runs, the latest first.

    Args:
        since: When they began at the earliest, in seconds since the epoch.
        pipeline: The only one whose runs are meant; empty for all.
    """
    store.use()
    # Of thousands of runs the server then sends those alone that have a ledger.
    query = f"attributes.start_time >= {int(since * 1000)} and metrics.`{GOODPUT}ran` >= 0"
    found = client.every_run(client.experiment_ids(), query)
    for run in sorted(found, key=lambda each: -each.info.start_time):
        tags = run.data.tags
        if PARENT in tags or not OF_A_PIPELINE & tags.keys():
            continue
        of = ledger.from_metrics(run.data.metrics, tags.get("currency", ""))
        if of and pipeline in ("", tags.get("pipeline")):
            yield KeptLedger(run, of)
