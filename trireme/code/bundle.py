"""Code that is on no server: one commit as a git pack, which travels to a cluster and is recorded.

``bundle://configmap/COMMIT`` is in a ConfigMap of the run's namespace, ``bundle://mlflow/COMMIT``
with a run in MLflow. What has been fetched is the commit or is refused: git checks all hashes.
"""

import base64
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trireme.code import shadow, snapshot, tree
from trireme.code import url as urls
from trireme.code.command import git, must
from trireme.errors import InputError
from trireme.text.say import say
from trireme.text.units import in_words

if TYPE_CHECKING:
    from trireme.kubernetes.connection import Cluster

LIMIT = 100 << 20  # bytes
CONFIG_MAP_LIMIT = 700_000  # bytes; base64 makes a third more of them, and 1 MiB is the most

FILE = "code.pack"
TAG = "git.bundle"
"""The tag of runs in MLflow that have a bundle, and of their artifacts its name."""

EXPERIMENT = "trireme-code"
"""Where MLflow keeps bundles before the runs that they are for have records."""

CONFIG_MAP, MLFLOW = "configmap", "mlflow"


class Bundle(NamedTuple):
    """A commit, the pack that holds it, and where it is kept."""

    commit: str
    content: bytes
    place: str

    @property
    def url(self) -> str:
        """The code_url that stands for it."""
        return str(urls.Bundle(self.place, self.commit))

    def __str__(self) -> str:
        """Returns where it is kept, and how large it is."""
        places = {CONFIG_MAP: f"the ConfigMap {config_map(self.commit)}", MLFLOW: "MLflow"}
        return f"{self.commit[:12]}, {in_words(len(self.content))} in {places[self.place]}"


def config_map(commit: str) -> str:
    """Returns the name of the ConfigMap that a commit is in."""
    return f"trireme-code-{commit}"


def pack(repository: Path, commit: str, file: Path) -> bool:
    """Writes a commit, without its history, to a file; returns False where that is too large."""
    named = ("rev-list", "--objects", "--no-walk")
    size = must("measure it", git(*named, "--disk-usage", commit, at=repository))
    if int(size) > LIMIT:
        return False
    objects = must("list it", git(*named, commit, at=repository))
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        command = ("pack-objects", "--quiet", f"{folder}/code")
        name = must("pack it", git(*command, at=repository, stdin=objects)).strip()
        Path(folder, f"code-{name}.pack").rename(file)
    return True


@contextmanager
def fetched(place: str, commit: str) -> Iterator[Path]:
    """Gives a bare repository with a commit from where it is kept, its HEAD."""
    with tempfile.TemporaryDirectory(prefix="trireme-code-") as folder:
        repository = Path(folder, "repository")
        must("make it", git("init", "--quiet", "--bare", "--template=", str(repository)))
        file = repository / "objects/pack/pack-code.pack"
        file.parent.mkdir(parents=True, exist_ok=True)
        _download(place, commit, file)
        (repository / "shallow").write_text(f"{commit}\n")
        (repository / "HEAD").write_text(f"{commit}\n")
        is_indexed = git("index-pack", str(file), at=repository).returncode == 0
        if not is_indexed or git("rev-list", "--objects", commit, at=repository).returncode != 0:
            raise InputError(
                f"code_url bundle://{place}/{commit}: what is there is not that commit"
            )
        yield repository


def of_directory(url: str, revision: str, has_mlflow: bool, without: Sequence[str] = ()) -> Bundle:
    """Returns what a directory on this machine holds: a commit of it, or all as it is now.

    Args:
        has_mlflow: Whether there is a server for what is too large for a ConfigMap.
        without: Paths of it that are no code.
    """
    if snapshot.is_meant(url, revision):
        with snapshot.taken(url, without) as working_tree:
            say(f"{url} travels {working_tree.in_words or 'as it is committed'}")
            return _packed(url, working_tree.repository, working_tree.commit, has_mlflow)
    snapshot.check_top(url)
    directory = urls.directory(url)
    name = f"{revision or 'HEAD'}^{{commit}}"
    with tempfile.TemporaryDirectory(prefix="trireme-code-") as folder:
        repository = Path(folder, "git")
        shadow.make(directory, repository)
        result = git("rev-parse", "--verify", name, at=repository)
        if result.returncode:
            raise InputError(f"code_url {url!r}: has no commit {revision or 'HEAD'!r}")
        return _packed(url, repository, result.stdout.strip(), has_mlflow)


def _packed(url: str, repository: Path, commit: str, has_mlflow: bool) -> Bundle:
    if tree.is_in_lfs(commit, repository):
        raise InputError(
            f"code_url {url!r}: has files in LFS, which do not travel to a cluster; push it to a "
            "server and give its URL"
        )
    with tempfile.TemporaryDirectory(prefix="trireme-code-") as folder:
        file = Path(folder, FILE)
        fits = pack(repository, commit, file)
        size = file.stat().st_size if fits else LIMIT
        if fits and (size <= CONFIG_MAP_LIMIT or has_mlflow):
            place = CONFIG_MAP if size <= CONFIG_MAP_LIMIT else MLFLOW
            return Bundle(commit, file.read_bytes(), place)
    if not fits:
        raise InputError(
            f"code_url {url!r}: is larger than {in_words(LIMIT)}, packed, which is the most that "
            "travels to a cluster; push it to a server and give its URL"
        )
    raise InputError(
        f"code_url {url!r}: has {in_words(size)}, packed; a ConfigMap takes "
        f"{in_words(CONFIG_MAP_LIMIT)}, and for more MLFLOW_TRACKING_URI (or the workspace's "
        "mlflow) has to name the cluster's MLflow server; or push it and give a server's URL"
    )


def keep(bundle: Bundle, connect: "Callable[[], Cluster]") -> None:
    """Puts a bundle where its URL says, if it is not there.

    Args:
        connect: Returns the cluster with the namespace of the run, for a ConfigMap.
    """
    from trireme.kubernetes.errors import AlreadyThere
    from trireme.kubernetes.resources import CONFIG_MAPS

    if bundle.place == MLFLOW:
        _keep_in_mlflow(bundle)
        return
    cluster = connect()
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_map(bundle.commit),
            "labels": {"app.kubernetes.io/managed-by": "trireme", "trireme/code": "bundle"},
        },
        "immutable": True,
        "binaryData": {FILE: base64.b64encode(bundle.content).decode()},
    }
    with suppress(AlreadyThere):
        cluster.create(CONFIG_MAPS, body, cluster.namespace)


def _download(place: str, commit: str, file: Path) -> None:
    if place == MLFLOW:
        _from_mlflow(commit, file)
        return
    from trireme.kubernetes.connection import PATIENCE, Cluster
    from trireme.kubernetes.errors import NotFound
    from trireme.kubernetes.resources import CONFIG_MAPS

    cluster = Cluster(patience=PATIENCE)
    name = config_map(commit)
    try:
        stored = cluster.get(CONFIG_MAPS, name, cluster.namespace)
    except NotFound:
        raise InputError(
            f"code_url bundle://{place}/{commit}: the ConfigMap {name} is gone from namespace "
            f"{cluster.namespace}; run again from the folder with the code"
        ) from None
    file.write_bytes(base64.b64decode((stored.get("binaryData") or {}).get(FILE, "")))


def _from_mlflow(commit: str, file: Path) -> None:
    from trireme.tracking import store
    from trireme.tracking.client import client

    store.use()
    experiments = client.experiment_ids()
    query = f"tags.`{TAG}` = '{FILE}' and tags.`git.commit` = '{commit}'"
    for run in client.search_runs(experiments, query):
        # Pipelines' runs have the tags of the step that has the file.
        if any(artifact.path == FILE for artifact in client.list_artifacts(run.info.run_id)):
            with tempfile.TemporaryDirectory() as folder:
                shutil.copyfile(client.download_artifacts(run.info.run_id, FILE, folder), file)
            return
    raise InputError(f"code_url bundle://{MLFLOW}/{commit}: no run in MLflow has that code")


def _keep_in_mlflow(bundle: Bundle) -> None:
    from trireme.tracking import runs, store
    from trireme.tracking.client import client

    store.use()
    experiment = client.get_experiment_by_name(EXPERIMENT)
    number = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT)
    tags = {TAG: FILE, "git.commit": bundle.commit}
    query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
    if client.search_runs([number], f"{query} and attributes.status = 'FINISHED'"):
        return
    run_id = runs.create(number, bundle.commit[:12], tags)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, FILE).write_bytes(bundle.content)
        client.log_artifact(run_id, str(Path(folder, FILE)))
    client.set_terminated(run_id)
