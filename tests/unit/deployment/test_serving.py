"""Which model is served, what it is asked, and what is refused before a server starts."""

import json
import os
import re
import shutil
import socket
from contextlib import closing

import mlflow
import numpy as np
import onnx_models
import pandas as pd
import pytest
import tracking_uri
import yaml
from mlflow.pyfunc.scoring_server import invocations
from typed import through

from trireme.deployment import adapters, manifests, model_version, serving, smoke_test
from trireme.deployment.adapters import Adapter
from trireme.deployment.model_version import DownloadedModel
from trireme.deployment.openai_api import OpenAIApi
from trireme.deployment.serving import ServingFailed
from trireme.deployment.smoke_test import Expected
from trireme.errors import InputError, TriremeError
from trireme.manifests import to_yaml
from trireme.models.language import CHAT
from trireme.runner.local.ports import Ports
from trireme.tracking import model_versions
from trireme.tracking import store as tracking_store

INPUTS = np.array([[-1, 2], [3, -4], [0.1, 7]], dtype=np.float32)


def relu(path):
    from onnx import save

    model = onnx_models.of_one("Relu")
    save(model, path)
    return model


@pytest.fixture(scope="module")
def store(tmp_path_factory, mlflow_store):
    """A registry with a model of three versions, the first one without an input example."""
    import mlflow.onnx

    directory = tmp_path_factory.mktemp("store")
    shutil.copy(mlflow_store, directory / "mlflow.db")
    uri = f"sqlite:///{directory / 'mlflow.db'}"
    before = tracking_uri.told()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_TRACKING_URI"):
            patch.delenv(name, raising=False)
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        mlflow.set_tracking_uri(uri)
        client = mlflow.MlflowClient()
        experiment = client.create_experiment("e", (directory / "artifacts").as_uri())
        mlflow.set_experiment(experiment_id=experiment)
        for example in (None, INPUTS, INPUTS):
            logged = mlflow.onnx.log_model(
                relu(directory / "model.onnx"),
                name="model",
                run_id=client.create_run(experiment).info.run_id,
                signature=mlflow.models.infer_signature(INPUTS, INPUTS),
                input_example=example,
                pip_requirements=["onnxruntime"],
                onnx_execution_providers=["CPUExecutionProvider"],
            )
            mlflow.register_model(logged.model_uri, "my relu", tags={"some": "tag"})
        mlflow.set_tracking_uri(before)
    return directory


@pytest.fixture
def client(store, untracked, monkeypatch):
    """The registry, as MLFLOW_TRACKING_URI names it."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store / 'mlflow.db'}")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    client = mlflow.MlflowClient(f"sqlite:///{store / 'mlflow.db'}")
    yield client
    client.delete_registered_model_alias("my relu", "champion")


@pytest.mark.slow
def test_a_bare_name_is_the_champion(client):
    client.set_registered_model_alias("my relu", "champion", "2")
    found = model_versions.find("my relu")
    assert (found.version, found.note, found.tags) == ("2", "", {"some": "tag"})
    assert str(found) == "my relu version 2"


@pytest.mark.slow
def test_a_bare_name_without_a_champion_is_the_newest_version_and_says_so(client):
    found = model_versions.find("my relu")
    assert found.version == "3"
    assert found.note == "my relu has no champion; this is version 3, its newest"


@pytest.mark.slow
@pytest.mark.parametrize(("text", "version"), [("my relu@champion", "2"), ("my relu/1", "1")])
def test_an_alias_and_a_version_are_what_they_say(client, text, version):
    client.set_registered_model_alias("my relu", "champion", "2")
    found = model_versions.find(text)
    assert (found.version, found.note) == (version, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("relu", "there is no registered model 'relu'; there are my relu"),
        ("my relu@prod", "has no alias 'prod'; it has champion"),
        ("my relu/4", "has no version 4; it has 3, 2, 1"),
        ("my relu/new", "must be MODEL, MODEL@ALIAS or MODEL/VERSION"),
        ("", "must be MODEL, MODEL@ALIAS or MODEL/VERSION"),
        ("it's", "there is no registered model"),
    ],
)
def test_what_is_not_there_is_refused_with_what_there_is(client, text, said):
    client.set_registered_model_alias("my relu", "champion", "2")
    with pytest.raises(InputError, match=re.escape(said)) as refusal:
        model_versions.find(text)
    assert repr(text) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_a_model_without_versions_is_refused(client):
    client.create_registered_model("empty")
    try:
        with pytest.raises(InputError, match="has no versions"):
            model_versions.find("empty")
    finally:
        client.delete_registered_model("empty")


@pytest.mark.slow
def test_a_request_is_the_example_that_was_logged(client, tmp_path):
    downloaded = model_version.download(model_versions.find("my relu/2"), tmp_path / "model")
    assert json.loads(smoke_test.request(downloaded)) == {"inputs": INPUTS.tolist()}


@pytest.mark.slow
def test_without_an_example_nothing_shows_that_a_server_predicts(client, tmp_path):
    downloaded = model_version.download(model_versions.find("my relu/1"), tmp_path / "model")
    with pytest.raises(InputError, match="version 1 was logged without an input_example"):
        smoke_test.request(downloaded)
    with pytest.raises(InputError, match="my relu version 1 was logged without an input_ex"):
        smoke_test.expected_answers(downloaded)


@pytest.mark.slow
def test_the_file_is_asked_about_one_sample_and_about_many(client, tmp_path):
    downloaded = model_version.download(model_versions.find("my relu/2"), tmp_path / "model")
    pairs = smoke_test.expected_answers(downloaded)
    assert [len(pair.inputs) for pair in pairs] == [1, 2]
    for pair in pairs:
        assert np.array_equal(pair.outputs, np.maximum(pair.inputs, 0))


@pytest.mark.slow
def test_a_table_as_the_example_is_sent_as_it_was_logged(tmp_path):
    class Sums(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            return model_input.sum(axis=1)

    example = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    place = tmp_path / "model"
    mlflow.pyfunc.save_model(place, python_model=Sums(), input_example=example, pip_requirements=[])
    described = mlflow.models.Model.load(str(place))
    (pair,) = smoke_test.expected_answers(DownloadedModel(None, place, described))
    loaded = mlflow.pyfunc.load_model(str(place))

    class Server:
        def answer(self, request):
            done = invocations(
                request, "application/json", loaded, loaded.metadata.signature.inputs
            )
            assert done.status == 200, done.response
            return done.response

    assert smoke_test.compare(Server(), [pair]).samples == 0


def test_the_answers_that_were_kept_are_expected(tmp_path):
    np.savez(tmp_path / "sample.npz", inputs=INPUTS, outputs=-INPUTS)
    pairs = smoke_test.expected_answers(DownloadedModel(None, tmp_path, mlflow.models.Model()))
    assert np.array_equal(np.concatenate([pair.inputs for pair in pairs]), INPUTS)
    assert np.array_equal(np.concatenate([pair.outputs for pair in pairs]), -INPUTS)


@pytest.mark.parametrize("content", ["others", "objects", "an array", "text", "nothing"])
def test_a_models_own_file_called_as_the_kept_answers_is_none_of_them(tmp_path, content):
    with (tmp_path / "sample.npz").open("wb") as file:
        if content == "others":
            np.savez(file, x=INPUTS, y=INPUTS)
        elif content == "objects":
            np.savez(file, inputs=np.array([{}]), outputs=np.array([{}]))
        elif content == "an array":
            np.save(file, INPUTS)
        elif content == "text":
            file.write(b"PK\x03\x04 no archive")
    model = model_versions.ModelVersion("my", "1", "", {})
    described = mlflow.models.Model()
    with pytest.raises(InputError, match="version 1 was logged without an input_example"):
        smoke_test.expected_answers(DownloadedModel(model, tmp_path, described))


@pytest.mark.parametrize(
    ("predictions", "expected"),
    [
        ({"digit": [1, 2]}, [1, 2]),
        ([{"label": "a", "score": 0.5}], [["a", 0.5]]),
        ([], []),
        (0.5, 0.5),
        (["a"], ["a"]),
    ],
)
def test_the_first_output_is_compared(predictions, expected):
    assert smoke_test._first_output(json.dumps({"predictions": predictions})) == expected


@pytest.mark.parametrize(
    ("right", "said", "accepted"),
    [
        (5e-5, 0.0, False),  # as of a classifier of 20,000 classes
        (5e-5, 5.1e-5, True),
        (0.2, 0.20001, True),
        (0.2, 0.2001, False),
        (0.0, 0.0, True),
        (-np.inf, -np.inf, True),
        (-np.inf, 3.0, False),
        (3.0, -np.inf, False),
    ],
)
def test_a_server_has_to_be_right_where_answers_are_small_or_infinite(right, said, accepted):
    class Server:
        def answer(self, request):
            return json.dumps({"predictions": [[0.0, said]]})

    pairs = [Expected(np.ones((1, 1)), np.array([[0.0, right]]))]
    if accepted:
        assert smoke_test.compare(Server(), pairs).samples == 1
    else:
        with pytest.raises(ServingFailed, match="differ from the exported file's"):
            smoke_test.compare(Server(), pairs)


def test_words_are_compared_as_words():
    right = [Expected(np.ones((2, 1)), np.array(["a", "b"]))]

    class Server:
        def __init__(self, words):
            self._words = words

        def answer(self, request):
            return json.dumps({"predictions": self._words})

    assert smoke_test.compare(Server(["a", "b"]), right).samples == 2
    with pytest.raises(ServingFailed, match=r"largest difference 0\.5"):
        smoke_test.compare(Server(["a", "c"]), right)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        (["It meows.", "He barks"], ""),
        ([" It meows.", "He hoots"], ""),
        (["It meows. Loudly.", "He barks"], r"answers 'cat' with 'It meows. Loudly.', where the"),
        (["It meows.", "It barks"], r"answers 'dog' with 'It barks', where .* model says 'He '"),
        (["It meows."], r"returns no answers"),
    ],
)
def test_of_words_is_compared_what_rounding_cannot_change(tmp_path, said, refused):
    (tmp_path / "config.json").write_text('{"dtype": "bfloat16"}')
    outputs = np.array(["It meows.", "He barks"])
    margins = np.array([[0.5, 0.2, np.nan], [0.4, 0.09, 0.3]])  # 0.1 is what bfloat16 may change
    ends = np.array([[3, 9, -1], [3, 8, 8]])
    certain = smoke_test.certain_of(outputs, margins, ends, tmp_path)
    assert certain == (["It meows.", "He "], [True, False], 3, 5, "bfloat16")
    pairs = [Expected(np.array(["cat", "dog"]), outputs, certain=certain)]

    class Server:
        def answer(self, request):
            return json.dumps({"predictions": said})

    if refused:
        with pytest.raises(ServingFailed, match=refused):
            smoke_test.compare(Server(), pairs)
    else:
        same = 2 if said[1] == "He barks" else 1
        assert str(smoke_test.compare(Server(), pairs)) == (
            f"agrees with its file: {same} of 2 answers are the same, and of their 5 tokens all 3 "
            "that bfloat16 cannot change"
        )


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("It barks", r"answers; whether it agrees with its file is not known, as float16 may "),
        ("It meows", r"agrees with its file: 1 of 1 answers are the same, .* 2 tokens all 0 that"),
    ],
)
def test_where_rounding_may_change_every_word_that_is_said(tmp_path, said, known):
    (tmp_path / "config.json").write_text('{"dtype": "float32"}')
    outputs, margins = np.array(["It meows"]), np.array([[0.01, 0.5]])
    certain = smoke_test.certain_of(outputs, margins, np.array([[3, 8]]), tmp_path)

    class Server:
        def answer(self, request):
            return json.dumps({"predictions": [said]})

    agreement = smoke_test.compare(Server(), [Expected(np.array(["cat"]), outputs, "", certain)])
    assert re.match(known, str(agreement))


def test_held_out_samples_are_taken_from_the_cache(client, tmp_path, untracked):
    tree = untracked / "cache" / "trees" / "12ab"
    tree.mkdir(parents=True)
    held_out = np.arange(200, dtype=np.float32).reshape(100, 2)
    np.savez(tree / "test.npz", x=held_out, y=np.zeros(100, dtype=int))
    client.set_model_version_tag("my relu", "2", "dataset.fingerprint", "sha256:12ab")
    downloaded = model_version.download(model_versions.find("my relu/2"), tmp_path / "model")
    kept, more = smoke_test.samples_of(downloaded)
    assert np.array_equal(kept, INPUTS)
    assert np.array_equal(more, held_out[: smoke_test.SAMPLES])

    np.savez(tree / "test.npz", x=held_out.reshape(40, 5), y=np.zeros(40, dtype=int))
    (kept,) = smoke_test.samples_of(downloaded)
    assert np.array_equal(kept, INPUTS)


@pytest.mark.slow
def test_a_model_that_the_server_cannot_serve_is_refused(client, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "MLmodel").write_text("flavors:\n  crystal_ball:\n    data: model.bin\n")
    client.create_registered_model("opaque")
    try:
        client.create_model_version("opaque", source.as_uri())
        with pytest.raises(InputError, match="has the flavors crystal_ball"):
            model_version.download(model_versions.find("opaque"), tmp_path / "model")
    finally:
        client.delete_registered_model("opaque")


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        {"flavors": {"python_function": {"data": "../../secret"}}},
        {"flavors": {"python_function": {}, "onnx": {"data": "/etc/passwd"}}},
        {
            "flavors": {"python_function": {}},
            "saved_input_example_info": {"serving_input_path": "../secret.json"},
        },
    ],
)
def test_a_model_names_no_file_that_is_not_its_own(client, tmp_path, wrong):
    source = tmp_path / "source"
    source.mkdir()
    (source / "MLmodel").write_text(yaml.safe_dump(wrong))
    client.create_registered_model("hostile")
    try:
        client.create_model_version("hostile", source.as_uri())
        with pytest.raises(InputError, match=r"its MLmodel names .*, which is not in the model"):
            model_version.download(model_versions.find("hostile"), tmp_path / "model")
    finally:
        client.delete_registered_model("hostile")


@pytest.mark.slow
def test_files_that_are_gone_are_told_in_one_sentence(client, tmp_path):
    client.create_registered_model("gone")
    try:
        client.create_model_version("gone", (tmp_path / "nothing").as_uri())
        found = model_versions.find("gone")
        with pytest.raises(TriremeError, match="the files of gone version 1") as refusal:
            model_version.download(found, tmp_path / "model")
        assert "\n" not in str(refusal.value)
    finally:
        client.delete_registered_model("gone")


def test_a_port_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"--port {port}: address already in use"):
            serving.check_port(port)
    serving.check_port(port)


def test_a_port_whose_server_is_starting_is_refused(untracked, tmp_path):
    with serving._log(20000), pytest.raises(InputError, match="--port 20000"), serving._log(20000):
        pass


def test_the_server_gets_no_way_to_the_registry(untracked, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://somebody:pa55word@127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "pa55word")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    command, environment = serving._command(tmp_path, 20000)
    assert "pa55word" not in " ".join([*command, *environment.values()])
    assert environment["OMP_NUM_THREADS"] == "3"


MODEL = model_versions.ModelVersion("My relu", "2", "r", {})
SERVER = "https://mlflow.example.org"
IMAGE = "registry.example.org/team/server:3"


def deployed(**given):
    arguments = {"example": "serving_input_example.json", "tracking_uri": SERVER, "image": IMAGE}
    return manifests.deployment(MODEL, **arguments | {"size": 0} | given)


def test_a_model_as_an_inference_service(golden):
    rendered = manifests.inference_service(MODEL, "s3://models/my-relu/2", 0)
    golden("serve-kserve.yaml", to_yaml(rendered))


def test_a_model_as_a_deployment_with_a_service(golden):
    rendered = deployed()
    golden("serve-deployment.yaml", "---\n".join(map(to_yaml, rendered)))
    for manifest in rendered:
        assert through(f"V1{manifest['kind']}", manifest) == manifest


VLLM = """#!/bin/sh
echo "$@" $(ls) $VLLM_NO_USAGE_STATS >seen
echo "$HF_TOKEN" no GPU >&2
exit 3
"""


def test_vllm_is_taken_where_it_is_installed_for_this_machine_alone(tmp_path, monkeypatch):
    (tmp_path / "vllm").write_text(VLLM)
    (tmp_path / "vllm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path / "home"))
    files, api = tmp_path / "files", OpenAIApi(CHAT, "animals")
    files.mkdir()
    with closing(Ports()) as ports:
        port = ports.take()
    with (
        pytest.raises(ServingFailed, match="status 3") as failed,
        serving.started(files, port, lambda line: None, api) as server,
    ):
        server.first_answer("{}")
    assert failed.value.detail == " no GPU"
    arguments = f"--served-model-name animals --host 127.0.0.1 --port {port} --allowed-origins []"
    seen = (tmp_path / "served" / "seen").read_text()
    assert seen == f"serve animals {arguments} animals 1\n"


def test_a_language_model_on_a_cluster(golden):
    api = OpenAIApi(CHAT, "My-relu")
    rendered = [manifests.inference_service(MODEL, "s3://models/my-relu/2", 0, api)]
    on_a_gpu = deployed(api=api, image=manifests.VLLM)
    golden("serve-language-model.yaml", "---\n".join(map(to_yaml, rendered + on_a_gpu)))
    for manifest in on_a_gpu:
        assert through(f"V1{manifest['kind']}", manifest) == manifest
    (server,) = deployed(api=api)[0]["spec"]["template"]["spec"]["containers"]
    assert server["image"] == IMAGE and manifests.GPU not in server["resources"]["limits"]


def test_adapters_are_served_beside_the_model_that_they_were_trained_from():
    helper = model_versions.ModelVersion("helper one", "3", "r", {})
    beside = [Adapter(helper, "helper-one", 16), Adapter(MODEL, "other", 20)]
    whole = deployed(api=OpenAIApi(CHAT, "base"), image=manifests.VLLM, adapters=beside)
    for manifest in whole:
        assert through(f"V1{manifest['kind']}", manifest) == manifest
    pod = whole[0]["spec"]["template"]["spec"]
    brought = [each["command"][-4:] for each in pod["initContainers"]]
    assert brought == [
        ["-u", "models:/My relu/2", "-d", "/model"],
        ["-u", "models:/helper one/3/adapter", "-d", "/model/adapters/helper-one"],
        ["-u", "models:/My relu/2/adapter", "-d", "/model/adapters/other"],
    ]
    assert len({each["name"] for each in pod["initContainers"]}) == 3
    command = pod["containers"][0]["command"]
    assert command[command.index("--enable-lora") :] == [
        *("--enable-lora", "--max-lora-rank", "32", "--lora-modules"),
        "helper-one=/model/adapters/helper-one/adapter",
        "other=/model/adapters/other/adapter",
    ]


@pytest.mark.slow
def test_an_adapter_is_served_only_over_the_model_that_it_was_trained_from(client, store, tmp_path):
    package = tmp_path / "package"
    (package / "adapter").mkdir(parents=True)
    (package / "adapter" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 12}')
    base = model_versions.find("my relu/2")
    client.create_registered_model("helper")
    try:
        for tags in ({"base_model.version": base.uri}, {"base_model.uri": "hf://org/base"}):
            client.create_model_version("helper", package.as_uri(), tags=tags)
        client.create_model_version("helper", store.as_uri(), tags={"base_model.version": base.uri})
        (adapter,) = adapters.of(["helper/1"], base)
        assert (adapter.name, adapter.rank, adapters.largest([adapter])) == ("helper", 12, 16)
        with pytest.raises(InputError, match="would call helper version 1 helper, as helper vers"):
            adapters.of(["helper/1", "helper/1"], base)
        with pytest.raises(InputError, match="from hf://org/base, not from models:/my relu/2"):
            adapters.of(["helper/2"], base)
        with pytest.raises(InputError, match="--adapter helper/3: helper version 3 has no adapter"):
            adapters.of(["helper/3"], base)
    finally:
        client.delete_registered_model("helper")


@pytest.mark.parametrize(("size", "memory"), [(0, "1Gi"), (300 << 20, "1Gi"), (2 << 30, "6Gi")])
def test_the_memory_goes_by_the_models_files(size, memory):
    served = manifests.inference_service(MODEL, "s3://models/my-relu/2", size)
    pod = deployed(size=size)[0]["spec"]["template"]["spec"]
    found = [served["spec"]["predictor"]["model"], *pod["initContainers"], *pod["containers"]]
    assert {each["resources"]["limits"]["memory"] for each in found} == {memory}


def test_a_password_in_the_uri_of_the_server_stays_here():
    rendered = str(deployed(tracking_uri="https://somebody:secret@mlflow.example.org"))
    assert "secret@" not in rendered
    assert SERVER in rendered


def test_what_a_cluster_cannot_read_is_refused():
    for uri in ("sqlite:///here.db", "http://127.0.0.1:5000", "http://localhost"):
        with pytest.raises(InputError, match=f"pods cannot reach {uri}; set MLFLOW_TRACKING_URI"):
            deployed(tracking_uri=uri)
    with pytest.raises(InputError, match="logged without an input_example"):
        deployed(example="")
    with pytest.raises(InputError, match="the files of My relu version 2 are at /home/me/files"):
        manifests.inference_service(MODEL, "/home/me/files", 0)


@pytest.mark.parametrize(
    ("model", "name"), [("My  relu!", "my-relu"), ("x" * 49 + "-yy", "x" * 49), ("a.b", "a-b")]
)
def test_a_name_fits_a_cluster(model, name):
    assert manifests.object_name(model) == name


@pytest.mark.parametrize("model", ["7", "模型", "-"])
def test_a_name_that_no_object_can_have_is_refused(model):
    with pytest.raises(InputError, match="has to begin with a letter"):
        manifests.object_name(model)


@pytest.mark.parametrize("said", ["cannot open {}\nat line 7", "cannot open {}"])
def test_a_reason_of_mlflows_is_one_line_without_the_password(said):
    import mlflow

    before = tracking_uri.told()
    mlflow.set_tracking_uri("postgresql://me:hunter2@db.example.org/mlflow")
    try:
        error = OSError(said.format(mlflow.get_tracking_uri()))
        assert tracking_store.reason_of(error) == "cannot open postgresql://db.example.org/mlflow"
        assert tracking_store.reason_of(ValueError()) == "ValueError"
    finally:
        mlflow.set_tracking_uri(before)
