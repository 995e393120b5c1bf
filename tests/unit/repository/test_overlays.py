"""What kustomize makes of manifests/: golden files, the schemas of Kubernetes, and policies."""

import configparser
import functools
import importlib.util
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from grafana_foundation_sdk.models.dashboard import Dashboard

from trireme import images
from trireme.deployment import manifests, objects
from trireme.deployment.kinds import KINDS
from trireme.job.rules import MANAGED_BY
from trireme.kubernetes.amounts import quantity
from trireme.pipeline.catalog import PIPELINES
from trireme.report import page
from trireme.tracking.model_versions import ModelVersion

MANIFESTS = Path(__file__).parents[3] / "manifests"
OVERLAYS = ["kind", "kubeflow", "kubeflow-single-user", "argo", "aliyun"]
VERSIONS = ["1.30", "1.36"]  # the oldest and the newest of Kubernetes that we say works
PARTS = ("kueue.x-k8s.io/", "scheduling.volcano.sh/", "monitoring.coreos.com/")
"""API groups of other people, which Kubernetes' own schemas do not have."""
ARGO = "argoproj.io/"
"""The group of the pipelines, which are golden files themselves."""

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")


@functools.cache
def rendered(overlay):
    """Returns an overlay's YAML: what is Argo's, which are the pipelines, and all else."""
    command = ["kubectl", "kustomize", str(MANIFESTS / "overlays" / overlay)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    parts = done.stdout.split("\n---\n")
    return [
        "\n---\n".join(part for part in parts if part.startswith(f"apiVersion: {ARGO}") == of_argo)
        for of_argo in (True, False)
    ]


def text(overlay):
    return rendered(overlay)[1]


@functools.cache
def everything(overlay):
    return [thing for thing in yaml.safe_load_all(text(overlay)) if thing]


def pods(overlay):
    """Returns the spec of every pod that is to be made, by the name of its maker."""
    made = [thing for thing in everything(overlay) if "template" in thing.get("spec", {})]
    assert made
    return {thing["metadata"]["name"]: thing["spec"]["template"] for thing in made}


def containers(overlay):
    for pod in pods(overlay).values():
        yield from pod["spec"]["containers"] + pod["spec"].get("initContainers", [])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_overlay_is_the_golden_one(overlay, golden):
    golden(f"manifests-{overlay}.yaml", text(overlay))


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field(version):
    things = {
        json.dumps(thing).replace('"team"', '"trireme"'): thing
        for overlay in OVERLAYS
        for thing in everything(overlay)
        if not thing["apiVersion"].startswith(PARTS)
    }
    for thing in things.values():
        kubernetes_validate.validate(thing, version, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_are_as_pod_security_restricted_wants_them(overlay):
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted."""
    for pod in pods(overlay).values():
        security = pod["spec"]["securityContext"]
        assert security["runAsNonRoot"] and security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False
        for volume in pod["spec"]["volumes"]:
            kinds = {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}
            assert set(volume) - {"name"} <= kinds
    for container in containers(overlay):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_containers_have_limits_and_images_a_version(overlay):
    for container in containers(overlay):
        for which in ("requests", "limits"):
            assert {"cpu", "memory"} <= set(container["resources"][which])
        image, _, tag = container["image"].rpartition(":")
        assert re.search(r"\d", tag) and "/" not in tag
        if image.startswith("ghcr.io/trireme/"):
            assert tag == images.BASE.rpartition(":")[2]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_its_own_claims_leave_runs_most_of_their_quota(overlay):
    quotas = [thing for thing in everything(overlay) if thing["kind"] == "ResourceQuota"]
    for quota in quotas:
        taken = sum(
            quantity(thing["spec"]["resources"]["requests"]["storage"])
            for thing in everything(overlay)
            if thing["kind"] == "PersistentVolumeClaim"
            and thing["metadata"]["namespace"] == quota["metadata"]["namespace"]
        )
        assert taken <= quantity(quota["spec"]["hard"]["requests.storage"]) / 2


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_secret_is_written_down(overlay):
    assert not [thing for thing in everything(overlay) if thing["kind"] == "Secret"]
    for container in containers(overlay):
        for variable in container.get("env", []):
            secret = re.search("PASSWORD|KEY|TOKEN", variable["name"])
            assert not secret or variable["name"].endswith("_FILE") or "valueFrom" in variable
    assert not re.search(r"://[^/\s@]+:[^/\s@]+@", text(overlay))  # a password in a URL


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_secrets_that_are_named_are_made(overlay):
    named = set(re.findall(r"secret(?:KeyRef|Ref|Name):(?:[^}]*?name:)? *([\w-]+)", text(overlay)))
    named |= {
        source["secretRef"]["name"]
        for container in containers(overlay)
        for source in container.get("envFrom", [])
    }
    made = set(re.findall(r"secret \S+ ([\w-]+)$", (MANIFESTS / "secrets.sh").read_text(), re.M))
    assert {"mlflow-auth", "mlflow-database"} <= named - {"key"} <= made | {"key"}


def test_mlflow_knows_the_settings_of_its_users():
    """It would take others without a word, and check every password anew again."""
    settings = configparser.ConfigParser()
    settings.read(MANIFESTS / "base/tracking/basic_auth.ini")
    (place,) = importlib.util.find_spec("mlflow").submodule_search_locations
    known = runpy.run_path(f"{place}/server/auth/config.py")["AuthConfig"]._fields
    assert "auth_cache_ttl_seconds" in settings["mlflow"]
    assert set(settings["mlflow"]) <= set(known)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_services_lead_to_pods(overlay):
    labels = [pod["metadata"]["labels"] for pod in pods(overlay).values()]
    ports = {port["name"] for each in containers(overlay) for port in each.get("ports", [])}
    for thing in everything(overlay):
        if thing["kind"] == "Service":
            assert thing["spec"]["selector"] in labels
            assert {port["targetPort"] for port in thing["spec"]["ports"]} <= ports


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_but_what_is_said_reaches_or_is_reached(overlay):
    policies = [thing for thing in everything(overlay) if thing["kind"] == "NetworkPolicy"]
    shut = {
        policy["metadata"]["namespace"]
        for policy in policies
        if policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    }
    # In a profile or a Kubeflow that is there already, policies are about training pods alone.
    ours = set() if overlay.startswith("kubeflow") else {"trireme"}
    assert shut == {"trireme-tracking"} | ours
    rules = [rule for policy in policies for rule in policy["spec"].get("egress", [])]
    anywhere = [rule["ports"] for rule in rules if not rule.get("to")]
    assert {port["port"] for ports in anywhere for port in ports} == {53, 5353}  # names
    peers = [peer for rule in rules for peer in rule.get("to", [])]
    blocks = [peer["ipBlock"] for peer in peers if "ipBlock" in peer]
    assert blocks
    for block in blocks:  # nothing reaches what hands out a node's credentials
        assert {"169.254.0.0/16", "100.100.100.200/32"} & set(block["except"])


@pytest.mark.parametrize(
    ("overlay", "account", "namespace"),
    [
        ("kubeflow", "default-editor", "team"),
        ("kubeflow-single-user", "pipeline-runner", "kubeflow"),
    ],
)
def test_kubeflows_own_account_may_launch_jobs(overlay, account, namespace):
    (binding,) = [thing for thing in everything(overlay) if thing["kind"] == "RoleBinding"]
    assert binding["metadata"]["namespace"] == namespace
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    ]


def test_argo_has_every_pipeline_and_runs_none_by_itself():
    made = list(yaml.load_all(rendered("argo")[0], yaml.CSafeLoader))
    assert {thing["metadata"]["namespace"] for thing in made} == {"trireme"}
    templates = {
        thing["metadata"]["name"]: thing["spec"]["serviceAccountName"]
        for thing in made
        if thing["kind"] == "WorkflowTemplate"
    }
    assert templates == dict.fromkeys(PIPELINES, "trireme")
    (schedule,) = [thing["spec"] for thing in made if thing["kind"] == "CronWorkflow"]
    assert schedule["workflowSpec"]["workflowTemplateRef"]["name"] in templates
    assert schedule["suspend"] is True


def test_argo_makes_pods_that_pod_security_restricted_lets_in():
    """As argo-workflows v4.1.2 workflow/controller/workflowpod.go makes them of these."""
    (settings,) = [
        {key: yaml.safe_load(value) for key, value in thing["data"].items()}
        for thing in everything("argo")
        if thing["metadata"]["name"] == "workflow-controller-configmap"
    ]
    pod = settings["workflowDefaults"]["spec"]["securityContext"]
    assert pod["runAsNonRoot"] and pod["runAsUser"] > 0
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in ("mainContainer", "executor"):
        security = settings[container]["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_account_of_the_steps_has_one_name():
    for thing in everything("argo"):
        if thing["kind"] == "RoleBinding":
            account = {"kind": "ServiceAccount", "name": "trireme", "namespace": "trireme"}
            assert thing["subjects"] == [account]


def test_another_namespace_takes_one_file(tmp_path):
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    (tmp_path / "kustomization.yaml").write_text(
        "namespace: team\nresources: [manifests/overlays/argo/runs]\n"
    )
    done = subprocess.run(["kubectl", "kustomize", str(tmp_path)], check=True, capture_output=True)
    made = list(yaml.load_all(done.stdout, yaml.CSafeLoader))
    assert {thing["metadata"].get("namespace", "team") for thing in made} == {"team"}
    assert [thing["metadata"]["name"] for thing in made if thing["kind"] == "Namespace"] == ["team"]
    bindings = [thing for thing in made if thing["kind"] == "RoleBinding"]
    assert {thing["metadata"]["name"] for thing in bindings} == {
        "trireme-executor",
        "trireme-launcher",
    }
    account = {"kind": "ServiceAccount", "name": "trireme", "namespace": "team"}
    assert all(thing["subjects"] == [account] for thing in bindings)


@pytest.mark.parametrize(
    ("overlay", "account"),
    [
        ("argo/runs", {"name": "trireme", "namespace": "trireme"}),
        ("kubeflow/profile", {"name": "default-editor", "namespace": "team"}),
    ],
)
def test_pipelines_that_deploy_get_a_role_of_their_own(overlay, account, tmp_path):
    """It allows what deploying asks for and no more, and is in no overlay that does not ask."""
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    file = tmp_path / "manifests/overlays" / overlay / "kustomization.yaml"
    turned_on = re.sub(r"# (components:\n)# (- \S+/parts/deploying\n)", r"\1\2", file.read_text())
    assert turned_on != file.read_text()
    for wanted in (0, 2):
        command = ["kubectl", "kustomize", str(file.parent)]
        done = subprocess.run(command, check=True, capture_output=True)
        found = [
            thing
            for thing in yaml.safe_load_all(done.stdout)
            if thing["metadata"]["name"] == "trireme-deployer"
        ]
        assert len(found) == wanted
        file.write_text(turned_on)
    role, binding = found
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == account["namespace"]
    assert binding["subjects"] == [{"kind": "ServiceAccount"} | account]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    needed = {
        (resource.group, resource.plural + (f"/{part}" if part else ""), verb)
        for kind in KINDS
        for resource, part, verb in objects.rights(KINDS[kind])
    }
    allowed = [
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert set(allowed) == needed and len(allowed) == len(needed)


@pytest.mark.parametrize("overlay", ["argo/runs", "kubeflow/profile", "kubeflow-single-user/runs"])
def test_servers_of_models_are_reached(overlay, tmp_path):
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    file = tmp_path / "manifests/overlays" / overlay / "kustomization.yaml"
    file.write_text(
        re.sub(r"# (components:\n)# (- \S+/parts/deploying\n)", r"\1\2", file.read_text())
    )
    done = subprocess.run(
        ["kubectl", "kustomize", str(file.parent)], check=True, capture_output=True
    )
    (policy,) = [
        thing
        for thing in yaml.load_all(done.stdout, yaml.CSafeLoader)
        if thing["kind"] == "NetworkPolicy" and thing["metadata"]["name"] == "servers"
    ]
    kubernetes_validate.validate(policy, VERSIONS[0], strict=True)
    assert policy["spec"]["ingress"] == [{}]
    selected = policy["spec"]["podSelector"]["matchLabels"].items()
    model = ModelVersion("digits", "1", "0" * 32, {})
    server, _ = manifests.deployment(
        model, "example.json", "https://mlflow.example.org", "image", 1
    )
    of_kserve = manifests.inference_service(model, "s3://models/digits/1", 1)
    assert selected <= server["spec"]["template"]["metadata"]["labels"].items()
    assert selected <= of_kserve["spec"]["predictor"]["labels"].items()
    # Training pods stay closed.
    assert not selected <= MANAGED_BY.items()


def test_the_alerts_are_right(tmp_path):
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed")
    (rule,) = [thing for thing in everything("aliyun") if thing["kind"] == "PrometheusRule"]
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rule["spec"]))
    shutil.copy(Path(__file__).parent / "alerts_test.yaml", tmp_path)
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run([promtool, *command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_knows_every_field_of_the_dashboard():
    written = json.loads((MANIFESTS / "parts/monitoring/dashboard.json").read_text())
    known = json.loads(json.dumps(Dashboard.from_json(written), default=lambda it: it.to_json()))
    assert contained(written, known) == []
    for panel in written["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    numbers = [panel["id"] for panel in written["panels"]]
    assert len(numbers) == len(set(numbers))


def test_the_dashboard_has_the_words_of_the_report():
    written = json.loads((MANIFESTS / "parts/monitoring/dashboard.json").read_text())
    panels = {panel["title"]: panel for panel in written["panels"]}
    shown = Path(page.__file__).with_name("page_of_a_run.html").read_text()
    assert "<h2>Time line</h2>" in shown
    (mapping,) = panels["Time line"]["fieldConfig"]["defaults"]["mappings"]
    states = {state["text"] for state in mapping["options"].values()}
    assert states - {"succeeded"} <= page._WORDS.keys()
    for title, name in [("CPUs", "CPUs"), ("Memory", "memory")]:
        legends = [target["legendFormat"] for target in panels[title]["targets"]]
        assert legends == ["{{pod}}: used", "{{pod}}: asked for"]
        assert f">{name} asked for</th>" in shown


def contained(written, known, place=""):
    """Returns the places of what is written and not known."""
    if isinstance(written, dict) and isinstance(known, dict):
        return [
            where
            for key, value in written.items()
            for where in contained(value, known.get(key), f"{place}/{key}")
        ]
    if isinstance(written, list) and isinstance(known, list) and len(written) == len(known):
        return [
            where
            for index, (one, other) in enumerate(zip(written, known, strict=True))
            for where in contained(one, other, f"{place}/{index}")
        ]
    return [] if written == known else [place]
