"""Checks of a run before it begins: what this machine could not run is refused."""

import os
from pathlib import Path

from trireme.errors import InputError
from trireme.graph.graph import Graph
from trireme.graph.model import Importer
from trireme.targets.local import containers

_THERE = "; or run it with --target kfp or --target argo"


def check(graph: Graph) -> None:
    """Refuses steps that need what only a cluster has.

    Raises:
        InputError: One does.
    """
    for path, step in graph.steps:
        name = path[-1].name
        if not step.is_python:
            containers.check(name, step.image)
        variables = step.variables.keys() | os.environ.keys()
        for variable, is_needed in step.from_the_cluster.items():
            if is_needed and variable not in variables:
                raise InputError(
                    f"step {name}: its variable {variable} comes from the cluster; set it for "
                    f"this command, and the step has it{_THERE}"
                )
        for folder, is_needed in step.volumes.items():
            if is_needed and not Path(folder).exists():
                raise InputError(
                    f"step {name}: {folder} is a volume of its pod, and no folder of this "
                    f"machine; make it one, and the step has that{_THERE}"
                )
    for path, task in graph.leaves:
        if isinstance(task.component, Importer) and task.component.is_downloaded:
            raise InputError(
                f"{graph.name}: step {path[-1].name} downloads an artifact to the workspace, "
                "which needs --target kfp; the step dataset brings data to any of the three"
            )
