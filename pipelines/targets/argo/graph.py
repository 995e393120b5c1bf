"""Tasks that consist of others: Argo's DAG templates, and what in them comes after what."""

from graphlib import TopologicalSorter
from typing import Any

from hera.workflows import models

from trireme.pipelines.targets.argo import claims, containers, loops
from trireme.pipelines.targets.argo.expressions import (
    Value,
    constant,
    dag_output,
    file_output,
    parameter,
    to_value,
)
from trireme.pipelines.targets.argo.placeholders import DIRECTORY, IN_LOOP
from trireme.pipelines.targets.argo.reading import NotOnArgo, only
from trireme.pipelines.targets.argo.scope import Scope, condition, filled, is_last_resort
from trireme.pipelines.targets.argo.steps import Step
from trireme.pipelines.targets.argo.templates import (
    Task,
    Templates,
    absent_inputs,
    both,
    call_arguments,
    declared,
    dependencies,
    depends,
    directory_input,
    inner_directory,
    inputs_of,
    outputs_of,
    refine,
    short_names,
    task_names,
)

_TASK_FIELDS = (
    *("taskInfo", "inputs", "dependentTasks", "cachingOptions", "componentRef", "triggerPolicy"),
    *("artifactIterator", "parameterIterator", "retryPolicy", "iteratorPolicy"),
)


class Dag:
    """A component that consists of tasks; its template's inputs and outputs by kfp's names."""

    def __init__(
        self, templates: Templates, component: dict[str, Any], directory: str, absent: set[str]
    ) -> None:
        """Prepares a component, which may lie in a loop, and whose absent inputs may be null."""
        self.templates, self.component, self.directory = templates, component, directory
        self.inputs = short_names(component.get("inputDefinitions", {}))
        self.outputs = short_names(component.get("outputDefinitions", {}))
        self._tasks: dict[str, dict[str, Any]] = component["dag"]["tasks"]
        self._names = task_names(self._tasks)
        inputs = {
            key: parameter(name, maybe_absent=key in absent) for key, name in self.inputs.items()
        }
        self._scope = Scope(inputs, self._names)
        self._needs = {key: dependencies(task) for key, task in self._tasks.items()}
        self._imported: dict[str, list[str]] = {}
        self._calls: dict[str, models.DAGTask] = {}
        self._ends_apart = False

    def template(self, name: str) -> models.Template:
        """Returns the template, having made those of all tasks."""
        place = len(self.templates.made)
        in_order = {key: sorted(self._needs[key]) for key in sorted(self._needs)}
        for key in TopologicalSorter(in_order).static_order():
            self._add(key, name)
        dag: dict[str, Any] = {"tasks": list(self._calls.values())}
        if self._ends_apart:
            # Argo goes by the tasks that nothing comes after; kfp by all.
            dag |= {"target": " ".join(self._calls), "failFast": False}
        made = models.Template(
            name=name,
            inputs=inputs_of(self._input_parameters()),
            outputs=self._outputs(),
            dag=models.DAGTemplate.model_validate(dag),
        )
        self.templates.made.insert(place, made)
        return made

    def _add(self, key: str, within: str) -> None:
        """Adds a task, and makes its template."""
        spec = self._tasks[key]
        only(_TASK_FIELDS, spec, f"task {key}")
        component = self.templates.compiled.component(spec)
        executor = self.templates.compiled.executors.get(component.get("executorLabel", ""), {})
        if "importer" in executor:
            self._import(key, spec, component, executor["importer"])
            return
        name = self._names[key]
        template_name = self.templates.name(name, within)
        directory = f"{self.directory}/{name}".strip("/")
        given = self._scope.given(key, spec, component)
        task = Task(key, name, template_name, spec, component, directory, given)
        if "parameterIterator" in spec or "artifactIterator" in spec:
            template, passed = self._loop(task)
        elif "dag" in component:
            template, passed = self._nested(task)
        elif "container" in executor:
            template, passed = self._step(task, executor["container"])
        else:
            raise NotOnArgo(f"task {key}", " and ".join(executor) or "a component of nothing")
        refine(template, task)
        arguments = call_arguments(passed)
        if IN_LOOP in self.directory and template.resource is None:
            arguments.append(models.Parameter(name=DIRECTORY, value=task.directory))
        self._call(task, arguments)

    def _call(self, task: Task, arguments: list[models.Parameter]) -> None:
        """Adds the call of a task's template, or makes it the exit hook of the task it is for."""
        called = models.Arguments(parameters=arguments) if arguments else None
        upstream = self._upstream(self._needs[task.key])
        last = is_last_resort(task.spec)
        if last and self._is_exit_handler(task.key, upstream):
            hook = models.LifecycleHook(template=task.template, arguments=called)
            self._calls[upstream[0]].hooks = {"exit": hook}
            return
        self._ends_apart |= last
        trigger = task.spec.get("triggerPolicy", {}).get("condition")
        self._calls[task.name] = models.DAGTask(
            name=task.name,
            template=task.template,
            arguments=called,
            depends=depends(upstream, ended=last),
            when=f"{{{{={condition(trigger, task.given, task.key)}}}}}" if trigger else None,
        )

    def _upstream(self, needs: set[str]) -> list[str]:
        """Returns the tasks in Argo that come before one; nothing runs to import."""
        made: dict[str, None] = {}
        for key in sorted(needs):
            made |= dict.fromkeys(self._imported.get(key, [self._names[key]]))
        return list(made)

    def _is_exit_handler(self, key: str, upstream: list[str]) -> bool:
        """Whether a task can be another's exit hook, which runs when a run is stopped, too."""
        if len(upstream) != 1 or self._calls[upstream[0]].hooks:
            return False
        return not any(key in needs for needs in self._needs.values())

    def _nested(self, task: Task) -> tuple[models.Template, dict[str, Value]]:
        directory = inner_directory(task.directory)
        inside = Dag(self.templates, task.component, directory, absent_inputs(task))
        template = inside.template(task.template)
        self._leave(task, inside.outputs)
        return template, {
            inside.inputs[key]: value for key, value in task.given.items() if key in inside.inputs
        }

    def _loop(self, task: Task) -> tuple[models.Template, dict[str, Value]]:
        if "dag" not in task.component:
            raise NotOnArgo(f"task {task.key}", "a loop over a single step")
        body_name = self.templates.name(f"{task.template}-round")
        place = len(self.templates.made)
        inside = Dag(self.templates, task.component, IN_LOOP, absent_inputs(task))
        inside.template(body_name)
        template, values = loops.template(task, body_name, inside.inputs, inside.outputs)
        self.templates.made.insert(place, template)
        self._leave(task, inside.outputs)
        return template, values

    def _leave(self, task: Task, outputs: dict[str, str]) -> None:
        """Remembers where the outputs of a task that consists of others are."""
        for kind, keys in task.component.get("outputDefinitions", {}).items():
            for key in keys:
                self._scope.outputs[kind][task.key, key] = dag_output(task.name, outputs[key])

    def _step(
        self, task: Task, container: dict[str, Any]
    ) -> tuple[models.Template, dict[str, Value]]:
        image = container["image"]
        if image in (claims.CREATE, claims.DELETE):
            template, name = claims.template(task, image), file_output(task.name, "name", "STRING")
            self._scope.outputs["parameters"][task.key, "name"] = name
            self.templates.made.append(template)
            return template, task.given
        compiled = self.templates.compiled
        config = compiled.kubernetes.get(task.component["executorLabel"], {})
        step = Step(task, container, config, self._scope, compiled.workspace is not None)
        template = containers.template(step, task.template, compiled.name)
        for kind, key, output in step.outputs(task.name):
            self._scope.outputs[kind][task.key, key] = output
        self.templates.made.append(template)
        return template, step.arguments()

    def _import(
        self, key: str, spec: dict[str, Any], component: dict[str, Any], importer: dict[str, Any]
    ) -> None:
        """Makes the artifact that an importer stands for, for which nothing has to run."""
        if importer.get("downloadToWorkspace"):
            raise NotOnArgo(f"task {key}", "downloading an imported artifact to the workspace")
        given = self._scope.given(key, spec, component)
        uri = importer["artifactUri"]
        artifact = {
            "name": "artifact",
            "uri": given[uri["runtimeParameter"]]
            if "runtimeParameter" in uri
            else filled(uri["constant"], given, key),
            "type": importer["typeSchema"],
            "metadata": filled(importer.get("metadata", {}), given, key),
        }
        for output in component["outputDefinitions"]["artifacts"]:
            self._scope.outputs["artifacts"][key, output] = constant(to_value([artifact]))
        self._imported[key] = self._upstream(self._needs[key])

    def _input_parameters(self) -> list[models.Parameter]:
        specs = both(self.component.get("inputDefinitions", {}))
        return [
            declared(
                name,
                specs[key],
                has_default="defaultValue" in specs[key] or specs[key].get("isOptional", False),
            )
            for key, name in self.inputs.items()
        ] + directory_input(self.directory)

    def _outputs(self) -> models.Outputs | None:
        outputs = self.component["dag"].get("outputs", {})
        made: dict[str, Value] = {}
        for key, source in outputs.get("parameters", {}).items():
            one = source.get("valueFromParameter")
            chosen = [one] if one else source["valueFromOneof"]["parameterSelectors"]
            made[key] = self._first("parameters", "outputParameterKey", chosen)
        for key, source in outputs.get("artifacts", {}).items():
            made[key] = self._first("artifacts", "outputArtifactKey", source["artifactSelectors"])
        return outputs_of({self.outputs[key]: value.json for key, value in made.items()})

    def _first(self, kind: str, key: str, selectors: list[dict[str, str]]) -> Value:
        """Returns the value of the first of some outputs whose task has run."""
        sources = [(each["producerSubtask"], each[key]) for each in selectors]
        if len(sources) == 1:
            trigger = self._tasks[sources[0][0]].get("triggerPolicy", {})
            return self._scope.outputs[kind][sources[0]]("condition" in trigger)
        natives = [self._scope.outputs[kind][source](True).native for source in sources]
        return Value(f"({' ?? '.join(natives)})")
