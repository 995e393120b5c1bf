"""A server that speaks the v2beta1 REST API of Kubeflow Pipelines, as strictly as the real one.

Written from the API's description, https://www.kubeflow.org/docs/components/pipelines/reference/api/
(whose models kfp_server_api holds), and from what the API server 2.17 does where that is silent:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/apiserver. It runs nothing: a test
says what a run's states are, one after the other.
"""

import base64
import email
import email.policy
import json
import re
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import kfp_server_api
import yaml
from google.protobuf import json_format, struct_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from kfp.pipeline_spec.pipeline_spec_pb2 import ParameterType, PipelineSpec

NEVER = "1970-01-01T00:00:00Z"  # how the server says that something has not happened
PROXY = "/api/v1/namespaces/kubeflow/services/ml-pipeline:http/proxy"  # of a cluster's API server
CODES = {400: 3, 404: 5, 409: 6}
ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
FIELDS = {  # that may be filtered by and sorted by
    "pipelines": {"pipeline_id", "name", "display_name", "created_at", "description", "namespace"},
    "pipeline_versions": {"pipeline_version_id", "name", "display_name", "created_at"},
    "experiments": {"experiment_id", "name", "display_name", "created_at", "namespace"},
    "runs": {"run_id", "name", "display_name", "created_at", "state", "experiment_id"},
    "recurringRuns": {"recurring_run_id", "display_name", "created_at", "description"},
}
KINDS = {
    "STRING": "string_value",
    "NUMBER_INTEGER": "number_value",
    "NUMBER_DOUBLE": "number_value",
    "BOOLEAN": "bool_value",
    "LIST": "list_value",
    "STRUCT": "struct_value",
}
PLAIN = {"str": str, "int": int, "bool": bool, "object": object, "datetime": str}


class No(Exception):
    """The answer is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class KubeflowServer:
    """What the server has, and what it is to do.

    Attributes:
        faults: What the next requests are answered with, before anything is done: a status, or
            ``reset``; with ``lost`` the request is done and the answer does not arrive; ``page``
            is a login page; empty: nothing.
        token: The bearer token that is accepted; empty: none is asked for.
        multi_user: Whether it has several users.
        states: A run's states, one for each look at it; the last one stays. Each is the run's,
            and those of its workflow's nodes by name.
        tries: Whether each node has its tries below it, as in 2.17.
        slow_to_end: Whether a run that is terminated takes long enough for its history to say so.
        on_look: Called once, when somebody looks at a run next.
        on_retry: Called once, when a run is being retried next.
        seen: Method and path of each request, and its headers.
        without_parameters: Names of recurring runs whose runs would get no parameters.
        mlflow: What the MLflow plugin has to say of a new run; None: it is off.
        destroyed: Ids of the runs whose Workflows were deleted with a recurring run.
        most_active: How many recurring runs have been enabled at once.
    """

    faults: list[str] = field(default_factory=list)
    token: str = ""
    multi_user: bool = False
    states: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    tries: bool = False
    slow_to_end: bool = True
    on_look: Callable[[], None] | None = None
    on_retry: Callable[[], None] | None = None
    seen: list[tuple[str, Message]] = field(default_factory=list)
    pipelines: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, dict[str, Any]] = field(default_factory=dict)
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    recurring: dict[str, dict[str, Any]] = field(default_factory=dict)
    without_parameters: list[str] = field(default_factory=list)
    mlflow: dict[str, str] | None = field(default_factory=lambda: {"state": "PLUGIN_SUCCEEDED"})
    destroyed: list[str] = field(default_factory=list)
    most_active: int = 0
    clock: int = 1_800_000_000

    def __enter__(self) -> "KubeflowServer":
        owner = self

        class Handler(_Handler):
            server_state = owner

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def only_run(self) -> dict[str, Any]:
        """The run, of which there is one."""
        (run,) = self.runs.values()
        return run

    def now(self) -> str:
        """A time, later than any before."""
        self.clock += 1
        return json_format.MessageToDict(_timestamp(self.clock))

    # Each answer below is a method named after the route.

    def healthz(self, query: dict[str, str]) -> dict[str, Any]:
        _know(query)
        return {"multi_user": True} if self.multi_user else {}

    def create_pipeline(self, query: dict[str, str], body: Any) -> dict[str, Any]:
        _know(query)
        _through("V2beta1Pipeline", body)
        if not body.get("name"):
            raise No(400, "name is required")
        if any(each["name"] == body["name"] for each in self.pipelines.values()):
            raise No(409, f"The name {body['name']} already exist. Please specify a new name.")
        _check_tags(body.get("tags", {}))
        return self._keep(self.pipelines, "pipeline_id", body)

    def get_pipeline_by_name(self, query: dict[str, str], name: str) -> dict[str, Any]:
        _know(query, "namespace")
        for each in self.pipelines.values():
            if each["name"] == name:
                return each
        raise No(404, f"Pipeline {name} not found")

    def list_versions(self, query: dict[str, str], pipeline_id: str) -> dict[str, Any]:
        self._get(self.pipelines, pipeline_id, "Pipeline")
        mine = [each for each in self.versions.values() if each["pipeline_id"] == pipeline_id]
        return _page("pipeline_versions", mine, query)

    def get_version(self, query: dict[str, str], pipeline_id: str, id: str) -> dict[str, Any]:
        _know(query)
        self._get(self.pipelines, pipeline_id, "Pipeline")
        return self._get(self.versions, id, "PipelineVersion")

    def upload_version(self, query: dict[str, str], content: bytes) -> dict[str, Any]:
        _know(query, "name", "display_name", "pipelineid", "description", "tags")
        pipeline = self._get(self.pipelines, query.get("pipelineid", ""), "Pipeline")
        spec, *platform = yaml.safe_load_all(content)
        try:
            parsed = json_format.ParseDict(spec, PipelineSpec())
        except json_format.ParseError as error:
            raise No(400, f"Failed to create a pipeline version: {error}") from None
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,127}", parsed.pipeline_info.name):
            raise No(400, f"Invalid pipeline name: {parsed.pipeline_info.name}")
        if not 0 < len(query["name"]) <= 127:
            raise No(400, "PipelineVersion.Name length cannot exceed 127")
        tags = json.loads(query.get("tags") or "{}")
        _check_tags(tags)
        for each in self.versions.values():
            if (each["pipeline_id"], each["name"]) == (pipeline["pipeline_id"], query["name"]):
                raise No(409, "Failed to create a pipeline version")
        whole = {"pipeline_spec": spec, "platform_spec": platform[0]} if platform else spec
        return self._keep(
            self.versions,
            "pipeline_version_id",
            {
                "pipeline_id": pipeline["pipeline_id"],
                "name": query["name"],
                "display_name": query.get("display_name") or query["name"],
                "description": query.get("description", ""),
                "tags": tags,
                "pipeline_spec": whole,
            },
        )

    def create_experiment(self, query: dict[str, str], body: Any) -> dict[str, Any]:
        _know(query)
        _through("V2beta1Experiment", body)
        if self.multi_user and not body.get("namespace"):
            raise No(400, "Namespace cannot be empty")
        name = body.get("display_name")
        if not name:
            raise No(400, "Experiment name cannot be empty")
        if any(each["display_name"] == name for each in self.experiments.values()):
            raise No(409, f"The name {name} already exists. Please specify a new name.")
        return self._keep(self.experiments, "experiment_id", body)

    def list_experiments(self, query: dict[str, str]) -> dict[str, Any]:
        return _page("experiments", self._mine(self.experiments, query), query)

    def create_run(self, query: dict[str, str], body: Any) -> dict[str, Any]:
        _know(query)
        _through("V2beta1Run", body)
        if not body.get("display_name"):
            raise No(400, "The run name is empty. Please specify a valid name")
        experiment = self._get(self.experiments, body.get("experiment_id", ""), "Experiment")
        reference = body.get("pipeline_version_reference") or {}
        version = self._get(
            self.versions, reference.get("pipeline_version_id", ""), "PipelineVersion"
        )
        parameters = _as_kept((body.get("runtime_config") or {}).get("parameters", {}))
        run_id = str(uuid.uuid4())
        _check_parameters(version["pipeline_spec"], parameters)
        kept = {name: _expanded(value, run_id) for name, value in parameters.items()}
        run = body | {
            "run_id": run_id,
            "namespace": experiment.get("namespace", ""),
            "state": "PENDING",
            "state_history": [{"update_time": self.now(), "state": "PENDING"}],
            "created_at": self.now(),
            "finished_at": NEVER,
            "runtime_config": {"parameters": kept},
            "plugins_output": {"mlflow": self.mlflow} if self.mlflow else {},
            "left": list(self.states),
        }
        self.runs[run_id] = run
        return _shown(run)

    def list_runs(self, query: dict[str, str]) -> dict[str, Any]:
        _know(query, "namespace", "page_size", "page_token", "sort_by", "filter", "experiment_id")
        return _page("runs", [_shown(run) for run in self._mine(self.runs, query)], query)

    def get_run(self, query: dict[str, str], run_id: str) -> dict[str, Any]:
        _know(query, "experiment_id")
        run = self._get(self.runs, run_id, "Run")
        if self.on_look:
            self.on_look, call = None, self.on_look
            call()
        if run["left"]:
            state, nodes = run["left"].pop(0)
            if run["state"] != "CANCELING" or state in (*ENDED, "CANCELING"):
                self._become(run, state)
            run["run_details"] = {"task_details": self._nodes(run, nodes)}
        return _shown(run)

    def terminate_run(self, query: dict[str, str], run_id: str) -> dict[str, Any]:
        _know(query)
        run = self._get(self.runs, run_id, "Run")
        if run["state"] in (*ENDED, "CANCELING"):
            raise No(400, f"Failed to terminate a run {run_id}. Row not found")
        run["state"] = "CANCELING"  # the history is not told
        # What is terminated is called failed in the end.
        seen_by_the_agent = [("CANCELING", {}), ("CANCELING", {})]
        run["left"] = [*(seen_by_the_agent if self.slow_to_end else []), ("FAILED", {})]
        return {}

    def retry_run(self, query: dict[str, str], run_id: str) -> dict[str, Any]:
        _know(query)
        run = self._get(self.runs, run_id, "Run")
        if run["state"] not in ENDED:
            raise No(400, f"Cannot claim run {run_id} for retry: not in a terminal state")
        self._become(run, "PENDING")
        run |= {"left": list(self.states), "finished_at": NEVER}
        if self.on_retry:
            self.on_retry, call = None, self.on_retry
            call()
        return {}

    def create_recurring_run(self, query: dict[str, str], body: Any) -> dict[str, Any]:
        _know(query)
        _through("V2beta1RecurringRun", body)
        if not body.get("display_name"):
            raise No(400, "Recurring run name is empty. Please specify a valid name")
        if not 1 <= int(body.get("max_concurrency", "0")) <= 10:
            raise No(400, "Max concurrency of a recurring run must be at least 1 and at most 10")
        cron = body["trigger"]["cron_schedule"]
        _check_cron(cron["cron"])
        for key in {"start_time", "end_time"} & set(cron):
            moment = Timestamp()
            moment.FromJsonString(cron[key])
            cron[key] = moment.ToJsonString()
        if len(body.get("description", "")) > 255:
            raise No(400, "Data too long for column 'Description'")
        experiment = self._get(self.experiments, body.get("experiment_id", ""), "Experiment")
        reference = body.get("pipeline_version_reference") or {}
        if wanted := reference.get("pipeline_version_id"):
            version = self._get(self.versions, wanted, "PipelineVersion")
        else:
            self._get(self.pipelines, reference.get("pipeline_id", ""), "Pipeline")
            mine = [
                each
                for each in self.versions.values()
                if each["pipeline_id"] == reference["pipeline_id"]
            ]
            version = max(mine, key=lambda each: each["created_at"])
        parameters = _as_kept((body.get("runtime_config") or {}).get("parameters", {}))
        _check_parameters(version["pipeline_spec"], parameters)
        if reference.get("pipeline_version_id") and body.get("plugins_input"):
            # As 2.17 (CreateJob in resource_manager.go): its runs are made without them. The
            # server itself goes on showing them.
            self.without_parameters.append(body["display_name"])
        made = self._keep(
            self.recurring,
            "recurring_run_id",
            body
            | {
                "namespace": experiment.get("namespace", ""),
                "runtime_config": {"parameters": parameters},
            },
        )
        self._switch(made, body.get("mode") == "ENABLE")
        return made

    def list_recurring_runs(self, query: dict[str, str]) -> dict[str, Any]:
        return _page("recurringRuns", self._mine(self.recurring, query), query)

    def enable_recurring_run(self, query: dict[str, str], id: str) -> dict[str, Any]:
        _know(query)
        self._switch(self._get(self.recurring, id, "Job"), True)
        return {}

    def disable_recurring_run(self, query: dict[str, str], id: str) -> dict[str, Any]:
        _know(query)
        self._switch(self._get(self.recurring, id, "Job"), False)
        return {}

    def delete_recurring_run(self, query: dict[str, str], id: str) -> dict[str, Any]:
        _know(query, "propagation_policy")
        self._get(self.recurring, id, "Job")
        del self.recurring[id]
        if query.get("propagation_policy") != "ORPHAN":
            # As 2.17: a ScheduledWorkflow is the owner of its runs' Workflows (resource_manager.go,
            # CreateRun), and Kubernetes deletes those in the background.
            self.destroyed += [
                run_id for run_id, run in self.runs.items() if run.get("recurring_run_id") == id
            ]
        return {}

    def _switch(self, recurring: dict[str, Any], is_on: bool) -> None:
        recurring["status"] = "ENABLED" if is_on else "DISABLED"
        recurring["mode"] = "ENABLE" if is_on else "DISABLE"
        active = sum(each["status"] == "ENABLED" for each in self.recurring.values())
        self.most_active = max(self.most_active, active)

    def _become(self, run: dict[str, Any], state: str) -> None:
        if run["state_history"][-1]["state"] != state:
            run["state_history"].append({"update_time": self.now(), "state": state})
        run["state"] = state
        if state in ENDED:
            run["finished_at"] = self.now()

    def _nodes(self, run: dict[str, Any], states: dict[str, str]) -> list[dict[str, Any]]:
        """A workflow's nodes: the run's own, and a driver and an executor for each step.

        A step in a loop is named by its whole place below the root. Since 2.17 each of them has
        tries below it, of which there is one here, as its manifests have Argo try all templates
        again.
        """
        named = {"root": "RUNNING", "root-driver": "SUCCEEDED"}
        for step, state in states.items():
            groups = step.split(".")[:-1]
            named |= {f"root.{'.'.join(groups[: n + 1])}": "RUNNING" for n in range(len(groups))}
            named |= {f"root.{step}-driver": "SUCCEEDED", f"root.{step}": state}
            named[f"root.{step}.executor"] = state
        named = {f"flow.{name}": state for name, state in named.items()}
        if self.tries:
            once = {"flow": "RUNNING", "flow(0)": "RUNNING"}
            for name, state in named.items():
                tried = name.replace(".", "(0).")
                once |= {tried: state, f"{tried}(0)": state}
            named = once
        return [
            {
                "run_id": run["run_id"],
                "task_id": str(uuid.uuid4()),
                "display_name": name.rpartition(".")[2],
                "create_time": run["created_at"],
                "start_time": run["created_at"],
                "end_time": self.now() if state in ENDED else NEVER,
                "state": state,
                "child_tasks": [
                    {"pod_name": _node_id(other)}
                    for other in named
                    if other.rpartition(".")[0] == name or other == f"{name}(0)"
                ],
            }
            for name, state in named.items()
        ]

    def _keep(self, where: dict[str, Any], key: str, content: Any) -> dict[str, Any]:
        content = content | {key: str(uuid.uuid4()), "created_at": self.now()}
        where[content[key]] = content
        return content

    def _get(self, where: dict[str, Any], key: str, kind: str) -> Any:
        if key not in where:
            raise No(404, f"{kind} {key} not found.")
        return where[key]

    def _mine(self, where: dict[str, Any], query: dict[str, str]) -> list[dict[str, Any]]:
        if self.multi_user and not query.get("namespace"):
            raise No(400, "Namespace cannot be empty in multi-user mode")
        wanted = query.get("namespace", "")
        return [each for each in where.values() if each.get("namespace", "") == wanted]


_ID = r"([0-9a-f-]{36})"
ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("GET", "healthz", KubeflowServer.healthz),
    ("POST", "pipelines", KubeflowServer.create_pipeline),
    ("GET", r"pipelines/names/([^/]+)", KubeflowServer.get_pipeline_by_name),
    ("GET", f"pipelines/{_ID}/versions", KubeflowServer.list_versions),
    ("GET", f"pipelines/{_ID}/versions/{_ID}", KubeflowServer.get_version),
    ("POST", "pipelines/upload_version", KubeflowServer.upload_version),
    ("POST", "experiments", KubeflowServer.create_experiment),
    ("GET", "experiments", KubeflowServer.list_experiments),
    ("POST", "runs", KubeflowServer.create_run),
    ("GET", "runs", KubeflowServer.list_runs),
    ("GET", f"runs/{_ID}", KubeflowServer.get_run),
    ("POST", f"runs/{_ID}:terminate", KubeflowServer.terminate_run),
    ("POST", f"runs/{_ID}:retry", KubeflowServer.retry_run),
    ("POST", "recurringruns", KubeflowServer.create_recurring_run),
    ("GET", "recurringruns", KubeflowServer.list_recurring_runs),
    ("POST", f"recurringruns/{_ID}:enable", KubeflowServer.enable_recurring_run),
    ("POST", f"recurringruns/{_ID}:disable", KubeflowServer.disable_recurring_run),
    ("DELETE", f"recurringruns/{_ID}", KubeflowServer.delete_recurring_run),
]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # who asked has gone away
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer takes the 40 ms of a delayed acknowledgement
    server_state: KubeflowServer

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def log_message(self, *_: object) -> None:
        return

    def _answer(self, method: str) -> None:
        state = self.server_state
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        state.seen.append((f"{method} {self.path}", self.headers))
        fault = state.faults.pop(0) if state.faults else ""
        if fault == "reset":
            self.close_connection = True
            return
        if fault == "page":
            self._send(200, b"<html>Log in</html>", "text/html")
            return
        if fault.isdigit():
            self._send(int(fault), b"upstream says no", "text/plain")
            return
        if state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
            self._send(401, b"Jwt is expired", "text/plain")
            return
        try:
            status, answer = 200, self._do(method, body)
        except No as error:
            status, text = error.status, str(error)
            if "upload" in self.path:
                answer = {"error_message": text, "error_details": text}
            else:
                answer = {"error": text, "code": CODES[status], "message": text, "details": []}
        if fault == "lost":
            self.close_connection = True
            return
        self._send(status, json.dumps(answer).encode(), "application/json")

    def _do(self, method: str, body: bytes) -> Any:
        url = urlsplit(self.path.removeprefix(PROXY))
        if not url.path.startswith("/apis/v2beta1/"):
            raise No(404, "Not Found")
        for wanted, pattern, answer in ROUTES:
            found = re.fullmatch(pattern, url.path.removeprefix("/apis/v2beta1/"))
            if found and method == wanted:
                query = dict(parse_qsl(url.query, strict_parsing=bool(url.query)))
                more = [_body(self.headers, body)] if body else []
                groups = [unquote(group) for group in found.groups()]
                return answer(self.server_state, query, *groups, *more)
        raise No(404, "Not Found")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _body(headers: Any, body: bytes) -> Any:
    if not headers["Content-Type"].startswith("multipart/form-data"):
        return json.loads(body, parse_constant=_refuse_constant)
    head = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    (part,) = message.iter_parts()
    if part.get_param("name", header="content-disposition") != "uploadfile":
        raise No(400, "Failed to read pipeline from file")
    if not (part.get_filename() or "").endswith((".yaml", ".yml", ".zip", ".tar.gz")):
        raise No(400, "Failed to read a pipeline spec file")
    return part.get_payload(decode=True)


def _refuse_constant(text: str) -> Any:
    raise No(400, f"invalid value {text}")


def _know(query: dict[str, str], *known: str) -> None:
    if unknown := set(query) - set(known):
        raise No(400, f"unknown parameter {sorted(unknown)}")


def _through(model: str, data: Any) -> None:
    """Refuses what is not of one of the API's types, as protojson does."""
    listed = re.fullmatch(r"list\[(.*)\]", model)
    mapped = re.fullmatch(r"dict\(str, (.*)\)", model)
    if data is None:
        return
    if listed:
        _must(isinstance(data, list), model, data)
        for item in data:
            _through(listed[1], item)
    elif mapped:
        _must(isinstance(data, dict), model, data)
        for item in data.values():
            _through(mapped[1], item)
    elif model in PLAIN:
        _must(type(data) is PLAIN[model] or model == "object", model, data)
    elif kind := getattr(kfp_server_api, model):
        if not kind.openapi_types:  # an enumeration
            _must(hasattr(kind, str(data)), model, data)
            return
        _must(isinstance(data, dict), model, data)
        types = {kind.attribute_map[each]: type for each, type in kind.openapi_types.items()}
        for name, value in data.items():
            _must(name in types, model, name)
            _through(types[name], value)


def _must(fits: bool, model: str, data: Any) -> None:
    if not fits:
        raise No(400, f"proto: invalid value or unknown field in {model}: {data!r}")


def _check_tags(tags: dict[str, str]) -> None:
    _through("dict(str, str)", tags)
    for key, value in tags.items():
        if not key or "." in key or len(key) > 63 or len(value) > 63:
            raise No(400, f"invalid tag {key!r}: {value!r}")


def _as_kept(parameters: Any) -> dict[str, Any]:
    """Parameters as they are kept: google.protobuf.Value, whose numbers are doubles."""
    try:
        return json_format.MessageToDict(json_format.ParseDict(parameters, struct_pb2.Struct()))
    except (json_format.ParseError, ValueError) as error:
        raise No(400, f"proto: {error}") from None


def _check_parameters(spec: dict[str, Any], parameters: dict[str, Any]) -> None:
    root = json_format.ParseDict(spec.get("pipeline_spec", spec), PipelineSpec()).root
    known = root.input_definitions.parameters
    for name, value in json_format.ParseDict(parameters, struct_pb2.Struct()).fields.items():
        if name not in known:
            raise No(400, f"parameter {name} is not an input of the pipeline")
        kind = ParameterType.ParameterTypeEnum.Name(known[name].parameter_type)
        if value.WhichOneof("kind") != KINDS[kind]:
            raise No(400, f"input parameter {name} requires type {kind}")
    for name, definition in known.items():
        if name not in parameters and not definition.is_optional:
            raise No(400, f"parameter {name} is not optional, yet has no value")


def _check_cron(text: str) -> None:
    """Refuses what robfig/cron 1.2 does not parse."""
    fields = text.split()
    limits = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
    if len(fields) not in (5, 6):
        raise No(400, f"Expected 5 to 6 fields, found {len(fields)}: {text}")
    for field_, (least, most) in zip(fields, limits, strict=False):
        for part in field_.split(","):
            numbers = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/[1-9]\d*)?", part)
            if not numbers:
                raise No(400, f"Failed to parse int from {part}")
            given = [int(number) for number in numbers.groups() if number]
            if any(not least <= number <= most for number in given) or given != sorted(given):
                raise No(400, f"out of range: {part}")


def _node_id(name: str) -> str:
    """The id that Argo gives to a node."""
    number = 2166136261
    for letter in name.encode():
        number = ((number ^ letter) * 16777619) % 2**32
    return f"flow-{number}"


def _expanded(value: Any, run_id: str) -> Any:
    """A text with what the server puts in for its macros."""
    if not isinstance(value, str):
        return value
    value = value.replace("[[RunUUID]]", run_id)
    return re.sub(r"\[\[CurrentTime(\..*?)?\]\]", "20270115080000", value)


def _shown(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name not in ("left", "namespace")}


def _page(kind: str, items: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    _know(query, "namespace", "page_token", "page_size", "sort_by", "filter", "experiment_id")
    for predicate in json.loads(query.get("filter") or "{}").get("predicates", []):
        items = [item for item in items if _fits(kind, item, predicate)]
    key, _, direction = (query.get("sort_by") or "created_at").partition(" ")
    if key not in FIELDS[kind] or direction not in ("", "asc", "desc"):
        raise No(400, f"Invalid sorting field: {key!r}")
    items = sorted(items, key=lambda item: item[key], reverse=direction == "desc")
    size = min(int(query.get("page_size") or 0) or 20, 200)
    start = 0
    if token := query.get("page_token"):
        try:
            start, of = json.loads(base64.b64decode(token, validate=True))
        except ValueError:
            raise No(400, "Invalid page token") from None
        if of != [query.get("filter"), query.get("sort_by")]:
            raise No(400, "page token does not match the sort by or filter options")
    answer: dict[str, Any] = {kind: items[start : start + size], "total_size": len(items)}
    if start + size < len(items):
        rest = [start + size, [query.get("filter"), query.get("sort_by")]]
        answer["next_page_token"] = base64.b64encode(json.dumps(rest).encode()).decode()
    return answer


def _fits(kind: str, item: dict[str, Any], predicate: dict[str, Any]) -> bool:
    if set(predicate) != {"operation", "key", "string_value"}:
        raise No(400, f"invalid predicate {predicate}")
    if predicate["key"] not in FIELDS[kind]:
        raise No(400, f"Invalid key {predicate['key']!r}")
    value, wanted = item.get(predicate["key"], ""), predicate["string_value"]
    if predicate["operation"] == "EQUALS":
        return value == wanted
    if predicate["operation"] == "IS_SUBSTRING":
        return wanted in value
    raise No(400, f"invalid operation {predicate['operation']!r}")


def _timestamp(seconds: int) -> Any:
    return Timestamp(seconds=seconds)
