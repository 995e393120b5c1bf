"""Which server is asked, as whom, and what is said when it does not answer as it should."""

import ssl
import subprocess

import pytest
import yaml
from kfp_server import PROXY, KubeflowServer

from trireme.targets.kubeflow import connection
from trireme.targets.kubeflow.target import Kubeflow

SECRET = "not-to-be-seen-anywhere"


def listing(trireme, *more):
    return trireme("list", "--target", "kfp", *more)


def authorizations(server):
    return {headers.get("Authorization") for _, headers in server.seen}


@pytest.fixture
def impatient(monkeypatch):
    """Makes every wait for the server a short one."""
    monkeypatch.setattr(connection, "PATIENCE_OF_A_PERSON", 0.05)


def test_a_token_comes_from_a_file_and_is_read_again_for_each_request(kubeflow, tmp_path):
    file = tmp_path / "token"
    file.write_text("first\n")
    kubeflow.token = "first"
    asked = Kubeflow(kubeflow.url, str(file)).connection
    file.write_text("second\n")
    kubeflow.token = "second"
    asked.ask("healthzs.healthz_service_get_healthz")
    assert authorizations(kubeflow) == {"Bearer first", "Bearer second"}


def test_a_token_comes_from_the_environment(trireme, kubeflow, monkeypatch):
    kubeflow.token = SECRET
    monkeypatch.setenv("KFP_EXISTING_TOKEN", SECRET)
    assert listing(trireme)[0] == 0
    assert authorizations(kubeflow) == {f"Bearer {SECRET}"}


def test_an_expired_token_is_one_sentence_that_does_not_show_it(
    trireme, kubeflow, tmp_path, caplog
):
    (tmp_path / "token").write_text(SECRET)
    kubeflow.token = "another"
    status, output, errors = listing(trireme, "--token-file", str(tmp_path / "token"))
    assert (status, output) == (1, "")
    assert errors == (
        f"error: Kubeflow Pipelines at {kubeflow.url} does not accept these credentials (401): "
        "set --token-file or KF_PIPELINES_SA_TOKEN_PATH to a file with a token that is valid now\n"
    )
    assert len(kubeflow.seen) == 2  # read again once, which did not help
    assert SECRET not in caplog.text


def test_a_token_that_has_expired_meanwhile_is_renewed(kubeflow, tmp_path):
    kubeflow.faults += ["401"]
    assert Kubeflow(kubeflow.url).connection
    assert kubeflow.faults == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("403", "does not allow that (403: Forbidden); set --namespace to one of yours"),
        ("404", "does not answer as Kubeflow Pipelines does; set --endpoint to its URL"),
        ("302", "does not answer as Kubeflow Pipelines does; set --endpoint to its URL"),
        ("page", "does not answer as Kubeflow Pipelines does; set --endpoint to its URL"),
    ],
)
def test_a_no_is_one_sentence_that_says_what_to_set(trireme, kubeflow, fault, said):
    kubeflow.faults += [fault]
    status, output, errors = listing(trireme)
    assert (status, output, errors.count("\n")) == (1, "", 1)
    assert said in errors
    assert len(kubeflow.seen) == 1


def test_a_server_that_is_away_is_waited_for_and_then_named(trireme, kubeflow, impatient):
    kubeflow.__exit__()
    try:
        status, _, errors = listing(trireme)
        assert (status, errors.count("\n")) == (1, 1)
        assert f"at {kubeflow.url} does not answer ([Errno 111] Connection refused)" in errors
        assert "KF_PIPELINES_ENDPOINT" in errors
    finally:
        kubeflow.__enter__()


def test_a_server_that_keeps_failing_is_given_up(trireme, kubeflow, impatient, monkeypatch):
    # A machine that is busy with other tests may take a while for the first answer alone.
    monkeypatch.setattr(connection, "PATIENCE_OF_A_PERSON", 1.0)
    kubeflow.faults += ["503"] * 5000
    status, _, errors = listing(trireme)
    assert (status, errors.count("\n")) == (1, 1)
    assert "fails: 503 Service Unavailable" in errors
    assert 2 <= len(kubeflow.seen) < 5000


def test_several_users_need_a_namespace(trireme, kubeflow, monkeypatch):
    kubeflow.multi_user = True
    status, _, errors = listing(trireme)
    assert (status, errors.count("\n")) == (2, 1)
    assert "give your namespace with --namespace or KFP_NAMESPACE" in errors
    assert listing(trireme, "-n", "team")[0] == 0
    monkeypatch.setenv("KFP_NAMESPACE", "team")
    assert listing(trireme)[0] == 0
    assert "namespace=team" in kubeflow.seen[-1][0]


def test_without_an_endpoint_a_kubeconfig_leads_there(trireme, kubeflow, monkeypatch, tmp_path):
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT")
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
        "clusters": [{"name": "one", "cluster": {"server": kubeflow.url}}],
        "users": [{"name": "me", "user": {"token": SECRET}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    kubeflow.token = SECRET
    status, output, _ = trireme("run", "pytorch-training", "--target", "kfp", "--no-wait")
    assert status == 0
    assert all(PROXY in path for path, _ in kubeflow.seen)
    # There is no UI at that URL.
    assert f"  Page    /#/runs/details/{kubeflow.only_run()['run_id']}" in output.splitlines()
    assert SECRET not in output


def test_pages_are_those_of_the_ui(trireme, kubeflow, monkeypatch):
    monkeypatch.setenv("KF_PIPELINES_UI_ENDPOINT", "https://ui.example.org/pipeline/")
    output = trireme("upload", "pytorch-training")[1]
    assert "  Page     https://ui.example.org/pipeline/#/pipelines/details/" in output


def test_with_neither_it_is_said_what_to_set(trireme, kubeflow, monkeypatch):
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT")
    status, _, errors = listing(trireme)
    assert (status, errors.count("\n")) == (2, 1)
    assert "give --endpoint or set KF_PIPELINES_ENDPOINT to its URL, or KUBECONFIG" in errors


@pytest.mark.parametrize("option", ["--token-file", "--ca-file"])
def test_a_file_that_is_not_there_is_named(trireme, kubeflow, option):
    status, _, errors = listing(trireme, option, "missing")
    assert status == 2
    assert errors == f"error: {option} missing: cannot be read: No such file or directory\n"
    assert kubeflow.seen == []


def test_a_certificate_is_checked(trireme, kubeflow, tmp_path, impatient):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["-keyout", key, "-out", certificate]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *made]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with KubeflowServer() as server:
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        url = server.url.replace("http:", "https:")
        status, _, errors = listing(trireme, "--endpoint", url)
        assert (status, errors.count("\n")) == (1, 1)
        assert "is not trusted; set --ca-file or REQUESTS_CA_BUNDLE" in errors
        assert listing(trireme, "--endpoint", url, "--ca-file", str(certificate))[0] == 0


def test_options_of_kubeflow_are_refused_for_this_machine(trireme, kubeflow, untracked):
    for command in (["list"], ["status", "x"], ["run", "pytorch-training"]):
        status, _, errors = trireme(*command, "--endpoint", kubeflow.url)
        assert (status, errors) == (2, "error: --endpoint needs --target kfp\n")
    status, _, errors = trireme("list", "--target", "mars")
    assert (status, errors) == (2, "error: --target 'mars': must be one of local, kfp, argo\n")
    assert not untracked.exists()
    assert kubeflow.seen == []
