"""Tell the runs of a pipeline apart: by the parameters that differ between them."""

from collections import defaultdict
from collections.abc import Sequence

from trireme.targets.base import Run
from trireme.tracking import arguments


def parameters(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Returns for each run those of its parameters that not all runs of its pipeline share."""
    alike: dict[str, list[dict[str, str]]] = defaultdict(list)
    parameters_of_runs = [arguments.each(run.parameters) for run in runs]
    for run, values in zip(runs, parameters_of_runs, strict=True):
        if values:
            alike[run.pipeline].append(values)
    differ = {pipeline: _differing(several) for pipeline, several in alike.items()}
    return [
        {
            name.removeprefix(arguments.PREFIX): values[name]
            for name in differ.get(run.pipeline, ())
            if values.get(name, "") not in arguments.EMPTY
        }
        for run, values in zip(runs, parameters_of_runs, strict=True)
    ]


def _differing(several: Sequence[dict[str, str]]) -> list[str]:
    """Returns the names of what differs, arguments of the program first."""
    values: dict[str, set[str]] = defaultdict(set)
    for values_of_run in several:
        for name, value in values_of_run.items():
            values[name].add(value)
    names = []
    for name, different in values.items():
        # A parameter may be younger than a run; what is in one may be left out.
        is_left_out = "." in name and any(name not in values_of_run for values_of_run in several)
        if len(different) > 1 or is_left_out:
            names.append(name)
    return sorted(names, key=lambda name: not name.startswith(arguments.PREFIX))
