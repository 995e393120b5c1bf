"""Tasks that consist of others: Argo's DAG templates, and what in them comes after what."""

from typing import Any

from hera.workflows import models

from trireme.graph.model import (
    ABSENT,
    Artifact,
    Group,
    Importer,
    InputOf,
    OutputOf,
    Parameter,
    Step,
    Task,
)
from trireme.targets.argo import claims, containers, loops
from trireme.targets.argo.expressions import (
    Value,
    constant,
    dag_output,
    file_output,
    parameter,
    to_value,
)
from trireme.targets.argo.placeholders import DIRECTORY, IN_LOOP
from trireme.targets.argo.refusals import NotOnArgo
from trireme.targets.argo.scope import Scope, condition, filled
from trireme.targets.argo.steps import Container
from trireme.targets.argo.templates import (
    Call,
    Templates,
    absent_inputs,
    call_arguments,
    declared,
    depends,
    directory_input,
    inner_directory,
    inputs_of,
    outputs_of,
    refine,
    short_names,
    shortened,
    task_names,
)


class Dag:
    """A component that consists of tasks; its template's inputs and outputs by kfp's names."""

    def __init__(
        self,
        templates: Templates,
        group: Group,
        directory: str,
        absent: set[str],
        path: tuple[str, ...] = (),
    ) -> None:
        """Prepares a component, which may lie in a loop, and whose absent inputs may be null.

        Args:
            path: The names of the tasks down to it.
        """
        self.templates, self.group, self.directory = templates, group, directory
        self._path = path
        self.inputs, self.outputs = short_names(group.inputs), short_names(group.outputs)
        self._names = task_names(group.tasks)
        inputs = {
            key: parameter(name, maybe_absent=key in absent) for key, name in self.inputs.items()
        }
        self._scope = Scope(inputs, self._names)
        self._imported: dict[str, list[str]] = {}
        self._calls: dict[str, models.DAGTask] = {}
        self._ends_apart = False

    def template(self, name: str) -> models.Template:
        """Returns the template, having made those of all tasks."""
        index = len(self.templates.made)
        for task in self.group.in_order:
            self._add(task, name)
        dag: dict[str, Any] = {"tasks": list(self._calls.values())}
        if self._ends_apart:
            # Argo goes by the tasks that nothing comes after; kfp by all.
            dag |= {"target": " ".join(self._calls), "failFast": False}
        template = models.Template(
            name=name,
            inputs=inputs_of(self._input_parameters()),
            outputs=self._outputs(),
            dag=models.DAGTemplate.model_validate(dag),
        )
        self.templates.made.insert(index, template)
        return template

    def _add(self, task: Task, within: str) -> None:
        """Adds a task, and makes its template."""
        if isinstance(task.component, Importer):
            self._import(task, task.component)
            return
        name = self._names[task.name]
        path = (*self._path, task.name)
        told_apart = self.templates.graph.names.get(path, task.name)  # of a step, as status has it
        template_name = self.templates.name(
            name if told_apart == task.name else shortened(told_apart), within
        )
        directory = f"{self.directory}/{name}".strip("/")
        call = Call(name, template_name, task, directory, self._scope.given(task))
        if task.loop:
            template, passed = self._loop(call)
        elif isinstance(task.component, Group):
            template, passed = self._nested(call, task.component)
        else:
            assert isinstance(task.component, Step)
            template, passed = self._step(call, task.component)
        refine(template, call)
        arguments = call_arguments(passed)
        if IN_LOOP in self.directory and template.resource is None:
            arguments.append(models.Parameter(name=DIRECTORY, value=call.directory))
        self._call(call, arguments)

    def _call(self, call: Call, arguments: list[models.Parameter]) -> None:
        """Adds the call of a task's template, or makes it the exit hook of the task it is for."""
        arguments_of_call = models.Arguments(parameters=arguments) if arguments else None
        task = call.task
        upstream = self._upstream(task)
        if task.runs_after_failure and self._is_exit_handler(task, upstream):
            hook = models.LifecycleHook(template=call.template, arguments=arguments_of_call)
            self._calls[upstream[0]].hooks = {"exit": hook}
            return
        self._ends_apart |= task.runs_after_failure
        when = condition(task.condition, call.given, task.name) if task.condition else ""
        self._calls[call.name] = models.DAGTask(
            name=call.name,
            template=call.template,
            arguments=arguments_of_call,
            depends=depends(upstream, ended=task.runs_after_failure),
            when=f"{{{{={when}}}}}" if when else None,
        )

    def _upstream(self, task: Task) -> list[str]:
        """Returns the tasks in Argo that come before one; nothing runs to import."""
        names: dict[str, None] = {}
        for key in task.after:
            names |= dict.fromkeys(self._imported.get(key, [self._names[key]]))
        return list(names)

    def _is_exit_handler(self, task: Task, upstream: list[str]) -> bool:
        """Whether a task can be another's exit hook, which runs when a run is stopped, too."""
        if len(upstream) != 1 or self._calls[upstream[0]].hooks:
            return False
        if any(isinstance(value.source, OutputOf) for value in task.inputs.values()):
            return False  # Argo 4.1.2 leaves an expression as it is where a hook's task has failed
        return not any(task.name in other.after for other in self.group.tasks.values())

    def _nested(self, call: Call, group: Group) -> tuple[models.Template, dict[str, Value]]:
        directory = inner_directory(call.directory)
        path = (*self._path, call.key)
        inside = Dag(self.templates, group, directory, absent_inputs(call), path)
        template = inside.template(call.template)
        self._leave(call, inside.outputs)
        return template, {
            inside.inputs[key]: value for key, value in call.given.items() if key in inside.inputs
        }

    def _loop(self, call: Call) -> tuple[models.Template, dict[str, Value]]:
        if not isinstance(call.component, Group):
            raise NotOnArgo(f"task {call.key}", "a loop over a single step")
        body_name = self.templates.name(f"{call.template}-round")
        index = len(self.templates.made)
        path = (*self._path, call.key)
        inside = Dag(self.templates, call.component, IN_LOOP, absent_inputs(call), path)
        inside.template(body_name)
        template, values = loops.template(call, body_name, inside.inputs, inside.outputs)
        self.templates.made.insert(index, template)
        self._leave(call, inside.outputs)
        return template, values

    def _leave(self, call: Call, outputs: dict[str, str]) -> None:
        """Remembers where the outputs of a task that consists of others are."""
        for key in call.component.outputs:
            self._scope.outputs[call.key, key] = dag_output(call.name, outputs[key])

    def _step(self, call: Call, step: Step) -> tuple[models.Template, dict[str, Value]]:
        if step.image in (claims.CREATE, claims.DELETE):
            name = file_output(call.name, "name", "STRING")
            self._scope.outputs[call.key, "name"] = name
            template = claims.template(call, step.image)
            self.templates.made.append(template)
            return template, call.given
        graph = self.templates.graph
        container = Container(call, step, self._scope, graph.workspace is not None)
        template = containers.template(container, call.template, graph.name)
        for key, output in container.outputs(call.name):
            self._scope.outputs[call.key, key] = output
        self.templates.made.append(template)
        return template, container.arguments()

    def _import(self, task: Task, importer: Importer) -> None:
        """Makes the artifact that an importer stands for, for which nothing has to run."""
        if importer.is_downloaded:
            raise NotOnArgo(
                f"task {task.name}", "downloading an imported artifact to the workspace"
            )
        inputs = self._scope.given(task)
        artifact = {
            "name": "artifact",
            "uri": inputs[importer.uri.name]
            if isinstance(importer.uri, InputOf)
            else filled(importer.uri.value, inputs, task.name),
            "type": importer.schema,
            "metadata": filled(importer.metadata, inputs, task.name),
        }
        for output in importer.output_artifacts:
            self._scope.outputs[task.name, output] = constant(to_value([artifact]))
        self._imported[task.name] = self._upstream(task)

    def _input_parameters(self) -> list[models.Parameter]:
        return [
            declared(name, spec := self.group.inputs[key], has_default=_has_default(spec))
            for key, name in self.inputs.items()
        ] + directory_input(self.directory)

    def _outputs(self) -> models.Outputs | None:
        return outputs_of(
            {
                self.outputs[key]: self._first(sources).json
                for key, sources in self.group.given.items()
            }
        )

    def _first(self, sources: tuple[OutputOf, ...]) -> Value:
        """Returns the value of the first of some outputs whose task has run."""
        outputs = [self._scope.outputs[output.task, output.key] for output in sources]
        if len(sources) == 1:
            return outputs[0](bool(self.group.tasks[sources[0].task].condition))
        return Value(f"({' ?? '.join(output(True).native for output in outputs)})")


def _has_default(spec: Parameter | Artifact) -> bool:
    return spec.is_optional or (isinstance(spec, Parameter) and spec.default is not ABSENT)
