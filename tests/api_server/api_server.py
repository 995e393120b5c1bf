"""A small Kubernetes API server for tests, which also fails in the ways that real ones do."""

import json
import re
import socket
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from kubelet import Logs, serve_chunks

from trireme.frameworks import KINDS
from trireme.frameworks.kinds import QUEUE

JOBS = {kind.plural: kind.name for kind in KINDS.values()}
PLURALS = JOBS | {
    "trainingruntimes": "TrainingRuntime",
    "pods": "Pod",
    "events": "Event",
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "serviceaccounts": "ServiceAccount",
    "services": "Service",
    "priorityclasses": "PriorityClass",
    "resourcequotas": "ResourceQuota",
    "limitranges": "LimitRange",
    "nodes": "Node",
    "namespaces": "Namespace",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}
"""What is there from the beginning; more can be installed."""
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
_PROXIED = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/services/http:(?P<name>[^/:]+):(?P<port>\d+)/proxy(?P<path>/.*)"
)
_GROUP = re.compile(r"/apis/(?P<group>[^/]+)/(?P<version>[^/]+)")
SUBRESOURCES = ("status", "log")
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


def granted(rules):
    """Returns what a Role's rules allow, as (API group, resource, verb)."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Answer(Exception):
    """An answer other than 200 with an object."""

    def __init__(self, code, message, reason="", details=None, headers=None):
        self.code = code
        self.headers = headers or {}
        self.status = {
            "kind": "Status",
            "code": code,
            "message": message,
            "reason": reason,
            "details": details or {},
        }


@dataclass
class Fault:
    """What is to go wrong with requests of a method whose path matches a pattern."""

    method: str
    part: str
    times: int
    code: int = 0  # the answer; with 0 there is none, and the connection is closed
    late: float = 0.0  # seconds until the answer
    after: bool = False  # the request is carried out all the same
    headers: dict | None = None
    message: str = "something is wrong"
    text: str | None = None  # the answer, where it is no Status
    details: dict | None = None


class ApiServer:
    """Keeps objects as a Kubernetes API server does."""

    def __init__(self, logs: Logs):
        self.logs = logs
        self.plurals = dict(PLURALS)
        self.token = "first"
        self.faults = []
        self.username = "kubernetes-admin"
        self.denied = set()
        self.limited = {}  # the rules of a Role, by the token of who has that and nothing more
        self.used = set()  # what those have done, as (API group, resource, verb)
        self.requests = []
        self.metrics = None  # the use of each container that runs; None: no metrics server
        self.queued = set()  # the plurals of the kinds that Kueue manages
        self.watches = 0
        self._changed = threading.Condition()
        self._objects = {}
        self._seen = set()
        self._history = []
        self._version = 100
        self._oldest = 0
        self._drops = 0
        self._port = 0
        self._connections = set()
        self.create(
            {"plural": "namespaces", "namespace": ""}, {"metadata": {"name": "team"}}, dry=False
        )
        self.up()

    # What goes wrong.

    def fail(self, method, part, times=1, code=0, **more):
        self.faults.append(Fault(method, part, times, code, **more))

    def drop_watches(self):
        with self._changed:
            self._drops += 1
            self._changed.notify_all()

    def compact(self):
        """Forgets all versions up to now, as etcd does after some minutes."""
        with self._changed:
            self._version += 1
            self._oldest = self._version

    def down(self):
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def up(self):
        api = self

        class Handler(_Handler):
            server_api = api

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self._server = Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self._port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    # What is asked for.

    def create(self, place, body, dry, rules=None):
        if place["plural"] == "selfsubjectaccessreviews":
            asked = body["spec"]["resourceAttributes"]
            part = f"/{asked['subresource']}" if asked["subresource"] else ""
            allowed = f"{asked['verb']} {asked['resource']}{part}" not in self.denied
            if rules is not None:
                right = (asked["group"], f"{asked['resource']}{part}", asked["verb"])
                allowed = right in granted(rules)
            return body | {"status": {"allowed": allowed}}
        if place["plural"] == "selfsubjectreviews":
            return body | {"status": {"userInfo": {"username": self.username}}}
        if place["plural"] == "localsubjectaccessreviews":
            asked = body["spec"]["resourceAttributes"]
            part = f"/{asked['subresource']}" if asked["subresource"] else ""
            right = (asked["group"], f"{asked['resource']}{part}", asked["verb"])
            rules = self._rules_of(body["spec"]["user"], place["namespace"])
            return body | {"status": {"allowed": right in granted(rules)}}
        metadata = body["metadata"]
        key = (place["plural"], place["namespace"], metadata["name"])
        with self._changed:
            if key in self._objects:
                what = {"name": metadata["name"], "kind": place["plural"]}
                message = f'{place["plural"]} "{metadata["name"]}" already exists'
                raise Answer(409, message, "AlreadyExists", what)
            if not body.get("spec") and place["plural"] in ("pods", *JOBS):
                raise Answer(422, f"{body['kind']} is invalid: spec: Required value", "Invalid")
            runtime = body.get("spec", {}).get("runtimeRef", {})
            if runtime.get("kind") == "TrainingRuntime" and not self._sees(place, runtime):
                # Trainer v2.3.0 pkg/runtime/core/trainingruntime.go, ValidateObjects
                webhook = "validator.trainjob.trainer.kubeflow.org"
                why = (
                    "spec.runtimeRef: specified trainingRuntime must be created before the "
                    "TrainJob is created"
                )
                if "trainjobs" in self.queued:
                    # Kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go
                    webhook, why = "vtrainjob.kb.io", f"runtime '{runtime['name']}' not found"
                raise Answer(403, f'admission webhook "{webhook}" denied the request: {why}')
            if place["plural"] in self.queued and QUEUE in metadata.get("labels", {}):
                # Kueue v0.19.2 pkg/controller/jobframework/defaults.go
                spec = body["spec"]
                spec = spec if place["plural"] == "trainjobs" else spec["runPolicy"]
                spec["suspend"] = True
            if dry:
                return body
            metadata |= {
                "namespace": place["namespace"],
                "uid": str(uuid.uuid4()),
                "creationTimestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            }
            return self._store("ADDED", key, body)

    def _rules_of(self, user, namespace):
        """Returns the rules of the Roles that are bound to a service account."""
        account = {"kind": "ServiceAccount", "namespace": namespace, "name": user.split(":")[-1]}
        there = self._objects.items()
        bindings = [it for key, it in there if key[:2] == ("rolebindings", namespace)]
        names = [it["roleRef"]["name"] for it in bindings if account in it["subjects"]]
        roles = [self._objects[("roles", namespace, name)] for name in names]
        return [rule for role in roles for rule in role["rules"]]

    def _sees(self, place, runtime):
        """Trainer's webhook asks a cache, which a runtime made just before is not in yet."""
        key = ("trainingruntimes", place["namespace"], runtime["name"])
        was_seen = key in self._seen
        self._seen |= self._objects.keys() & {key}
        return was_seen

    def get(self, place):
        with self._changed:
            return self._objects[self._key(place)]

    def is_there(self, place):
        with self._changed:
            return (place["plural"], place["namespace"], place["name"]) in self._objects

    def list(self, place, query):
        with self._changed:
            items = [
                thing
                for key, thing in self._objects.items()
                if key[0] == place["plural"]
                and place["namespace"] in ("", key[1])
                and _selected(thing, query)
            ]
            version = {"resourceVersion": str(self._version)}
            # In pages where they are asked for, as Kubernetes 1.36.2 does.
            of_version, _, began = query.get("continue", f"{self._version}:0").partition(":")
            if int(of_version) < self._oldest:
                message = "The provided continue parameter is too old to display a consistent list"
                raise Answer(410, message, "Expired")
            end = int(began) + int(query.get("limit", len(items)))
            more = {"continue": f"{of_version}:{end}"} if end < len(items) else {}
            return {"kind": "List", "metadata": version | more, "items": items[int(began) : end]}

    def pod_metrics(self, place, query):
        """Returns what containers use, as metrics-server 0.9.0 does (pkg/api/pod.go).

        It has the pods' labels, and leaves out the pods that do not run.
        """
        at = f"{self.logs.now():%Y-%m-%dT%H:%M:%SZ}"
        running = [
            pod
            for pod in self.list(place, query)["items"]
            if pod.get("status", {}).get("phase") == "Running"
        ]
        items = [
            {
                "metadata": {
                    "name": pod["metadata"]["name"],
                    "namespace": pod["metadata"]["namespace"],
                    "creationTimestamp": at,
                    "labels": pod["metadata"]["labels"],
                },
                "timestamp": at,
                "window": "10s",
                "containers": [
                    {"name": each["name"], "usage": self.metrics}
                    for each in pod["spec"]["containers"]
                ],
            }
            for pod in running
        ]
        return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items}

    def patch(self, place, body):
        with self._changed:
            key = self._key(place)
            if place["sub"] == "status":
                body = {"status": body["status"]}
            return self._store("MODIFIED", key, _merged(self._objects[key], body))

    def replace(self, place, body):
        with self._changed:
            key = self._key(place)
            versions = [each["metadata"]["resourceVersion"] for each in (self._objects[key], body)]
            if versions[0] != versions[1]:
                raise Answer(409, "the object has been modified", "Conflict")
            return self._store("MODIFIED", key, body)

    def delete(self, place, options):
        with self._changed:
            key = self._key(place)
            thing = self._objects[key]
            uid = (options.get("preconditions") or {}).get("uid", thing["metadata"]["uid"])
            if uid != thing["metadata"]["uid"]:
                raise Answer(409, "the UID in the precondition does not match", "Conflict")
            if place["plural"] == "pods" and options.get("gracePeriodSeconds"):
                # As a pod on a node goes: it is over when the kubelet has said so.
                grace = options["gracePeriodSeconds"]
                asked = options.get("at")
                at = datetime.fromisoformat(asked) if asked else self.logs.now()
                at += timedelta(seconds=grace)
                going = {"deletionTimestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
                going["deletionGracePeriodSeconds"] = grace
                return self._store("MODIFIED", key, _merged(thing, {"metadata": going}))
            if options.get("propagationPolicy") == "Foreground":
                going = {"deletionTimestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
                self._store("MODIFIED", key, _merged(thing, {"metadata": going}))
                if place["plural"] == "trainjobs":
                    # The garbage collector deletes the JobSet, and Trainer 2.3 makes it again as
                    # long as there is the TrainJob, which waits for it to be gone.
                    return self._objects[key]
            for other, owned in list(self._objects.items()):
                owners = owned["metadata"].get("ownerReferences", [])
                if options.get("propagationPolicy") == "Orphan":
                    continue
                if any(owner["uid"] == uid for owner in owners):
                    self._remove(other)
            waits = options.get("propagationPolicy") == "Foreground"
            if (
                waits
                and thing.get("spec", {}).get("runtimeRef", {}).get("kind") == "TrainingRuntime"
            ):
                # Trainer v2.3.0: its webhook refuses a change to a TrainJob without its runtime,
                # the end of its deletion as well.
                return thing
            self._remove(key)
            return {"kind": "Status", "status": "Success"}

    def watch(self, place, query):
        version = int(query["resourceVersion"])
        limit = time.monotonic() + float(query["timeoutSeconds"])
        drops = self._drops
        self.watches += 1
        while time.monotonic() < limit:
            with self._changed:
                if version < self._oldest:
                    status = {"kind": "Status", "code": 410, "message": "too old resource version"}
                    yield json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
                    return
                fresh = [entry for entry in self._history if entry[0] > version]
                if not fresh:
                    self._changed.wait(0.2)
                if self._drops != drops:
                    raise ConnectionError
            for version, kind, key, thing in fresh:  # noqa: B007
                if key[:2] == (place["plural"], place["namespace"]) and _selected(thing, query):
                    yield json.dumps({"type": kind, "object": thing}).encode() + b"\n"

    def _key(self, place):
        key = (place["plural"], place["namespace"], place["name"])
        if key not in self._objects:
            what = {"name": place["name"], "kind": place["plural"]}
            message = f'{place["plural"]}.{place["group"]} "{place["name"]}" not found'
            raise Answer(404, message, "NotFound", what)
        return key

    def _store(self, kind, key, thing):
        self._version += 1
        thing = json.loads(json.dumps(thing))
        thing["metadata"]["resourceVersion"] = str(self._version)
        self._objects[key] = thing
        self._history.append((self._version, kind, key, thing))
        self._changed.notify_all()
        return thing

    def _remove(self, key):
        thing = self._objects[key]
        self._store("DELETED", key, thing)
        del self._objects[key]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_api: ApiServer

    def setup(self):
        super().setup()
        self.server_api._connections.add(self.connection)

    def finish(self):
        self.server_api._connections.discard(self.connection)
        super().finish()

    def _do(self):
        api, url = self.server_api, urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        api.requests.append((self.command, self.path))
        fault = self._fault()
        if fault and fault.late and not fault.after:
            time.sleep(fault.late)
            fault = None
        if fault and not fault.after:
            if not fault.code:
                self.close_connection = True
                return
            if fault.text is not None:
                self._send_text(fault.code, fault.text)
                return
            status = {"message": fault.message, "details": fault.details or {}}
            self._send(fault.code, body if fault.code < 300 else status, fault.headers)
            return
        try:
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            if token != api.token and token not in api.limited:
                raise Answer(401, "Unauthorized", "Unauthorized")
            if service := _PROXIED.fullmatch(url.path):
                self._proxy(service, body)
                return
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            answer = self._carry_out(url.path, query, body, api.limited.get(token))
        except Answer as no:
            self._send(no.code, no.status, no.headers)
            return
        if fault:
            time.sleep(fault.late)
            self.close_connection = True
        elif answer is not None:
            self._send(200, answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _do  # noqa: N815

    def _fault(self):
        for fault in self.server_api.faults:
            if fault.times and fault.method == self.command and re.search(fault.part, self.path):
                fault.times -= 1
                return fault
        return None

    def _carry_out(self, path, query, body, rules):
        api, match = self.server_api, _PATH.fullmatch(path)
        place = match and match.groupdict(default="")
        if place and rules is not None and place["plural"] != "selfsubjectaccessreviews":
            self._authorize(place, query, rules)
        if group := _GROUP.fullmatch(path):
            served = [
                {"name": kind.plural, "kind": kind.name, "namespaced": True}
                for kind in KINDS.values()
                if (kind.group, kind.version) == group.groups() and kind.plural in api.plurals
            ]
            if served:
                return {"kind": "APIResourceList", "resources": served}
        reviews = ("selfsubjectreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews")
        known = {*api.plurals, *reviews}
        measures = place and place["group"] == "metrics.k8s.io"
        if measures and api.metrics:
            return api.pod_metrics(place, query)
        if not place or place["plural"] not in known or measures:
            self._send_text(404, "404 page not found\n")
            return None
        if self.command == "POST":
            return api.create(place, body, "dryRun" in query, rules)
        if self.command == "PATCH":
            if "apply-patch" in self.headers["Content-Type"] and not api.is_there(place):
                return api.create(place, body, "dryRun" in query)
            return api.patch(place, body)
        if self.command == "PUT":
            return api.replace(place, body)
        if self.command == "DELETE":
            return api.delete(place, body)
        if place["sub"] == "log":
            api.get(place)
            try:
                serve_chunks(self, _prefetched(api.logs.serve(place["name"], query)))
            except LookupError as error:
                raise Answer(400, str(error), "BadRequest") from None
            return None
        if place["name"]:
            return api.get(place)
        if "watch" in query:
            serve_chunks(self, api.watch(place, query))
            return None
        return api.list(place, query)

    def _proxy(self, service, body):
        """Passes a request on to a Service, which is this machine, without who has sent it."""
        self.server_api.get({"plural": "services"} | service.groupdict())
        kept_back = ("Authorization", "Content-Length")
        headers = {name: it for name, it in self.headers.items() if name not in kept_back}
        connection = HTTPConnection("127.0.0.1", int(service["port"]))
        connection.request(self.command, service["path"], json.dumps(body), headers)
        answer = connection.getresponse()
        self._send_bytes(answer.status, answer.read(), "application/json", None)
        connection.close()

    def _authorize(self, place, query, rules):
        verb = _VERBS.get(self.command) or ("get" if place["name"] else "list")
        if "watch" in query:
            verb = "watch"
        right = (place["group"], "/".join(filter(None, [place["plural"], place["sub"]])), verb)
        if right not in granted(rules):
            raise Answer(403, f"cannot {verb} resource {right[1]}", "Forbidden")
        self.server_api.used.add(right)

    def _send(self, code, thing, headers=None):
        self._send_bytes(code, json.dumps(thing).encode(), "application/json", headers)

    def _send_text(self, code, text):
        self._send_bytes(code, text.encode(), "text/plain", None)

    def _send_bytes(self, code, data, kind, headers):
        self.send_response(code)
        for name, value in ({"Content-Type": kind} | (headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def _prefetched(chunks):
    """Has what is wrong with the first chunk raised now."""
    first = next(chunks, b"")

    def again():
        yield first
        yield from chunks

    return again()


def _selected(thing, query):
    labels = thing["metadata"].get("labels", {})
    for selector in filter(None, query.get("labelSelector", "").split(",")):
        name, compared, value = selector.partition("=")
        if name not in labels or (compared and labels[name] != value):
            return False
    for selector in filter(None, query.get("fieldSelector", "").split(",")):
        path, compared, value = re.split("(!=|=)", selector, maxsplit=1)
        at = thing
        for part in path.split("."):
            at = at.get(part, {})
        if (at == value) is (compared == "!="):
            return False
    return True


def _merged(thing, patch):
    if not isinstance(patch, dict) or not isinstance(thing, dict):
        return patch
    merged = dict(thing)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name, {}), value)
    return merged
