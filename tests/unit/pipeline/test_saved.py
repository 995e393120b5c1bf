"""trireme/pipeline/saved.py and trireme/cli/config.py: what trireme.yaml keeps by name."""

import errno
import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.cli.job.description import described
from trireme.errors import InputError
from trireme.pipeline import catalog, saved
from trireme.targets import registry

THEIRS = """
code:
  classifier: {url: https://example.org/models.git, revision: main, secret: team-git}
datasets:
  nas: {uri: pvc://nas/digits, options: {fingerprint: content}, mount: /data}
  local: {uri: ./data}
workspaces:
  team-a:
    target: argo
    context: production
    namespace: team-a
    images: images.yaml
    service_account: trainer
    storage_class: fast
    dataset_claims: [nas]
    mlflow: http://mlflow.example.org
"""
OURS = """
code:
  classifier: {url: https://example.org/mine.git}
  other: {url: https://example.org/other.git}
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a file, and a user with one; one stands in a folder of the first."""
    below = tmp_path / "repository" / "src"
    below.mkdir(parents=True)
    (tmp_path / "repository/.git").mkdir()
    (tmp_path / "repository/trireme.yaml").write_text(THEIRS)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    saved.users_file().parent.mkdir(parents=True)
    saved.users_file().write_text(OURS)
    monkeypatch.chdir(below)
    return tmp_path / "repository"


@pytest.fixture(scope="module")
def pipeline():
    return catalog.load("pytorch-training")


def command(*arguments):
    return CliRunner().invoke(app, arguments)


def code(name):
    return saved.expanded_job({"code": f"@{name}"})["code"]


def dataset(name):
    return saved.expanded_job({"dataset": f"@{name}"})["dataset"]


def test_the_nearer_file_wins_by_name(repository):
    assert code("classifier")["url"] == "https://example.org/models.git"
    assert code("other") == {"url": "https://example.org/other.git"}
    assert dataset("local") == {"uri": str(repository / "data")}


def test_files_above_the_repository_are_not_its(repository):
    (repository / "trireme.yaml").rename(repository.parent / "trireme.yaml")
    assert saved.repositorys_file() is None
    assert code("classifier")["url"] == "https://example.org/mine.git"


def test_names_stand_for_parameters(repository, pipeline):
    given = pipeline.given(["code_revision=dev", "code=@classifier", "dataset=@nas"], None)
    assert given == {
        "code_url": "https://example.org/models.git",
        "code_revision": "dev",
        "code_secret": "team-git",
        "dataset_uri": "pvc://nas/digits",
        "dataset_options": {"fingerprint": "content"},
    }


def test_a_name_replaces_all_that_a_file_says_of_it(repository, pipeline):
    file = repository / "params.yaml"
    file.write_text('code: "@classifier"\nworkers: 2\n')
    assert pipeline.given([], file)["code_secret"] == "team-git"
    given = pipeline.given(["code=@other"], file)
    assert given == {"code_url": "https://example.org/other.git", "workers": 2}


def test_another_base_model_keeps_nothing_of_the_one_in_the_file(repository, pipeline):
    file = repository / "params.yaml"
    file.write_text('base_model: "@nas"\n')
    assert pipeline.given([], file)["base_model_options"] == {"fingerprint": "content"}
    for pair, uri in (("@local", str(repository / "data")), ("hf://a/b", "hf://a/b")):
        assert pipeline.given([f"base_model={pair}"], file) == {"base_model": uri}
    file.write_text("base_model: hf://c/d\nbase_model_secret: hub\n")
    given = pipeline.given(["base_model=hf://a/b"], file)
    assert given == {"base_model": "hf://a/b", "base_model_secret": "hub"}


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("code=@clasifier", "did you mean classifier?"),
        ("dataset=@x", "there are local, nas"),
        ("code=classifier", "as in code=@NAME"),
    ],
)
def test_unknown_names_get_a_sentence(repository, pipeline, pair, told):
    with pytest.raises(InputError, match=told):
        pipeline.given([pair], None)


def test_an_own_parameter_of_that_name_is_left_alone():
    assert saved.expanded({"code": "@x"}, {"code"}) == {"code": "@x"}


def test_a_job_names_them_too(repository, tmp_path):
    (repository / "images.yaml").write_text("team/base: registry/base\n")
    file = tmp_path / "job.yaml"
    file.write_text('image: i\nentrypoint: t.py\ncode: "@classifier"\ndataset: "@nas"\n')
    job = described(file, "team-a")
    assert (job.code.url, job.code.revision) == ("https://example.org/models.git", "main")
    assert (job.dataset.uri, job.dataset.fingerprint) == ("pvc://nas/digits", "content")
    assert job.data_dir == "/data"
    assert job.tracking.uri == "http://mlflow.example.org"
    assert job.images == {"team/base": "registry/base"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ("argo", "team-a", "production")),
        (["-n", "mine", "--context", "test"], ("argo", "mine", "test")),
        (["--target", "kfp"], ("kfp", "team-a", "production")),
    ],
)
def test_a_workspace_is_the_default_of_options(repository, monkeypatch, given, expected):
    monkeypatch.setenv("KFP_NAMESPACE", "from-the-environment")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:1")
    opened = []

    class Stop(Exception):
        pass

    def open_target(name, options):
        opened.append((name, options["namespace"], options["kube_context"]))
        raise Stop

    monkeypatch.setattr(registry, "open", open_target)
    found = command("list", "-w", "team-a", *given)
    assert isinstance(found.exception, Stop), found.output
    assert opened == [expected]


def test_on_this_machine_nothing_of_a_workspace_counts_that_is_for_clusters(repository):
    # Neither of the two files is there.
    (repository / "trireme.yaml").write_text(
        "workspaces: {w: {images: i.yaml, shape: s.yaml, dataset_claims: [nas], cache_claim: c}}"
    )
    planned = command("plan", "pytorch-training", "-w", "w")
    assert planned.exit_code == 0, planned.output
    assert planned.output == command("plan", "pytorch-training").output
    refused = command("plan", "pytorch-training", "-w", "w", "--target", "kfp", "--no-check")
    assert "--shape" in str(refused.exception)
    assert "cannot be read: No such file or directory" in str(refused.exception)


def test_a_pipeline_gets_the_claims_and_the_storage_class(repository, tmp_path):
    (repository / "images.yaml").write_text("ghcr.io/trireme/base:0.1.0: r/b@sha256:" + "0" * 64)
    made = command("compile", "pytorch-training", "-w", "team-a", "-o", str(tmp_path / "out"))
    assert made.exit_code == 0, made.output
    template = yaml.safe_load((tmp_path / "out/pytorch-training.yaml").read_text())
    assert template["spec"]["serviceAccountName"] == "trainer"
    (claim,) = template["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    text = json.dumps(template)
    assert '"claimName": "nas"' in text
    assert "r/b@sha256:" in text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("code: {a: {urll: x}}", "code.a.urll: there is no such field; did you mean url"),
        ("codes: {}", "codes: there is no such field; did you mean code"),
        ("datasets: {a: {}}", "datasets.a.uri: is missing"),
        ("datasets: {a: {uri: ./d, mount: data}}", "a.mount 'data': must be an absolute path"),
        ("workspaces: {a: {dataset_claims: nas}}", "workspaces.a.dataset_claims 'nas': must be"),
        ("[]: ]", "is not YAML"),
        ("- 1", "must map code, datasets and workspaces"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_field(repository, content, told):
    file = repository / "trireme.yaml"
    file.write_text(content)
    with pytest.raises(InputError) as refused:
        saved.entries()
    assert str(refused.value).startswith(str(file))
    assert told in str(refused.value)


def test_set_show_list_and_check(repository):
    done = command("config", "set", "code.new", "url=https://example.org/x.git", "revision=v1")
    assert done.exit_code == 0, done.output
    command("config", "set", "code.new", "revision=", "secret=mine")
    shown = yaml.safe_load(command("config", "show", "new").output)
    assert shown == {"code": {"new": {"url": "https://example.org/x.git", "secret": "mine"}}}
    command("config", "set", "--user", "datasets.d", "uri=builtin://digits")
    assert saved.read(saved.users_file()).datasets["d"].uri == "builtin://digits"
    assert "workspaces  team-a" in command("config", "list").output
    checked = command("config", "check")
    assert checked.exit_code == 1
    assert "team-a: images" in checked.output  # which the test has not written
    assert f"ok      {repository / 'trireme.yaml'}: code.new" in checked.output


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("mlflow: http://u:hunter2@h", "mlflow: must not hold a user, password or token"),
        ("namespace: Bad_NS", "namespace 'Bad_NS': must be at most 63"),
        ('dataset_claims: ["A b"]', "'A b': must be the name of a PersistentVolumeClaim"),
        ("cache_claim: A", "--cache-claim 'A': must be the name"),
        ("images: list.yaml", "images ['a']: must be an object"),
    ],
)
def test_what_every_command_would_refuse_is_found_before(repository, fields, told):
    (repository / "list.yaml").write_text("[a]")
    (repository / "trireme.yaml").write_text(f"workspaces:\n  w:\n    {fields}\n")
    checked = command("config", "check")
    assert checked.exit_code == 1
    assert f"workspaces.w: {told}" in checked.output.replace("--dataset-claim ", "")
    assert "hunter2" not in checked.output


@pytest.mark.parametrize("revision", ["1.10", "0123456", "2026-01-05", "on"])
def test_a_revision_is_the_text_that_is_written_as_in_jobs(repository, revision):
    file = repository / "trireme.yaml"
    file.write_text(f"code: {{c: {{url: https://example.org/c.git, revision: {revision}}}}}")
    assert code("c")["revision"] == revision
    command("config", "set", "code.d", "url=https://example.org/d.git", f"revision={revision}")
    assert {code(name)["revision"] for name in "cd"} == {revision}
    assert command("config", "check").exit_code == 0


def test_where_there_is_no_room_what_was_saved_stays(repository, monkeypatch):
    def full(file, mode="r", **given):
        if "x" in mode:
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(file, mode, **given)

    opened, file = Path.open, repository / "trireme.yaml"
    before = file.read_text()
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(InputError, match="cannot be written: No space"):
        saved.save(file, "code", "new", {"url": "https://example.org/x.git"}, ())
    assert file.read_text() == before


def test_in_a_folder_that_is_gone_the_files_of_the_user_are_read(repository, monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert code("other") == {"url": "https://example.org/other.git"}


def test_an_object_with_a_name_that_comes_twice_is_not_set(repository, monkeypatch):
    monkeypatch.chdir(repository)
    before = (repository / "trireme.yaml").read_text()
    refused = command("config", "set", "datasets.d", 'options={"region": "a", "region": "b"}')
    assert isinstance(refused.exception, InputError)
    assert str(refused.exception) == "options: 'region' is given twice"
    assert (repository / "trireme.yaml").read_text() == before


def test_set_writes_through_no_link_of_a_repository(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(repository)
    (own := tmp_path / "own").write_text("mine")
    file = repository / "trireme.yaml"
    (repository / "trireme.yaml.partial").symlink_to(own)
    given = ("config", "set", "code.new", "url=https://example.org/x.git")
    assert command(*given).exit_code == 0
    assert "new" in file.read_text() and own.read_text() == "mine"
    assert [each.name for each in repository.iterdir() if each.name.endswith(".partial")] == [
        "trireme.yaml.partial"
    ]
    for there in (own, tmp_path / "none", repository / ".git" / "hooks" / "post-checkout"):
        file.unlink()
        file.symlink_to(there)
        refused = command(*given)
        assert isinstance(refused.exception, InputError)
        assert f"{file}: is a link out of its folder, to {there}" in str(refused.exception)
    assert own.read_text() == "mine" and not (tmp_path / "none").exists()


def test_a_users_own_file_may_be_a_link(repository, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    saved.users_file().parent.mkdir(parents=True, exist_ok=True)
    saved.users_file().unlink(missing_ok=True)
    saved.users_file().symlink_to(tmp_path / "dotfiles" / "trireme.yaml")
    done = command("config", "set", "--user", "datasets.d", "uri=builtin://digits")
    assert done.exit_code == 0, done.output
    assert saved.users_file().is_symlink()
    assert "builtin://digits" in (tmp_path / "dotfiles" / "trireme.yaml").read_text()


def test_set_checks_first_and_keeps_comments(repository):
    file = repository / "trireme.yaml"
    before = file.read_text()
    wrong = command("config", "set", "code.new", "url=https://u:secret@example.org/x.git")
    assert "holds a password" in str(wrong.exception)
    assert file.read_text() == before
    file.write_text(f"# ours\n{before}")
    refused = command("config", "set", "code.new", "url=https://example.org/x.git")
    assert "has comments" in str(refused.exception)


def test_the_schema_takes_the_page_of_the_docs():
    schema = json.loads(command("config", "schema").output)
    page = (Path(__file__).parents[3] / "docs/reference/trireme-yaml.md").read_text()
    example = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])
    jsonschema.validate(example, schema)
    saved.Saved.model_validate(example)


FOREIGN = """
code:
  c: {url: https://evil.example/mine.git, secret: team}
  ssh: {url: "git@evil.example:mine.git", secret: team}
datasets:
  web: {uri: https://evil.example/data.csv}
  hub: {uri: hf://org/net, options: {endpoint: http://evil.example}}
  s3: {uri: s3://bucket/data, secret: team, options: {endpoint: https://evil.example:9000}}
  plain: {uri: s3://bucket/data, secret: team}
"""


@pytest.fixture
def lured(repository, untracked, monkeypatch):
    """A repository whose file names servers, and a user who has Secrets of these names."""
    (repository / "trireme.yaml").write_text(FOREIGN)
    for name in ("team", "trireme-dataset", "trireme-base-model"):
        (untracked / "secrets" / name).mkdir(parents=True)
        (untracked / "secrets" / name / "password").write_text("hunter2")
    return untracked / "secrets"


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        ({"code": "@c"}, "team"),
        ({"dataset": "@web"}, "trireme-dataset"),
        ({"dataset": "@hub"}, "trireme-dataset"),
        ({"dataset": "@hub", "dataset_uri": "hf://org/other"}, "trireme-dataset"),
        ({"dataset": "@s3"}, "team"),
        ({"base_model": "@hub"}, "trireme-base-model"),
        ({"dataset": "@web", "dataset_secret": "team"}, "team"),
    ],
)
def test_a_repositorys_file_sends_no_secret_to_a_server_of_its_own(lured, given, secret):
    told = f"the Secret {secret} of this machine would be sent to evil.example, which only"
    with pytest.raises(InputError, match=told):
        saved.expanded(given, ())
    (lured / secret / "host").write_text("example.org evil.example\n")
    saved.expanded(given, ())
    (lured / secret / "host").unlink()
    saved.users_file().write_text(FOREIGN)  # which this user names, too
    (saved.repositorys_file()).unlink()
    saved.expanded(given, ())


@pytest.mark.parametrize(
    "given",
    [
        {"code": "@ssh"},  # a key is not sent
        {"dataset": "@plain"},  # to Amazon
        {"dataset": "@web", "dataset_secret": ""},
        {"dataset": "@web", "dataset_secret": "of-the-cluster"},
        {"code": "@c", "code_url": "https://example.org/mine.git"},
        {"dataset": "@hub", "dataset_options": {}},
    ],
)
def test_what_sends_none_there_is_taken(lured, given):
    saved.expanded(given, ())


def test_of_a_job_no_secret_is_sent_there_either(lured):
    for field, name in (("code", "@c"), ("dataset", "@s3")):
        with pytest.raises(InputError, match="would be sent to evil"):
            saved.expanded_job({field: name})


OWN = {
    "code": {"url": "https://evil.example/mine.git", "secret": "team"},
    "dataset": {"uri": "s3://b", "endpoint": "https://evil.example", "secret": "team"},
}


@pytest.mark.parametrize("field", OWN)
def test_nor_to_one_that_a_jobs_file_names(lured, field):
    told = f"^{field}: the Secret team of this machine would be sent to evil.example, which only "
    with pytest.raises(InputError, match=f"{told}the job's file names"):
        saved.expanded_job({field: OWN[field]})
    (lured / "team" / "host").write_text("evil.example")
    saved.expanded_job({field: OWN[field]})
    saved.expanded_job({field: OWN[field] | {"secret": "of-the-cluster"}})


@pytest.mark.parametrize(
    ("field", "login", "named"),
    [
        ("mlflow", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_URI"),
        ("mlflow", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI"),
        ("endpoint", "KFP_EXISTING_TOKEN", "KF_PIPELINES_ENDPOINT"),
        ("endpoint", "KF_PIPELINES_SA_TOKEN_PATH", "KF_PIPELINES_ENDPOINT"),
    ],
)
def test_nor_a_login_of_the_environment(repository, untracked, monkeypatch, field, login, named):
    (repository / "trireme.yaml").write_text(
        f"workspaces: {{w: {{{field}: 'https://evil.example'}}}}"
    )
    for name in ("KFP_EXISTING_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH", "KF_PIPELINES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(untracked))
    saved.workspace("w")
    monkeypatch.setenv(login, "x")
    for other in ("", "https://example.org", "http://evil.example"):
        monkeypatch.setenv(named, other)
        with pytest.raises(
            InputError, match=f"{login} would be sent there, .*set {named} to its URL"
        ):
            saved.workspace("w")
    monkeypatch.setenv(named, "https://evil.example/path")
    assert saved.workspace("w")[field] == "https://evil.example"


@pytest.mark.parametrize("field", ["tracking: {uri: ", "env: {MLFLOW_TRACKING_URI: "])
def test_a_job_here_logs_in_to_no_mlflow_that_only_its_file_names(
    untracked, tmp_path, monkeypatch, field
):
    monkeypatch.setenv("HOME", str(untracked))
    file, job = tmp_path / "job.yaml", "{entrypoint: train.py, image: x, "
    file.write_text(f"{job}{field}'https://evil.example'}}}}")
    described(file, here=True)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://example.org")
    told = "tracking.uri https://evil.example: MLFLOW_TRACKING_PASSWORD would be sent there, which"
    with pytest.raises(InputError, match=told):
        described(file, here=True)
    described(file)  # which is only shown
    described(file, here=True, env={"MLFLOW_TRACKING_URI": "https://evil.example"})
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://evil.example/path")
    described(file, here=True)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    (untracked / ".mlflow").mkdir(parents=True)
    (untracked / ".mlflow" / "credentials").touch()
    own = "env: {MLFLOW_TRACKING_URI: 'https://evil.example', MLFLOW_TRACKING_PASSWORD: mine}"
    file.write_text(f"{job}{own}}}")
    with pytest.raises(InputError, match=r"credentials would be sent there"):
        described(file, here=True)
    (untracked / ".mlflow" / "credentials").unlink()
    described(file, here=True)
