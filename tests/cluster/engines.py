"""The engines of a cluster, each as its users meet it: by the command line."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import place as places

LIMIT = 1500  # seconds that a command may take
ENDED = ("FINISHED", "FAILED", "KILLED")
JOBS = [
    f"{kind}.kubeflow.org" for kind in ("pytorchjobs", "tfjobs", "mpijobs", "trainjobs.trainer")
]


@dataclass
class Done:
    """What a command did."""

    status: int
    output: str


class Command:
    """The command line, on a cluster."""

    words: tuple[str, ...] = ()

    def __init__(self, place, tracking, home, images):
        from mlflow import MlflowClient  # which takes seconds that other tests need not wait

        self.place, self.client, self.home = place, MlflowClient(tracking), home
        self.tracking = {"MLFLOW_TRACKING_URI": tracking}
        self.images = ("--images", images) if images else ()

    @classmethod
    def set_up(cls, place, password):
        """Makes what its runs need besides a place; once for all processes."""

    @classmethod
    def tear_down(cls, place):
        """Takes away what ``set_up`` has made."""

    @property
    def namespace(self):
        """Where its pods are."""
        return self.place.namespace

    def start(self, *words):
        """Starts a command, and lets it go on."""
        own = {"HOME": str(self.home), "TRIREME_HOME": str(self.home / "trireme")}
        return subprocess.Popen(
            [sys.executable, "-m", "trireme", *words],
            env=os.environ | own | self.tracking | {"COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self, process):
        """Waits for a command to end."""
        try:
            output = process.communicate(timeout=LIMIT)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0]
            raise AssertionError(f"after {LIMIT} s it goes on:\n{output}") from None
        return Done(process.returncode, output)

    def command(self, *words, status=0):
        """Returns what a command prints that ends with this status."""
        done = self.ended(self.start(*words, *self.words))
        assert done.status == status, f"{' '.join(words)} ended with {done.status}:\n{done.output}"
        return done.output

    def objects(self, *kinds, words=()):
        """Returns the objects of some kinds in the namespace, the oldest first."""
        get = ("get", ",".join(kinds), "--sort-by=.metadata.creationTimestamp", *words)
        listing = places.kubectl(*get, "--output", "json", namespace=self.namespace)
        return json.loads(listing)["items"]

    def pods(self, *words):
        """Returns the pods of the namespace, chosen by kubectl's words."""
        return self.objects("pods", words=words)


class Engine(Command):
    """An engine of pipelines."""

    name = ""
    """As ``--target`` has it."""

    def begin(self, pipeline="pytorch-training", *words, **parameters):
        """Starts a run; returns its name."""
        given = self._given(pipeline, words, parameters)
        return self.named(self.command("run", *given, "--no-wait"))

    def run(self, pipeline="pytorch-training", *words, status=0, **parameters):
        """Runs a pipeline to its end; returns the run's name and what was printed."""
        output = self.command("run", *self._given(pipeline, words, parameters), status=status)
        return self.named(output), output

    def named(self, output):
        """Returns the name of the run that a command has started."""
        found = re.search(r"^(\S+) started$", output, re.MULTILINE)
        assert found, output
        return found[1]

    def state(self, run):
        """Returns how a run is, as ``trireme status`` has it."""
        return re.search(rf"^{re.escape(run)}: (\w+),", self.command("status", run), re.M)[1]

    def steps(self, run):
        """Returns how the steps of a run are, by name."""
        lines = self.command("status", run).splitlines()
        # One that Kubeflow had in its cache took no seconds.
        found = (re.fullmatch(r"(\S+) +(\w+)( +\d+.*)?", line.rstrip()) for line in lines)
        return {each[1]: each[2] for each in found if each}

    def said(self, run, step):
        """Returns what a step has printed; nothing if it has not begun."""
        return self.ended(self.start("logs", run, "--step", step, *self.words)).output

    def workflow(self, run):
        """Returns the name of a run's Workflow."""
        raise NotImplementedError

    def pod_of(self, run, step):
        """Returns the name of the pod of a step that runs; nothing if there is none."""
        # An attempt is a node of its own, and Kubeflow's do their work in one called executor.
        of_the_step = re.compile(rf".*\.{step}(\(\d+\))?(\.executor(\(\d+\))?)?")
        for pod in self.pods("--selector", f"workflows.argoproj.io/workflow={self.workflow(run)}"):
            node = pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"]
            if pod["status"]["phase"] == "Running" and of_the_step.fullmatch(node):
                return pod["metadata"]["name"]
        return ""

    def jobs(self, run):
        """Returns kind and name of the training jobs of a run that are there."""
        workflow = self.workflow(run)
        return [
            (job["kind"], job["metadata"]["name"])
            for job in self.objects(*filter(places.serves, JOBS))
            if workflow in (owner["name"] for owner in job["metadata"].get("ownerReferences", []))
        ]

    def runs_of(self, schedule):
        """Returns the names of a schedule's runs, the oldest first."""
        raise NotImplementedError

    def ended_of(self, schedule):
        """Returns the names of a schedule's runs that have ended, the oldest first."""
        return [run for run in self.runs_of(schedule) if self.state(run) in ENDED]

    def recorded(self, run):
        """Returns a run's record in MLflow, and those of its steps by name."""
        ids = [each.experiment_id for each in self.client.search_experiments()]
        whole = [
            each
            for each in self.client.search_runs(ids, f"attributes.run_name = '{run}'")
            if "mlflow.parentRunId" not in each.data.tags
        ]
        assert len(whole) == 1, f"MLflow has {len(whole)} runs called {run}"
        above = f"tags.mlflow.parentRunId = '{whole[0].info.run_id}'"
        return whole[0], {each.info.run_name: each for each in self.client.search_runs(ids, above)}

    def _given(self, pipeline, words, parameters):
        pairs = (
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in parameters.items()
        )
        return [pipeline, *words, *self.images, *(word for pair in pairs for word in ("-p", pair))]


class Argo(Engine):
    """Argo Workflows."""

    name = "argo"

    @classmethod
    def lacking(cls):
        """Returns what the cluster lacks."""
        return "" if places.serves("workflows.argoproj.io") else "Argo Workflows"

    @property
    def words(self):
        return ("--target", "argo", "--namespace", self.namespace)

    def workflow(self, run):
        return run

    def runs_of(self, schedule):
        label = ("--selector", f"workflows.argoproj.io/cron-workflow={schedule}")
        return [each["metadata"]["name"] for each in self.objects("workflows", words=label)]


class Kubeflow(Engine):
    """Kubeflow Pipelines."""

    name = "kfp"

    @classmethod
    def lacking(cls):
        """Returns what the cluster lacks."""
        return "" if places.serves("scheduledworkflows.kubeflow.org") else "Kubeflow Pipelines"

    words = ("--target", "kfp")
    namespace = os.environ.get("KFP_NAMESPACE", "kubeflow")

    @classmethod
    def set_up(cls, place, password):
        """Gives the runs in Kubeflow's namespace their rights and the way to a place's MLflow."""
        ours = places.rendered("overlays/kubeflow-single-user/runs", cls.namespace)
        made = [each for each in ours if each["kind"].startswith("Role")]
        (account,) = (
            each["subjects"]
            for each in made
            if (each["kind"], each["metadata"]["name"]) == ("RoleBinding", "trireme-launcher")
        )
        made.append(places.credentials(place, password))
        for each in made:
            each["metadata"] |= {"labels": {places.LABEL: place}}
            if "subjects" in each:
                each["subjects"] = account
        places.create(cls.namespace, *made)

    @classmethod
    def tear_down(cls, place):
        """Takes away what ``set_up`` has made."""
        made = ("delete", "role,rolebinding,secret", "--selector", f"{places.LABEL}={place}")
        places.kubectl(*made, namespace=cls.namespace)
        deployed = ("delete", "deployment,service", f"served-{cls.name}", "--ignore-not-found")
        places.kubectl(*deployed, namespace=cls.namespace)

    @cache  # noqa: B019 - a run's stays the same, and to ask takes seconds
    def workflow(self, run):
        run_id = re.search(r"Id +(\S+)", self.command("status", run))[1]
        (found,) = self.objects("workflows", words=("--selector", f"pipeline/runid={run_id}"))
        return found["metadata"]["name"]

    def runs_of(self, schedule):
        return [
            each["metadata"]["name"]  # as the run is called
            for each in self.objects("workflows")
            for owner in each["metadata"].get("ownerReferences", [])
            if owner["kind"] == "ScheduledWorkflow" and owner["name"].startswith(schedule)
        ]


class TrainingOperator(Command):
    """The training operator and, if it is there, the MPI operator."""

    operator = "training-operator"

    @classmethod
    def lacking(cls):
        """Returns what the cluster lacks."""
        return "" if places.serves("pytorchjobs.kubeflow.org") else "training operator"

    @property
    def words(self):
        return ("--namespace", self.namespace)


class Trainer(TrainingOperator):
    """Kubeflow Trainer v2."""

    operator = "trainer"

    @classmethod
    def lacking(cls):
        """Returns what the cluster lacks."""
        return "" if places.serves("trainjobs.trainer.kubeflow.org") else "Kubeflow Trainer"
