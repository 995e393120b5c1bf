"""Code, datasets and workspaces that people keep by name in ``trireme.yaml``.

PAI-DLC calls them code configurations, dataset configurations and workspaces.
"""

import difflib
import os
from collections.abc import Collection, Container, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import Field, ValidationError

from trireme.code import git
from trireme.code import url as urls
from trireme.credentials import secrets
from trireme.data import description, volumes
from trireme.data import uri as uris
from trireme.errors import InputError
from trireme.files.whole_file import linked, write_whole
from trireme.job import reading
from trireme.job.values import AbsolutePath
from trireme.pipeline import logins
from trireme.pipeline.logins import Connect
from trireme.strict_model import StrictModel, dotted
from trireme.text import yaml_text

FILE = "trireme.yaml"
SHORT = ("code", "dataset")
"""Parameters, and fields of a job, that name a configuration: ``code=@classifier``."""

BASE_MODEL = "base_model"
"""The parameter that names a dataset's configuration, or is a URI."""


class CodeConfiguration(StrictModel):
    """A git repository with training code."""

    url: str
    """An https, ssh, git or file URL, or a directory; ./ is that of trireme.yaml."""

    revision: str = ""
    """Branch, tag or commit; empty: the default branch."""

    secret: str = ""
    """The Secret that opens a private repository; empty: trireme-code, if there is one."""

    directory: str = ""
    """A directory in the repository that becomes CODE_DIR; empty: all of it."""

    submodules: str = "all"
    """The submodules that are checked out: all, none, or their paths with commas between."""


class DatasetConfiguration(StrictModel):
    """A dataset."""

    uri: str
    """As dataset_uri; ./ is that of trireme.yaml."""

    options: dict[str, Any] = {}
    """As dataset_options: how to reach it, and which files to use."""

    secret: str = ""
    """The Secret with the credentials; empty: trireme-dataset, if there is one."""

    mount: AbsolutePath = ""
    """Where a job without a pipeline has it: its data_dir. Pipelines have a place of their own."""


class Workspace(StrictModel):
    """A place to run, and what holds for everything there."""

    target: str | None = None
    """--target: local, kfp or argo."""

    endpoint: str | None = None
    """--endpoint: the URL of Kubeflow Pipelines."""

    context: str | None = None
    """--context: of the KUBECONFIG."""

    namespace: str | None = None
    """--namespace."""

    images: str | None = None
    """--images: a file of images with digests; a relative path is one beside trireme.yaml."""

    service_account: str | None = None
    """--service-account: that of the steps' pods on Argo."""

    shape: str | None = None
    """--shape: a file with what steps' pods get; a relative path is one beside trireme.yaml."""

    storage_class: str | None = None
    """--storage-class: that of each run's workspace."""

    dataset_claims: list[str] | None = None
    """--dataset-claim: PVCs with datasets."""

    cache_claim: str | None = None
    """--cache-claim: a PVC for datasets that all runs share."""

    mlflow: str | None = None
    """MLFLOW_TRACKING_URI of commands here, and tracking.uri of jobs; pipelines on a cluster have
    the Secret trireme-mlflow."""


_FILES = {"images", "shape"}
"""Fields of a workspace that name a file."""

_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Saved(StrictModel):
    """The file trireme.yaml."""

    code: dict[_Name, CodeConfiguration] = {}
    """Code configurations, by name: -p code=@NAME."""

    datasets: dict[_Name, DatasetConfiguration] = {}
    """Dataset configurations, by name: -p dataset=@NAME."""

    workspaces: dict[_Name, Workspace] = {}
    """Workspaces, by name: --workspace NAME."""


class Entry(NamedTuple):
    """A configuration with its name, and the file that it is from."""

    kind: str
    name: str
    content: CodeConfiguration | DatasetConfiguration | Workspace
    file: Path

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that are given."""
        names = self.content.model_fields_set
        return {name: value for name, value in self.content if name in names and value}

    @property
    def is_of_the_repository(self) -> bool:
        """Whether others have written it, and not this user for whatever is run here."""
        return self.file != users_file()

    @property
    def in_a_word(self) -> str:
        """Where it leads."""
        fields = self.fields
        return fields.get("url") or fields.get("uri") or fields.get("target") or ""

    def __str__(self) -> str:
        """Returns where it is, as error messages say it."""
        return f"{self.file}: {self.kind}.{self.name}"


def users_file() -> Path:
    """Returns the file of this user, which need not exist."""
    base = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return base / "trireme" / FILE


def repositorys_file() -> Path | None:
    """Returns the file of the folder one stands in, or of one above it in the same repository."""
    try:
        working_directory = Path.cwd()
    except FileNotFoundError:  # somebody has deleted it
        return None
    for folder in (working_directory, *working_directory.parents):
        if (folder / FILE).is_file():
            return folder / FILE
        if (folder / ".git").exists():
            return None
    return None


def files_in_words() -> str:
    """Returns the files in which something may be kept."""
    return f"{repositorys_file() or FILE} and {users_file()}"


def read(file: Path) -> Saved:
    """Returns what a file holds."""
    return _checked(_parsed(yaml_text.text_of(file, str(file)), file), file)


def save(
    file: Path, kind: str, name: str, fields: dict[str, Any], targets: Collection[str]
) -> None:
    """Changes fields in a file, which is checked first; an empty value removes one."""
    real = file.resolve() if file == users_file() else linked(file)
    text = yaml_text.text_of(file, str(file)) if file.exists() else ""
    if any(line.lstrip().startswith("#") or " #" in line for line in text.splitlines()):
        raise InputError(f"{file} has comments, which would be lost; edit it yourself")
    content = _checked(_parsed(text, file), file).model_dump(exclude_unset=True)
    entry = content.setdefault(kind, {}).get(name, {}) | fields
    content[kind][name] = {field: value for field, value in entry.items() if value != ""}
    checked = _checked(content, file)
    check(Entry(kind, name, getattr(checked, kind)[name], file), targets)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(real, yaml.safe_dump(content, sort_keys=False))
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None


def _parsed(text: str, file: Path) -> Any:
    return yaml_text.parse(text, str(file), reading.Loader)  # a revision 1.10 is a text, as in jobs


def _checked(content: Any, file: Path) -> Saved:
    if not isinstance(content or {}, dict):
        raise InputError(f"{file}: must map code, datasets and workspaces to names")
    try:
        return Saved.model_validate(content or {})
    except ValidationError as error:
        raise InputError(f"{file}: {reading.in_words(error, Saved)}") from None


def entries() -> list[Entry]:
    """Returns all there are; of two with one name, that of the repository."""
    by_name: dict[tuple[str, str], Entry] = {}
    for file in (users_file(), repositorys_file()):
        if file and file.is_file():
            for kind, named in read(file):
                by_name |= {
                    (kind, name): Entry(kind, name, content, file)
                    for name, content in named.items()
                }
    return [by_name[key] for key in sorted(by_name)]


def workspace(name: str) -> dict[str, Any]:
    """Returns the fields of a workspace that are given."""
    entry = _named("workspaces", name, "--workspace ")
    if entry.is_of_the_repository:
        _check_logins(entry)
    return _of_workspace(entry)


def is_mlflow_of_the_repository(workspace: str) -> bool:
    """Whether a workspace names an MLflow, and others have written that."""
    entry = _named("workspaces", workspace, "--workspace ")
    return entry.is_of_the_repository and "mlflow" in entry.fields


def _check_logins(entry: Entry) -> None:
    """Refuses a server that only a repository's file names, where logins of this user would go."""
    for field in ("mlflow", "endpoint"):
        url = str(entry.fields.get(field, ""))
        if sent := logins.sent(field, url):
            raise InputError(
                f"{entry}: {field} {url}: {sent} would be sent there, which only the repository's "
                f"file names; if it is for that server, set {logins.NAMED[field][0]} to its URL, "
                f"or save the workspace in {users_file()}"
            )


def _of_workspace(entry: Entry) -> dict[str, Any]:
    fields = entry.fields
    for name in _FILES & fields.keys():
        fields[name] = str(entry.file.parent / Path(fields[name]).expanduser())
    return fields


def of_all_jobs(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a job that those of a workspace give all of them."""
    job = {}
    if "images" in fields:
        job["images"] = yaml_text.read(Path(fields["images"]), f"images {fields['images']}")
    if "mlflow" in fields:
        job["tracking"] = {"uri": fields["mlflow"]}
    return job


def expanded(
    values: Mapping[str, Any], known: Container[str], connect: Connect | None = None
) -> dict[str, Any]:
    """Returns a pipeline's parameters with those that ``@NAME`` stands for.

    Args:
        values: By name; those given besides win.
        known: The pipeline's own parameters, which may be called so, too.
        connect: Returns the cluster that is to run it, whose Secrets are looked at then.
    """
    values_by_name: dict[str, Any] = {}
    names = {kind: values[kind] for kind in SHORT if kind in values and kind not in known}
    if is_name(values.get(BASE_MODEL)):
        names[BASE_MODEL] = values[BASE_MODEL]
    for kind, reference in names.items():
        entry, fields = _configuration(kind, reference)
        fields.pop("mount", None)
        overrides = {
            field: values[f"{kind}_{field}"] for field in fields if f"{kind}_{field}" in values
        }
        secret = values.get(f"{kind}_secret", fields.get("secret", secrets.DEFAULTS[kind]))
        _check_secret(entry, fields.keys() - overrides.keys(), secret, kind, connect)
        values_by_name |= {f"{kind}_{field}": value for field, value in fields.items()}
    if BASE_MODEL in names:
        values_by_name[BASE_MODEL] = values_by_name.pop(f"{BASE_MODEL}_uri")
    return values_by_name | {name: value for name, value in values.items() if name not in names}


def expanded_job(fields: dict[str, Any], connect: Connect | None = None) -> dict[str, Any]:
    """Returns a job's fields with those that ``code: "@name"`` and ``dataset`` stand for.

    Args:
        connect: See ``expanded``.
    """
    for field in SHORT:
        _check_own_secret(field, fields.get(field))
    if is_name(fields.get("code")):
        entry, described = _configuration("code", fields["code"])
        _check_secret(entry, described, described.get("secret", ""), "code", connect)
        fields = fields | {"code": described}
    if is_name(fields.get("dataset")):
        entry, described = _configuration("dataset", fields["dataset"])
        _check_secret(entry, described, described.get("secret", ""), "dataset", connect)
        data_dir = {"data_dir": described.pop("mount")} if "mount" in described else {}
        fields = data_dir | fields | {"dataset": described.pop("options", {}) | described}
    return fields


def _check_secret(
    entry: Entry, fields: Container[str], secret: Any, purpose: str, connect: Connect | None
) -> None:
    """Refuses to send a Secret of this user to a server that only a repository's file names.

    Args:
        fields: Those that are the entry's, and that nobody has given besides.
    """
    if not entry.is_of_the_repository:
        return
    named = {name: value for name, value in entry.content if name in fields}
    options = named.get("options", {})
    if host := _host(str(named.get("url", "")), str(named.get("uri", "")), options.get("endpoint")):
        secrets.check_named_elsewhere(str(entry), str(secret), purpose, host)
        if secret and connect:
            logins.check_secret(str(entry), str(secret), host, connect, users_file())


def _check_own_secret(field: str, described: Any) -> None:
    """Refuses likewise for a server that a job's file names itself, of this machine's Secrets.

    Those of a cluster its program can have anyhow, see ``secret_env``.
    """
    if isinstance(described, dict) and (secret := described.get("secret")):
        url, uri = str(described.get("url", "")), str(described.get("uri", ""))
        if host := _host(url, uri, described.get("endpoint")):
            secrets.check_named_elsewhere(field, str(secret), field, host, "the job's file")


def _host(url: str, uri: str, endpoint: Any) -> str:
    """Returns the server that code or data name and a Secret may be sent to; empty for none."""
    if url:
        server = urls.server(url)
        return server.host if server and server.scheme in ("http", "https") else ""
    if endpoint:
        return uris.origin(str(endpoint))[1]
    return uris.origin(uri)[1] if uri.lower().startswith(("http:", "https:")) else ""


def check(entry: Entry, targets: Collection[str]) -> None:
    """Refuses a configuration that could not work, as far as this machine can tell.

    Args:
        targets: The names of the places that there are.
    """
    try:
        match entry.content:
            case CodeConfiguration() as code:
                url = _placed(entry, "url")["url"]
                git.check(url, code.revision, code.secret, code.directory, code.submodules)
            case DatasetConfiguration(options=options, secret=secret):
                description.described(_placed(entry, "uri")["uri"], secret, options)
            case Workspace():
                _check_workspace(_of_workspace(entry), targets)
    except InputError as error:
        raise InputError(f"{entry}: {error}") from None


def _check_workspace(fields: dict[str, Any], targets: Collection[str]) -> None:
    if "target" in fields and fields["target"] not in targets:
        raise InputError(f"target {fields['target']!r}: must be one of {', '.join(targets)}")
    for name in sorted(_FILES & fields.keys()):
        yaml_text.text_of(Path(fields[name]), f"{name} {fields[name]}")
    if "namespace" in fields:
        from trireme.kubernetes.connection import check_namespace

        check_namespace(fields["namespace"])
    volumes.mounts(fields.get("dataset_claims", ()), fields.get("cache_claim", ""))
    if of_jobs := of_all_jobs(fields):
        from trireme.job.job import TrainingJob

        try:
            TrainingJob.create(image="any", entrypoint="any.py", **of_jobs)
        except InputError as error:
            raise InputError(str(error).replace("tracking.uri", "mlflow", 1)) from None


def _configuration(kind: str, reference: Any) -> tuple[Entry, dict[str, Any]]:
    """Returns what a name stands for, and the fields of it that are given."""
    if not is_name(reference):
        raise InputError(
            f"{kind} {reference!r}: must be the name of a configuration, as in {kind}=@NAME; "
            f"'trireme config list' lists them"
        )
    is_code = kind == "code"
    kind, field = ("code", "url") if is_code else ("datasets", "uri")
    entry = _named(kind, reference[1:], "code=@" if is_code else "dataset=@")
    return entry, _placed(entry, field)


def is_name(value: Any) -> bool:
    """Tells whether a value names a configuration."""
    return isinstance(value, str) and value.startswith("@")


def _named(kind: str, name: str, written: str) -> Entry:
    by_name = {entry.name: entry for entry in entries() if entry.kind == kind}
    if name in by_name:
        return by_name[name]
    if close := difflib.get_close_matches(name, by_name, n=3):
        hint = f"did you mean {' or '.join(close)}?"
    else:
        hint = f"there are {', '.join(by_name)}" if by_name else "there are none"
    raise InputError(
        f"{written}{dotted([name])}: {files_in_words()} have no such name in {kind}; {hint}"
    )


def _placed(entry: Entry, field: str) -> dict[str, Any]:
    """Returns the fields of an entry; a directory that begins with a dot is one beside its file."""
    fields = entry.fields
    if fields.get(field, "").partition("/")[0] in (".", ".."):
        fields[field] = str((entry.file.parent / fields[field]).resolve())
    return fields
