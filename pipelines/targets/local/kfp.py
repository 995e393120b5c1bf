"""kfp.local, made to run pipelines as Kubeflow does."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from google.protobuf.struct_pb2 import NULL_VALUE, Value
from kfp.compiler import pipeline_spec_builder
from kfp.local import (
    executor_input_utils,
    executor_output_utils,
    logging_utils,
    pipeline_orchestrator,
    placeholder_utils,
    status,
    subprocess_task_handler,
)
from kfp.local.orchestrator import task_spec_utils
from kfp.local.orchestrator.enhanced_dag_orchestrator import ConditionEvaluator

from trireme.components.json_values import whole
from trireme.pipelines.targets.local.steps import Steps


@contextlib.contextmanager
def tamed(steps: Steps) -> Iterator[None]:
    """Makes kfp.local run steps our way.

    kfp.local 2.17 offers no hook, so these of its ways are replaced while the pipeline runs:

    - how a step's process is started: one that can be stopped as a whole, its output in a file,
      with MLflow's variables;
    - the removal of the workspace at the end: a person wants to read it;
    - how a condition finds a task's output: it knows outputs called ``Output`` only, and takes a
      branch on any other for false;
    - names by the time and by chance, so that a run that is resumed has the same once more;
    - how a number appears in a text, a list or an object: 2 as 2.0;
    - what the steps in a loop get from steps before it, or from a loop around it: the loop's item,
      whatever it should be;
    - an input that may be left out, and is: a whole number, or a pipeline's parameter, was an
      error;
    - what ``undisturbed`` is about.
    """

    class Step(subprocess_task_handler.SubprocessTaskHandler):
        """Runs one step in place of kfp's own class."""

        def run(self) -> status.Status:
            return steps.run(self.full_command, self.env_vars, self.image)

    keep = SimpleNamespace(rmtree=lambda path: None)
    ids = SimpleNamespace(make_random_id=lambda: steps.run_id)
    resolve = ConditionEvaluator._resolve_pipeline_channel
    value_of = placeholder_utils.get_value_using_path
    iteration = task_spec_utils.create_parameter_loop_iteration_task_spec
    of_value = executor_output_utils.pb2_value_to_python
    as_value = pipeline_spec_builder.to_protobuf_value
    to_dict = executor_input_utils.executor_input_to_dict
    with (
        undisturbed(),
        patch.object(subprocess_task_handler, "SubprocessTaskHandler", Step),
        patch.object(pipeline_orchestrator, "shutil", keep),
        patch.object(pipeline_orchestrator, "placeholder_utils", ids),
        patch.object(executor_input_utils, "get_local_pipeline_resource_name", str),
        patch.object(
            placeholder_utils, "get_value_using_path", lambda *given: whole(value_of(*given))
        ),
        patch.object(
            ConditionEvaluator,
            "_resolve_pipeline_channel",
            lambda reference, store: _task_output(reference, store, resolve),
        ),
        patch.object(
            task_spec_utils,
            "create_parameter_loop_iteration_task_spec",
            lambda spec, item, name: _with_inputs(spec, iteration(spec, item, name)),
        ),
        patch.object(
            executor_output_utils,
            "pb2_value_to_python",
            lambda value: of_value(value) if value.WhichOneof("kind") else None,
        ),
        patch.object(
            pipeline_spec_builder,
            "to_protobuf_value",
            lambda value: Value(null_value=NULL_VALUE) if value is None else as_value(value),
        ),
        patch.object(
            executor_input_utils,
            "executor_input_to_dict",
            lambda executor_input, component_spec: _with_whole_numbers(
                to_dict(_with_values(executor_input), component_spec)
            ),
        ),
    ):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keeps each step from changing ``print`` and logging."""
    # kfp.local replaces both and puts back what it has found. Steps of a loop, in threads, find
    # what another has put there, and ``print`` indents for the rest of the process.
    with (
        logging_utils.local_logger_context(),
        patch.object(logging_utils, "local_logger_context", contextlib.nullcontext),
        patch.object(logging_utils, "indented_print", contextlib.nullcontext),
    ):
        yield


def _task_output(reference: str, store: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """Returns the value that ``pipelinechannel--TASK-OUTPUT`` in a condition stands for."""
    words = reference.removeprefix("pipelinechannel--").split("-")
    for length in range(1, len(words)):
        with contextlib.suppress(ValueError):
            return store.get_task_output("-".join(words[:length]), "-".join(words[length:]))
    return resolve(reference, store)


def _with_values(given: Any) -> Any:
    """Takes away the inputs without a value, as Kubeflow does."""
    values = given.inputs.parameter_values
    for name in [*values]:
        if values[name].WhichOneof("kind") in (None, "null_value"):
            del values[name]
    return given


def _with_whole_numbers(given: dict[str, Any]) -> dict[str, Any]:
    """Makes whole numbers in lists and objects such again, as they are on Kubeflow."""
    values = given.get("inputs", {}).get("parameterValues", {})
    for name, value in values.items():
        if isinstance(value, dict | list):
            values[name] = whole(value)
    return given


def _with_inputs(loop: Any, iteration: Any) -> Any:
    """Gives a turn of a loop all that the loop is given, but for its item."""
    for name, given in loop.inputs.parameters.items():
        if name != loop.parameter_iterator.item_input:
            iteration.inputs.parameters[name].CopyFrom(given)
    return iteration
