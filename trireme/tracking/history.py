"""The history of a run's training: its metrics by step, as a table of pandas."""

from typing import TYPE_CHECKING, Any

from trireme.tracking.client import PARENT, every

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Run

TRIAL = "trial"
"""The index that tells trainings apart, where a run has several."""


def of(client: "MlflowClient", parent: "Run") -> "pd.DataFrame":
    """Returns a row for each step of the training, a column for each metric that has steps.

    Of a step that was repeated after a restart the last value counts.
    """
    import pandas as pd

    trainings = [run for run in _below(client, parent) if "world_size" in run.data.params]
    tables = {
        str(run.info.run_name): pd.DataFrame(_metrics(client, run)).sort_index()
        for run in reversed(trainings)  # MLflow lists the newest first
    }
    if len(tables) == 1:
        (table,) = tables.values()
    else:
        table = pd.concat(tables, names=[TRIAL]) if tables else pd.DataFrame()
    return table.rename_axis(index=[*table.index.names[:-1], "step"])


def _metrics(client: "MlflowClient", run: "Run") -> dict[str, Any]:
    """Returns the values of each metric by step; without what is measured once, as its cost."""
    import pandas as pd

    series = {}
    for name in sorted(run.data.metrics):
        points = client.get_metric_history(run.info.run_id, name)
        points = sorted(points, key=lambda point: (point.step, point.timestamp))
        by_step = {point.step: point.value for point in points}
        if by_step.keys() - {0}:
            series[name] = pd.Series(by_step)
    return series


def _below(client: "MlflowClient", parent: "Run") -> "list[Run]":
    """Returns the runs of a run's steps, also those in the runs of loops and conditions."""
    runs = [parent]
    for run in runs:
        nested = f"tags.`{PARENT}` = '{run.info.run_id}'"
        runs += every(client.search_runs, [parent.info.experiment_id], nested)
    return runs[1:]
