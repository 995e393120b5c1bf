"""Plays the operator and the kubelet of a cluster that has none: makes pods, tells how they do."""

import copy
import os
import time
from contextlib import suppress

import pytest

from trireme.frameworks import FRAMEWORKS, kind_of
from trireme.kubernetes.errors import AlreadyThere, NotFound
from trireme.kubernetes.resources import PODS, SERVICE_ACCOUNTS, Resource

NAMESPACES = Resource("", "v1", "namespaces")
NODES = Resource("", "v1", "nodes")
EVENTS = Resource("", "v1", "events")


class Player:
    """What happens on a cluster, one thing at a time.

    Its clock goes on by ten seconds with every use.
    """

    def __init__(self, cluster, logs, node=""):
        self.cluster = cluster
        self.logs = logs
        self._node = node

    def now(self):
        return f"{self.logs.now():%Y-%m-%dT%H:%M:%SZ}"

    # The operator.

    def wait_for(self, manifest):
        """Returns the job as soon as it is there."""
        jobs, name = kind_of(manifest), manifest["metadata"]["name"]
        while True:
            try:
                return self.cluster.get(jobs, name, self.cluster.namespace)
            except NotFound:
                time.sleep(0.02)

    def condition(self, job, kind, *, status="True", reason="", message=""):
        """Adds a condition to a job, or changes it."""
        jobs, metadata = kind_of(job), job["metadata"]
        if (job["kind"], kind) == ("TrainJob", "Running"):
            # Trainer 2.3 has no such condition, only these counts of the JobSet's Jobs.
            self.now()
            counts = {"ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
            counts |= {} if status == "True" else {"ready": 0, "active": 0, "succeeded": 1}
            body = {"status": {"jobsStatus": [{"name": "node"} | counts]}}
            path = jobs.path(metadata["namespace"], metadata["name"], "status")
            return self.cluster.request("PATCH", jobs, path, body=body)
        now = self.cluster.get(jobs, metadata["name"], metadata["namespace"])
        conditions = [
            condition
            for condition in now.get("status", {}).get("conditions") or []
            if condition["type"] != kind
        ]
        new = {
            "type": kind,
            "status": status,
            "reason": reason or kind,
            "message": message,
            "lastTransitionTime": self.now(),
        }
        # Terminal ones first in the list: their place must not matter.
        body = {"status": {"conditions": [new, *conditions]}}
        if job["kind"] not in ("TrainJob",):
            body["status"]["replicaStatuses"] = {}
        path = jobs.path(metadata["namespace"], metadata["name"], "status")
        return self.cluster.request("PATCH", jobs, path, body=body)

    def pod(self, job, role, index=0, *, restart="Never", memory="", suffix=""):
        """Makes a pod of a job; returns its name."""
        metadata, kind = job["metadata"], kind_of(job)
        labels = {kind.job_label: metadata["name"]}
        if kind.replicas:
            labels["training.kubeflow.org/replica-type"] = role
            labels["training.kubeflow.org/replica-index"] = str(index)
        elif job["spec"]["runtimeRef"].get("kind") == "TrainingRuntime":  # ours
            labels["jobset.sigs.k8s.io/replicatedjob-name"] = role
            labels["jobset.sigs.k8s.io/job-index"] = str(index)
            labels["batch.kubernetes.io/job-completion-index"] = "0"
            labels["trireme.dev/role"] = role
        else:
            labels["jobset.sigs.k8s.io/replicatedjob-name"] = role
            labels["batch.kubernetes.io/job-completion-index"] = str(index)
        name = f"{metadata['name']}-{role}-{index}{suffix}"
        container = {"name": kind.container, "image": "example.org/train"}
        if memory:
            container["resources"] = {"limits": {"memory": memory}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": labels,
                "ownerReferences": [
                    {
                        "apiVersion": job["apiVersion"],
                        "kind": job["kind"],
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "restartPolicy": restart,
                "automountServiceAccountToken": False,
                "containers": [container],
            },
        }
        if self._node:
            pod["spec"]["nodeName"] = self._node
        self.cluster.create(PODS, pod, metadata["namespace"])
        return name

    def event(self, thing, reason, message, *, kind="Warning"):
        """Records an Event about an object."""
        metadata = thing["metadata"]
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{time.monotonic_ns()}"},
            "involvedObject": {
                "kind": thing.get("kind", "Pod"),
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "lastTimestamp": self.now(),
        }
        self.cluster.create(EVENTS, event, metadata["namespace"])

    # The kubelet.

    def get(self, pod):
        return self.cluster.get(PODS, pod, self.cluster.namespace)

    def set(self, pod, **status):
        """Sets fields of a pod's status."""
        path = PODS.path(self.cluster.namespace, pod, "status")
        self.cluster.request("PATCH", PODS, path, body={"status": status})

    def run(self, pod):
        """Has a pod run."""
        self._container(pod, "Running", {"running": {"startedAt": self.now()}})

    def exit(self, pod, code, *, reason="", message="", phase="", at=""):
        """Has a pod's container end, and with it the pod."""
        self.logs.end(pod)
        ended = self._ended(pod, code, reason, message, at)
        phase = phase or ("Failed" if code else "Succeeded")
        self._container(pod, phase, {"terminated": ended})

    def restart(self, pod, code, meanwhile=lambda: None):
        """Has a pod's container end and start anew."""
        status = self.get(pod)["status"]["containerStatuses"][0]
        ended = self._ended(pod, code)
        self.logs.restart(pod)
        state = {"running": {"startedAt": self.now()}}
        meanwhile()  # it takes the kubelet some time to tell
        count = status["restartCount"] + 1
        last = {"terminated": ended}
        self._container(pod, "Running", state, restartCount=count, lastState=last)

    def back_off(self, pod, code):
        """Has a pod's container end and start anew after a while, as from the second time on.

        While it waits its status has the end as the last state already, and the count of before:
        convertToAPIContainerStatuses in pkg/kubelet/kubelet_pods.go of Kubernetes 1.36.
        """
        ended = {"terminated": self._ended(pod, code)}
        self.logs.restart(pod)
        self._container(pod, "Running", ended)
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        self._container(pod, "Running", waiting, lastState=ended)
        count = self.get(pod)["status"]["containerStatuses"][0]["restartCount"] + 1
        state = {"running": {"startedAt": self.now()}}
        self._container(pod, "Running", state, restartCount=count, lastState=ended)

    def end(self, pod, at=""):
        """Has a pod on a node deleted, which gets 30 seconds to end; the stand-in knows when."""
        options = {"gracePeriodSeconds": 30, "at": at}
        path = PODS.path(self.cluster.namespace, pod)
        self.cluster.request("DELETE", PODS, path, body=options)

    def remove(self, pod):
        """Has a pod gone, at once."""
        self.logs.end(pod)
        options = {"gracePeriodSeconds": 0}
        path = PODS.path(self.cluster.namespace, pod)
        self.cluster.request("DELETE", PODS, path, body=options)

    def _ended(self, pod, code, reason="", message="", at=""):
        state = self.get(pod)["status"]["containerStatuses"][0]["state"]
        started = state.get("running", {}).get("startedAt") or self.now()
        return {
            "exitCode": code,
            "reason": reason or ("Error" if code else "Completed"),
            "message": message,
            "startedAt": started,
            "finishedAt": at or self.now(),
        }

    def _container(self, pod, phase, state, **more):
        known = self.get(pod)
        before = (known.get("status", {}).get("containerStatuses") or [{}])[0]
        container = {
            "name": known["spec"]["containers"][0]["name"],
            "image": "example.org/train",
            "imageID": "",
            "ready": "running" in state,
            "restartCount": before.get("restartCount", 0),
            "lastState": before.get("lastState", {}),
            "state": state,
        } | more
        self.set(pod, phase=phase, containerStatuses=[container])


def manifests():
    """Returns a job of every kind, with two replicas."""
    # Where a cluster has operators they are to leave these jobs to the tests.
    policy = {"managedBy": "kueue.x-k8s.io/multikueue"}

    def of(framework):
        image = {"image": "example.org/train", "command": ["train"]}
        template = {"spec": {"containers": [{"name": framework.kind.container} | image]}}
        titles = [role.capitalize() for role in ROLES[framework.kind.name]]
        roles = {
            title: {
                "replicas": titles.count(title),
                "restartPolicy": "Never",
                "template": copy.deepcopy(template),
            }
            for title in titles
        }
        return {
            "apiVersion": framework.kind.api_version,
            "kind": framework.kind.name,
            "spec": {"runPolicy": dict(policy), framework.kind.replicas: roles},
        }

    made = {framework.kind.name: of(framework) for framework in FRAMEWORKS.values()} | {
        "TrainJob": {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "spec": policy
            | {
                "runtimeRef": {"name": "torch-distributed"},
                "trainer": {"numNodes": 2, "image": "example.org/train"},
            },
        },
    }
    for manifest in made.values():
        manifest["metadata"] = {
            "name": "digits",
            "labels": {"app.kubernetes.io/managed-by": "trireme"},
        }
    return made


REAL = os.environ.get("TRIREME_TEST_KUBECONFIG") or os.environ.get("KUBECONFIG")
"""The kubeconfig of a real cluster, taken before any test changes it."""

STANDS_IN = pytest.mark.parametrize("cluster", ["stand-in"], indirect=True)
"""Marks a test that has to see, or disturb, what the API server is asked."""

ROLES = {
    framework.kind.name: (framework.roles[0].name, "worker") for framework in FRAMEWORKS.values()
} | {"TrainJob": ("node", "node")}
"""The roles of the two replicas of each of these jobs; some differ by index."""


def make_namespace(cluster):
    """Makes the cluster's namespace, ready for pods."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace}}
    cluster.create(NAMESPACES, body)
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default"},
    }
    with suppress(AlreadyThere):  # a controller was faster
        cluster.create(SERVICE_ACCOUNTS, account, cluster.namespace)


def remove_namespace(cluster):
    cluster.request("DELETE", NAMESPACES, NAMESPACES.path(name=cluster.namespace))


def make_node(cluster, name, port):
    """Makes a node whose kubelet listens on a port of this machine."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}}
    cluster.create(NODES, body)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    path = NODES.path(name=name, subresource="status")
    cluster.request("PATCH", NODES, path, body={"status": status})


def remove_node(cluster, name):
    cluster.request("DELETE", NODES, NODES.path(name=name))
