"""The generated parts of docs/reference, each between two marks of its page: make golden.

What is above the first mark is written by hand. Each function returns what belongs between them.
"""

import html
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from kfp.dsl import base_component
from typer.main import get_command

import trireme
from trireme import steps
from trireme.cli.app import app
from trireme.cli.examples import EXAMPLES
from trireme.cli.lazy import help_row
from trireme.job.job import TrainingJob
from trireme.parameters import PARAMETERS

ROOT = Path(__file__).parents[1]
BEGIN = '<!-- "make golden" writes what follows, of tests/reference_pages.py. -->\n'
END = "<!-- Until here. -->\n"

STEPS = {
    "checkout": "checkout",
    "dataset": "dataset",
    "train": "training",
    "evaluate": "evaluation",
    "export": "export",
    "deploy": "deployment",
}
"""The steps of the page, with the folders of their components."""

ROLES = {
    "manifests/base/rights/roles.yaml": "on every cluster",
    "manifests/overlays/argo/runs/executor.yaml": "on Argo",
    "manifests/parts/deploying/roles.yaml": "for pipelines that deploy, where you add it",
}

VARIABLES = {
    "Where things are": {
        "TRIREME_HOME": "the folder of runs, caches and Secrets of this machine; `~/.trireme`",
        "XDG_CONFIG_HOME": "the folder that holds `trireme/trireme.yaml`; `~/.config`",
        "KUBECONFIG": "the cluster, as for kubectl",
        "REGISTRY_AUTH_FILE": "the file with the logins of registries of images, as for podman",
        "DOCKER_CONFIG": "the folder with `config.json`, which has them for docker; `~/.docker`",
    },
    "MLflow": {
        "MLFLOW_TRACKING_URI": "the server that records runs; by default this machine",
        "MLFLOW_TRACKING_USERNAME": "its user; with `MLFLOW_TRACKING_PASSWORD`",
        "MLFLOW_TRACKING_PASSWORD": "its password",
        "MLFLOW_TRACKING_TOKEN": "a token in place of both",
        "MLFLOW_RUN_ID": "a run that is already open, to record into",
        "MLFLOW_EXPERIMENT_ID": "the experiment, where the parameter `experiment` is empty",
        "MLFLOW_ALLOW_FILE_STORE": "MLflow's: whether the server may be a folder of files",
    },
    "Kubeflow Pipelines": {
        "KF_PIPELINES_ENDPOINT": "the URL of the API, or of the UI in front of it",
        "KFP_ENDPOINT": "the same",
        "KF_PIPELINES_UI_ENDPOINT": "the URL of the UI, for links",
        "KF_PIPELINES_SA_TOKEN_PATH": "a file with a token",
        "KFP_EXISTING_TOKEN": "a token",
        "KFP_NAMESPACE": "your namespace, in a multi-user Kubeflow",
        "KFP_TIME_ZONE": "CRON_SCHEDULE_TIMEZONE of Kubeflow's schedule controller",
    },
    "Argo's server, for resume": {
        "ARGO_SERVER": "its address, HOST:PORT",
        "ARGO_TOKEN": "a token, if you log in by a certificate",
        "ARGO_SECURE": "`false` for a server without TLS",
        "ARGO_INSECURE_SKIP_VERIFY": "`true`: its certificate is not checked",
        "ARGO_BASE_HREF": "the path that its URLs begin with",
    },
    "Code, data, packages": {
        "HF_TOKEN": "a token of the Hugging Face Hub",
        "HF_ENDPOINT": "another server than huggingface.co",
        "AWS_ACCESS_KEY_ID": "a key of S3; with `AWS_SECRET_ACCESS_KEY`",
        "AWS_SECRET_ACCESS_KEY": "its secret",
        "AWS_ENDPOINT_URL": "another server than Amazon's",
        "AWS_REGION": "the region of S3",
        "AWS_DEFAULT_REGION": "the same",
        "AWS_SKIP_SIGNATURE": "`true` for a public bucket",
        "GOOGLE_BASE_URL": "another server than Google's for `gs://`",
        "UV_DEFAULT_INDEX": "the index of packages, as for uv",
        "PIP_INDEX_URL": "the same, where uv has none",
        "GIT_SSH_COMMAND": "git's own, for ssh",
    },
    "Certificates": {
        "REQUESTS_CA_BUNDLE": "a file of CAs for MLflow, `https://`, `hf://`, Kubeflow",
        "SSL_CERT_FILE": "the same for the index of packages",
        "GIT_SSL_CAINFO": "the same for git",
    },
}
"""What a person may set."""

OTHERS = {
    "XDG_RUNTIME_DIR",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TF_CONFIG",
    "NUM_PROCESSES",
    "PROCESS_ID",
    "SEED",
    "CHECKPOINT_DIR",
    "BASE_MODEL_DIR",
    "WARM_START_DIR",
    "METRICS_PORT",
    "OMP_NUM_THREADS",
    "PATH",
    "TMPDIR",
    "TERM",
    "GRPC_FAIL_FAST",
    "TF_NUM_INTEROP_THREADS",
    "KUBERNETES_SERVICE_HOST",
    "KFP_POD_NAME",
    "MLFLOW_DISABLE_TELEMETRY",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT",
}
"""What programs are given, and what machines and engines set: no person does."""

READ = re.compile(r'environ(?:\.get\(|\.pop\(|\[)\s*"([A-Z][A-Z0-9_]+)"|"([A-Z_]+)" in os\.environ')


def row(*cells: str) -> str:
    return "| " + " | ".join(_cell(" ".join(cell.split())) for cell in cells) + " |"


def _cell(text: str) -> str:
    """Returns a cell that a git host and the site show alike; of `\\|` the site shows both."""
    shown = re.sub(r"`([^`]*\|[^`]*)`", lambda code: f"<code>{html.escape(code[1])}</code>", text)
    return shown.replace("|", "&#124;")


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    return "\n".join([row(*head), "|" + "---|" * len(head), *(row(*cells) for cells in rows), ""])


def literal(value: Any) -> str:
    if value in ("", None):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value).removesuffix('.0')}`"


def parameters() -> str:
    rows = [(f"`{name}`", literal(each.default), each.text) for name, each in PARAMETERS.items()]
    return table(("parameter", "default", ""), rows)


def arguments(function: Any) -> dict[str, str]:
    """Returns what a Google-style docstring says of each argument."""
    text = inspect.cleandoc(function.__doc__).partition("\nArgs:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", text, re.MULTILINE)
    return {name: " ".join(words.split()).replace("``", "`") for name, words in found}


def sentence(documented: Any) -> str:
    text = inspect.cleandoc(documented.__doc__).partition("\n\n")[0]
    return " ".join(text.split()).replace("``", "`")


def step(name: str) -> str:
    module = importlib.import_module(f"trireme.components.{STEPS[name]}.component")
    component: base_component.BaseComponent = getattr(module, name)
    function = getattr(steps, name)
    texts = arguments(function)
    inputs = [
        (f"`{each.name}`", _shown(each.default), texts[each.name])
        for each in inspect.signature(function).parameters.values()
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    outputs = [
        (f"`{output}`", spec.type.partition("@")[0].removeprefix("system."), words)
        for output, spec in component.component_spec.outputs.items()
        for words in [spec.description or _described(component, output)]
    ]
    return "\n".join(
        [
            f"## {name}",
            "",
            component.description.strip().splitlines()[0],
            "",
            table(("input", "default", ""), inputs),
            table(("output", "type", ""), outputs),
        ]
    )


def _shown(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return ""
    return "`" + {None: "{}", (): "[]"}.get(default, f"{default!r}".replace("'", '"')) + "`"


def _described(component: Any, name: str) -> str:
    """Returns what an artifact is, or a single output, which kfp does not keep of its docstring."""
    if name == "Output":
        text = inspect.cleandoc(component.python_func.__doc__).partition("\nReturns:\n")[2]
        return text.partition("\n\n")[0]
    return arguments(component.python_func).get(name, "")


def names() -> str:
    rows = [
        (f"`trireme.{name}`", sentence(getattr(trireme, name)))
        for name in trireme.__all__
        if name != "WORKSPACE"
    ]
    return table(("name", ""), [*rows, ("`trireme.WORKSPACE`", "The volume of a run.")])


def job_fields() -> str:
    schema = TrainingJob.model_json_schema()
    parts = [_fields(schema)]
    for name, part in schema["$defs"].items():
        if "properties" in part:
            about = " ".join(part.get("description", "").split())
            parts.append(f"## {name}\n\n{about}\n\n{_fields(part)}")
    return "\n".join(parts)


def _fields(schema: dict[str, Any]) -> str:
    rows = [
        (f"`{name}`", _kind(each), literal(each.get("default")), each.get("description", ""))
        for name, each in schema["properties"].items()
    ]
    return table(("field", "kind", "default", ""), rows)


def _kind(schema: dict[str, Any]) -> str:
    """Returns what a value of a JSON schema is, in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "allOf" in schema:
        return _kind(schema["allOf"][0])
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    match schema.get("type"):
        case "array":
            return f"list of {_kind(schema.get('items', {}))}"
        case "object":
            return "object"
        case "string":
            return "text"
        case "integer" | "number" as kind:
            return kind
        case "boolean":
            return "true or false"
    return "any"


def environment() -> str:
    parts = [
        f"## {title}\n\n" + table(("variable", ""), [(f"`{n}`", text) for n, text in each.items()])
        for title, each in VARIABLES.items()
    ]
    return "\n".join(parts)


def read_by_us() -> set[str]:
    """Returns the names of variables that our files read."""
    files = [*(ROOT / "trireme").rglob("*.py"), *(ROOT / "trainers").rglob("*.py")]
    found = (READ.findall(file.read_text()) for file in files)
    return {first or second for each in found for first, second in each}


def roles() -> str:
    parts = []
    for file, where in ROLES.items():
        text = (ROOT / file).read_text()
        role = next(each for each in yaml.safe_load_all(text) if each["kind"] == "Role")
        rows = [
            (
                ", ".join(f"`{group}`" if group else "core" for group in rule["apiGroups"]),
                ", ".join(f"`{resource}`" for resource in rule["resources"]),
                ", ".join(rule["verbs"]),
                why,
            )
            for rule, why in zip(role["rules"], _whys(text), strict=True)
        ]
        parts += [
            f"## {role['metadata']['name']}",
            "",
            f"`{file}`, {where}.",
            "",
            table(("group", "resources", "verbs", "why"), rows),
        ]
    return "\n".join(parts)


def _whys(text: str) -> list[str]:
    """Returns the comment above each rule of a Role."""
    rules = text.partition("\nrules:\n")[2].partition("\n---")[0]
    found, comment = [], []
    for line in rules.splitlines():
        if line.startswith("#"):
            comment.append(line.lstrip("# "))
        elif line.startswith("- apiGroups:"):
            found.append(" ".join(comment))
            comment = []
    return found


def commands() -> str:
    group = get_command(app)
    shared: dict[str, Any] = {}
    parts = [
        part
        for name, command in _loaded(group, "trireme")
        for part in _command(name, command, shared)
    ]
    about = "Options that many commands have. Those that a command takes are named there."
    return "\n".join(
        [
            *parts,
            "## Cluster options",
            "",
            about,
            "",
            table(("option", ""), sorted(set(shared.values()))),
        ]
    )


def _loaded(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    lazy = getattr(group, "lazy", None)
    if lazy is None:
        entries = list(group.commands.items())
    else:
        entries = [(name, each.load()) for name, each in lazy.items() if not each.is_hidden]
    for name, command in entries:
        if hasattr(command, "commands"):
            yield from _loaded(command, f"{words} {name}")
        else:
            yield f"{words} {name}", command


def _command(name: str, command: Any, shared: dict[str, Any]) -> list[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    own, others, given = [], [], []
    for each in command.params:
        row = help_row(each, context)
        if each.name == "help" or row is None:
            continue
        shown = f"`{row[0]}`", row[1]
        if each.param_type_name == "argument":
            given.append(shown)
        elif each.rich_help_panel:
            shared[each.name] = shown
            others.append(f"`{each.opts[0]}`")
        else:
            own.append(shown)
    examples = "\n".join(f"trireme {each}" for each in EXAMPLES[name.removeprefix("trireme ")])
    parts = [f"## {name}", "", _about(command), "", f"```text\n{usage}\n```", ""]
    parts += [f"```\n{examples}\n```", ""]
    parts += [table(("argument", ""), given)] if given else []
    parts += [table(("option", ""), own)] if own else []
    parts += [f"[Cluster options](#cluster-options): {', '.join(others)}.", ""] if others else []
    return parts


def _about(command: Any) -> str:
    return inspect.cleandoc(command.help or "").partition("\f")[0].strip()


PARTS = {
    "commands": commands,
    "parameters": parameters,
    "job-fields": job_fields,
    "steps": lambda: "\n".join(map(step, STEPS)),
    "python": names,
    "environment": environment,
    "roles": roles,
}
