"""What a compiled pipeline becomes on Argo, and what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import argo_pipelines
import pytest
import yaml
from argo_walker import Walker
from google.protobuf import json_format
from kfp import dsl, kubernetes

from trireme.errors import InputError
from trireme.graph import reading
from trireme.pipeline import catalog
from trireme.pipeline.catalog import PIPELINES
from trireme.targets.argo.compiling import as_given, workflow_template

GOLDEN = Path(__file__).parents[3] / "golden"
OnArgo = Callable[[Any], dict[str, Any]]

component = dsl.component(base_image="python:3.11", install_kfp_package=False)


@component
def work(text: str = "") -> str:
    """Does something."""
    return text


@dsl.container_component
def shout(text: str, said: dsl.OutputPath(str), page: dsl.Output[dsl.HTML], end: str = "!"):
    """Says something, in a container without Python."""
    return dsl.ContainerSpec(
        image="alpine:3.20",
        command=["sh", "-ec"],
        args=[
            'printf "%s" "$0$1" > "$2"; echo "$0" > "$3"',
            text,
            dsl.ConcatPlaceholder([end, dsl.IfPresentPlaceholder("end", "?", "none")]),
            said,
            page.path,
        ],
    )


def template(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in manifest["spec"]["templates"] if each["name"] == name)


@pytest.mark.parametrize("name", list(PIPELINES))
def test_golden_files(name: str, golden: Callable[[str, str], None]) -> None:
    golden(
        f"../../manifests/pipelines/{name}.yaml",
        workflow_template(catalog.load(name).graph, is_ours=True).to_yaml(),
    )


def test_a_run_is_given_what_people_can_fill_in(on_argo: OnArgo) -> None:
    @dsl.pipeline(name="given")
    def given(
        text: str = "plain",
        odd: str = "{{x}}",
        flag: bool = True,
        things: list = [1],  # noqa: B006
        needed: int = None,  # type: ignore[assignment]  # noqa: RUF013
    ) -> None:
        """Takes things.

        Args:
            text: What is {{said}}.
        """
        work(text=text)

    parameters = on_argo(given)["spec"]["arguments"]["parameters"]
    found = {each.pop("name"): each for each in parameters}
    assert found == {
        "text": {"value": "plain", "description": "What is { {said}}."},
        "odd": {"value": r'"\u007b{x}}"'},
        "flag": {"value": "true", "enum": ["true", "false"]},
        "things": {"value": "[1]"},
        "needed": {"value": "null"},
    }


def test_the_steps_of_a_pipeline_that_is_used_twice_are_called_as_status_calls_them(
    on_argo: OnArgo,
) -> None:
    @dsl.pipeline
    def inner() -> None:
        work(text="a").set_display_name("works")
        with dsl.ParallelFor(["a"], name="each") as one:
            work(text=one)

    @dsl.pipeline
    def twice() -> None:
        inner()
        inner()
        shout(text="b").set_display_name("ends")

    templates = on_argo(twice)["spec"]["templates"]
    steps = {each["name"] for each in templates if "dag" not in each}
    told_apart = {*reading.of_pipeline(twice).names.values()} - {"shout"}
    assert steps == told_apart | {"ends"} and "inner-2-work" in steps


def test_long_names_of_tasks_are_shortened_and_told_apart(on_argo: OnArgo) -> None:
    @dsl.pipeline(name="p" * 63)
    def long() -> None:
        for last in "ab":
            work(text=last).set_display_name("n" * 140 + last)

    spec = on_argo(long)["spec"]
    names = {each["name"] for each in spec["templates"]}
    tasks = [task for each in spec["templates"] for task in each.get("dag", {}).get("tasks", [])]
    assert sorted(map(len, names)) == [4, 63, 128, 128]
    assert {task["template"] for task in tasks} == names - {"main"}
    assert max(len(task["name"]) for task in tasks) == 128


def test_a_pipeline_with_a_name_that_is_too_long_is_refused(on_argo: OnArgo) -> None:
    @dsl.pipeline(name="p" * 64)
    def longer() -> None:
        work(text="x")

    with pytest.raises(InputError, match="p: a name of more than 63 letters cannot be"):
        on_argo(longer)


def test_a_step_knows_the_name_of_its_pod_however_long(on_argo: OnArgo) -> None:
    @dsl.pipeline(name="called")
    def called() -> None:
        work(text="x")

    env = template(on_argo(called), "work")["container"]["env"]
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    assert {"name": "POD_NAME", "valueFrom": field} in env


def test_a_factor_that_is_not_whole_is_refused(on_argo: OnArgo) -> None:
    @dsl.pipeline(name="slowly")
    def slowly() -> None:
        work(text="x").set_retry(2, backoff_duration="30s", backoff_factor=1.5)

    with pytest.raises(InputError, match=r"task work: the backoff_factor 1\.5, which is not whole"):
        on_argo(slowly)


def test_the_pod_is_what_the_task_asks_for(on_argo: OnArgo) -> None:
    @dsl.pipeline(name="placed")
    def placed(secret: str = "logins", cpu: str = "2") -> None:
        step = (
            work(text="x")
            .set_cpu_limit("1")
            .set_memory_request("1G")
            .set_retry(2, backoff_duration="30s", backoff_factor=2, backoff_max_duration="5m")
        )
        step.set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(1)
        step.set_env_variable("A", "{{b}}").set_caching_options(True, cache_key="worked")
        step.set_display_name("Work, hard")
        kubernetes.use_secret_as_env(step, secret, {"password": "PASSWORD"})
        kubernetes.use_config_map_as_volume(step, "settings", "/settings")
        kubernetes.use_config_map_as_volume(step, "settings", "/again")
        kubernetes.use_secret_as_volume(step, "settings", "/secret")
        kubernetes.use_config_map_as_volume(step, "kube-root-ca.crt", "/ca")
        kubernetes.mount_pvc(step, "data", "/data")
        kubernetes.mount_pvc(step, "workspace", "/mine")
        kubernetes.add_node_selector(step, "kind", "gpu")
        kubernetes.add_toleration(step, "gpu", "Exists", effect="NoSchedule")
        kubernetes.add_node_affinity(step, [{"key": "zone", "operator": "In", "values": ["a"]}])
        kubernetes.add_pod_label(step, "team", "vision")
        kubernetes.set_image_pull_policy(step, "Always")
        kubernetes.set_image_pull_secrets(step, ["registry"])
        kubernetes.set_timeout(step, 60)
        kubernetes.empty_dir_mount(step, "scratch", "/scratch", size_limit="1Gi")
        work(text="y").set_cpu_limit(cpu)

    manifest = on_argo(placed)
    made = template(manifest, "work")
    container = made["container"]
    assert container["resources"] == {
        "limits": {"cpu": "1", "nvidia.com/gpu": "1"},
        "requests": {"memory": "1G"},
    }
    assert container["env"] == [
        {"name": "KFP_NOTHING", "value": ""},
        {"name": "A", "value": "{$(KFP_NOTHING){b}}"},
        {
            "name": "PASSWORD",
            "valueFrom": {
                "secretKeyRef": {
                    "name": "{{=fromJSON(inputs.parameters.secret)}}",
                    "key": "password",
                    "optional": False,
                }
            },
        },
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    assert [(each["name"], each["mountPath"]) for each in container["volumeMounts"]] == [
        ("data", "/data"),
        ("workspace-2", "/mine"),
        ("settings", "/secret"),
        ("settings-2", "/settings"),
        ("settings-2", "/again"),
        ("kube-root-ca-crt", "/ca"),
        ("scratch", "/scratch"),
        ("outputs", "/kfp/outputs"),
    ]
    assert made["volumes"][0] == {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    assert made["nodeSelector"] == {"kind": "gpu"}
    assert made["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    terms = made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchExpressions"][0]["key"] == "zone"
    assert made["metadata"]["labels"] == {"team": "vision"}
    assert container["imagePullPolicy"] == "Always"
    assert json.loads(made["podSpecPatch"]) == {"imagePullSecrets": [{"name": "registry"}]}
    assert made["activeDeadlineSeconds"] == 60
    assert made["retryStrategy"]["limit"] == "2"
    assert made["retryStrategy"]["backoff"] == {
        "duration": "30s",
        "factor": "2",
        "maxDuration": "300s",
    }
    assert made["annotations"]["workflows.argoproj.io/title"] == "Work, hard"
    assert made["memoize"]["cache"] == {"configMap": {"name": "trireme-cache"}}
    assert re.fullmatch("[0-9a-f]{64}", made["memoize"]["key"])
    later = template(manifest, "work-2")
    names = [
        "data",
        "workspace-2",
        "settings",
        "settings-2",
        "kube-root-ca-crt",
        "scratch",
        "outputs",
    ]
    assert [each["name"] for each in made["volumes"]] == names
    assert "memoize" not in later  # whose key would be kfp's
    assert "{{=string(" in later["podSpecPatch"]
    assert "volumeClaimTemplates" not in manifest["spec"]


def test_a_container_without_python_gets_words_and_leaves_files(
    on_argo: OnArgo, tmp_path: Path
) -> None:
    @dsl.pipeline(name="shouting")
    def shouting(text: str = "x") -> None:
        said = shout(text=text)
        shout(text=said.outputs["said"], end="{{end}}")

    hostile = "{{workflow.name}} $(KFP_NOTHING) $$ 'q' \" \\ é"
    walker = Walker(on_argo(shouting), tmp_path / "run", {"text": as_given(hostile, "STRING")})
    assert walker.run().phase == "Succeeded"
    first, second = ((pod["words"][3], pod["words"][4]) for pod in walker.pods)
    assert first == (hostile, "!?")
    assert second == (f"{hostile}!?", "{{end}}?")
    page = walker.workspace / "artifacts" / "shout" / "page"
    assert page.read_text() == f"{hostile}\n"


def test_imported_artifacts_need_no_pod(on_argo: OnArgo) -> None:
    @component
    def use(data: dsl.Input[dsl.Dataset]) -> None:
        """Uses data."""

    @dsl.pipeline(name="importing")
    def importing(name: str = "a") -> None:
        metadata = {"of": name, "kind": "test"}
        imported = dsl.importer("/data/x", dsl.Dataset, metadata=metadata)
        use(data=imported.output)

    manifest = on_argo(importing)
    (task,) = template(manifest, "importing")["dag"]["tasks"]
    (argument,) = task["arguments"]["parameters"]
    assert "depends" not in task
    assert "'uri': '/data/x'" in argument["value"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda ir: ir["root"]["dag"]["tasks"]["work"].update(
                triggerPolicy={"condition": "inputs.x.matches('a')"}
            ),
            "task work: the condition \"inputs.x.matches('a')\" cannot be expressed on Argo",
        ),
        (
            lambda ir: ir["deploymentSpec"]["executors"]["exec-work"].update(
                container={"image": "a", "lifecycle": {"preCacheCheck": {"command": ["b"]}}}
            ),
            "its executor 'exec-work' has lifecycle, which Trireme does not know",
        ),
        (
            lambda ir: ir["root"].update(
                inputDefinitions={"artifacts": {"x": {"artifactType": {"schemaTitle": "a"}}}}
            ),
            "input x: an artifact that a run is given cannot be expressed on Argo",
        ),
        (
            lambda ir: ir["root"]["dag"]["tasks"]["work"]["inputs"]["parameters"]["text"].update(
                runtimeValue={"constant": "{{$.unheard_of}}"}
            ),
            "task work: the placeholder {{$.unheard_of}} in a constant cannot be expressed on Argo",
        ),
        (lambda ir: ir.update(more=1), 'has no field named "more"'),
        (
            lambda ir: ir["root"]["dag"]["tasks"]["work"]["inputs"]["parameters"].update(
                text={"componentInputParameter": "nobody"}
            ),
            "task work: its input text refers to nobody, which is not there",
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused(
    change: Callable[[dict[str, Any]], None], said: str, on_argo: OnArgo
) -> None:
    @dsl.pipeline(name="plain")
    def simple() -> None:
        work(text="x")

    ir = json_format.MessageToDict(simple.pipeline_spec)
    change(ir)
    with pytest.raises((InputError, ValueError)) as caught:
        on_argo(yaml.safe_dump(ir))
    assert said in str(caught.value)


def test_the_user_of_the_images_may_write_to_a_volume_of_roots(on_argo: OnArgo) -> None:
    security = on_argo(argo_pipelines.values)["spec"]["securityContext"]
    assert security == {"fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch"}
