"""trireme/pipeline/catalog.py and pipelines/cli.py."""

import copy
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from google.protobuf import json_format
from kfp.kubernetes.kubernetes_executor_config_pb2 import KubernetesExecutorConfig

from trireme.cli import app as cli
from trireme.data import volumes
from trireme.errors import InputError
from trireme.pipeline import catalog
from trireme.pipeline.catalog import PIPELINES
from trireme.pipeline.pipeline import Parameter
from trireme.tracking.store import public

ROOT = Path(cli.__file__).parents[2]
LIMIT = 120  # seconds; far more than any command here takes


@pytest.fixture(scope="module")
def pipeline():
    return catalog.load("pytorch-training")


@pytest.fixture
def params(tmp_path):
    """Writes a file of parameters."""

    def write(content: str) -> Path:
        file = tmp_path / "params.yaml"
        file.write_text(content)
        return file

    return write


def start(*arguments: str, home: Path, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trireme", *arguments],
        cwd=ROOT,
        env=os.environ | {"TRIREME_HOME": str(home)} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("STRING", "text", "text"),
        ("STRING", "7", "7"),
        ("STRING", "", ""),
        ("STRING", "a=b", "a=b"),
        ("NUMBER_INTEGER", "7", 7),
        ("NUMBER_INTEGER", "-7", -7),
        ("NUMBER_DOUBLE", "0.5", 0.5),
        ("NUMBER_DOUBLE", "1", 1.0),
        ("NUMBER_DOUBLE", "1e-3", 0.001),
        ("BOOLEAN", "true", True),
        ("BOOLEAN", "false", False),
        ("LIST", '["--epochs", "3"]', ["--epochs", "3"]),
        ("LIST", "[]", []),
        ("STRUCT", '{"a": {"b": 1}}', {"a": {"b": 1}}),
    ],
)
def test_what_a_person_writes_becomes_a_value_of_the_type(type, text, value):
    parsed = Parameter("x", type, None, "").parse(text)
    assert parsed == value
    assert parsed.__class__ is value.__class__


@pytest.mark.parametrize(
    ("type", "text", "words"),
    [
        ("NUMBER_INTEGER", "seven", "whole number"),
        ("NUMBER_INTEGER", "7.0", "whole number"),
        ("NUMBER_INTEGER", "", "whole number"),
        ("NUMBER_INTEGER", "true", "whole number"),
        ("NUMBER_INTEGER", '"7"', "whole number"),
        ("NUMBER_INTEGER", "null", "whole number"),
        ("NUMBER_DOUBLE", "half", "number"),
        ("NUMBER_DOUBLE", "true", "number"),
        pytest.param("NUMBER_DOUBLE", "1" + 400 * "0", "number", id="too-large"),
        ("BOOLEAN", "yes", "true or false"),
        ("BOOLEAN", "TRUE", "true or false"),
        ("BOOLEAN", "1", "true or false"),
        ("LIST", "--epochs 3", "JSON list"),
        ("LIST", "{}", "JSON list"),
        ("LIST", '"text"', "JSON list"),
        ("STRUCT", "[]", "JSON object"),
        ("STRUCT", "{a: 1}", "JSON object"),
    ],
)
def test_what_is_not_of_the_type_is_refused_in_words(type, text, words):
    with pytest.raises(InputError, match=f"^parameter x: .* is not (a )?{words}$"):
        Parameter("x", type, None, "").parse(text)


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("STRUCT", '{"a": 1, "a": 2}'),
        ("STRUCT", '{"b": [{"a": 1, "a": 1}]}'),
        ("LIST", '[{"a":1,"a":2}]'),
    ],
)
def test_a_name_that_comes_twice_in_an_object_is_refused(type, text):
    with pytest.raises(InputError, match=r"^parameter c: 'a' is given twice$"):
        Parameter("c", type, None, "").parse(text)


@pytest.mark.parametrize("value", [7, 1.5, True, None, [], {}])
def test_a_value_that_is_no_text_is_not_taken_for_text(value):
    with pytest.raises(InputError, match="is not a text"):
        Parameter("x", "STRING", "", "").accept(value)


def test_every_parameter_has_a_default_of_its_type_and_a_description(pipeline):
    assert list(pipeline.parameters)[:3] == ["code_url", "code_revision", "code_secret"]
    for parameter in pipeline.parameters.values():
        assert parameter.accept(parameter.default) == parameter.default
        assert parameter.description
        assert "\n" not in parameter.description


@pytest.mark.parametrize("value", [np.int64(3), np.float32(3), np.bool_(True)])
def test_numbers_of_numpy_are_taken(value):
    kind = {"i": "NUMBER_INTEGER", "f": "NUMBER_DOUBLE", "b": "BOOLEAN"}[value.dtype.kind]
    taken = Parameter("x", kind, "", None).accept(value)
    assert taken == value and type(taken) in (int, float, bool)


def test_without_anything_given_the_defaults_hold(pipeline):
    defaults = {name: parameter.default for name, parameter in pipeline.parameters.items()}
    assert pipeline.complete({}) == defaults


def test_the_command_line_wins_over_the_file_and_the_last_word_counts(pipeline, params):
    file = params("workers: 3\nseed: 4\nargs: ['--epochs', '5']\nmin_accuracy: 1\n")
    given = pipeline.given(["workers=7", "workers=8", "experiment=a=b"], file)
    arguments = pipeline.complete(given)
    assert arguments["workers"] == 8
    assert arguments["seed"] == 4
    assert arguments["args"] == ["--epochs", "5"]
    assert arguments["min_accuracy"] == 1.0
    assert isinstance(arguments["min_accuracy"], float)
    assert arguments["experiment"] == "a=b"


@pytest.mark.parametrize("content", ["", "# nothing\n", "{}"])
def test_an_empty_file_changes_nothing(pipeline, params, content):
    assert pipeline.complete(pipeline.given([], params(content))) == pipeline.complete({})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("worker", "did you mean workers?"),
        ("min-accuracy", "did you mean min_accuracy?"),
        ("qqq", "it has code_url, code_revision"),
        ("", "it has code_url"),
    ],
)
def test_an_unknown_parameter_is_answered_with_a_suggestion(pipeline, params, name, said):
    with pytest.raises(InputError) as caught:
        pipeline.complete(pipeline.given([f"{name}=1"], None))
    assert f"has no parameter {name!r}" in str(caught.value)
    assert said in str(caught.value)
    with pytest.raises(InputError, match="has no parameter"):
        pipeline.complete(pipeline.given([], params(json.dumps({name: 1}))))


def test_a_truth_value_may_be_as_python_writes_it():
    assert [Parameter("x", "BOOLEAN", "", "").parse(text) for text in ("True", "false")] == [
        True,
        False,
    ]


def test_a_file_of_another_kind_is_no_pipeline(tmp_path):
    (tmp_path / "h.txt").touch()
    for path in (tmp_path, tmp_path / "h.txt"):
        with pytest.raises(InputError, match=r"is no pipeline: a file is FILE\.py"):
            catalog.load(str(path))


def test_a_parameter_without_a_value_is_refused(pipeline):
    with pytest.raises(InputError, match="-p 'workers': must be name=value"):
        pipeline.complete(pipeline.given(["workers"], None))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("workers: [", "is not YAML"),
        ("a: b: c", "is not YAML"),
        ("workers: !!python/object:os.system x", "is not YAML"),
        ("- workers", "must map parameter names to values"),
        ("just text", "must map parameter names to values"),
        ("1: 2", "must map parameter names to values"),
        ("workers: '2'", "parameter workers: '2' is not a whole number"),
        ("workers: yes", "parameter workers: 'true' is not a whole number"),
        ("args: --epochs", "parameter args: '--epochs' is not a JSON list"),
        ("code_revision: 1234567", "parameter code_revision: '1234567' is not a text"),
        ("experiment:", "parameter experiment: 'null' is not a text"),
        ("experiment: 2026-01-31", "parameter experiment"),
        ("experiment: !!binary aGVsbG8=", "parameter experiment"),
        ("experiment: 2026-13-45", "--params"),
        ("workers: 1\nseed: 2\nworkers: 2", "'workers' is given twice, again in line 3"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(pipeline, params, content, said):
    with pytest.raises(InputError) as caught:
        pipeline.complete(pipeline.given([], params(content)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(pipeline, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    for file in (tmp_path / "missing.yaml", tmp_path, tmp_path / "binary"):
        with pytest.raises(InputError, match="cannot be read"):
            pipeline.complete(pipeline.given([], file))


def test_an_unknown_pipeline_is_answered_with_those_there_are():
    with pytest.raises(InputError, match="there is no pipeline 'mxnet'; there are pytorch-"):
        catalog.load("mxnet")


def test_every_pipeline_is_listed_with_its_description(trireme):
    status, output, _ = trireme("pipelines")
    assert status == 0
    assert output.splitlines() == [f"{name}  {text}" for name, text in PIPELINES.items()]


def test_help_of_a_pipeline_lists_every_parameter_with_its_description(
    trireme, pipeline, untracked
):
    status, output, _ = trireme("run", "pytorch-training", "--help")
    assert status == 0
    lines = [line.strip() for line in output.splitlines()]
    for parameter in pipeline.parameters.values():
        named = [line for line in lines if line.startswith(f"{parameter.name}  (")]
        assert len(named) == 1
        assert parameter.type_in_words in named[0]
        assert parameter.description in lines
    assert any("default 0.9" in line for line in lines if line.startswith("min_accuracy"))
    assert not untracked.exists()


def test_help_names_every_command(trireme):
    status, output, _ = trireme("--help")
    assert status == 0
    for command in ("run", "compile", "pipelines", "upload", "list", "status", "ui"):
        assert command in output
    assert trireme("run", "--help")[0] == 0


def test_the_version_is_that_of_the_package(trireme):
    assert trireme("--version") == (0, f"{importlib.metadata.version('trireme-pipelines')}\n", "")


def test_run_without_a_pipeline_says_which_there_are(trireme, untracked):
    status, output, errors = trireme("run")
    assert (status, output) == (2, "")
    assert errors == f"error: PIPELINE is missing: give one of {', '.join(PIPELINES)}, or a file\n"
    assert not untracked.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mxnet"], "there is no pipeline 'mxnet'"),
        (["-p", "worker=2"], "did you mean workers?"),
        (["-p", "workers=two"], "parameter workers: 'two' is not a whole number"),
        (["-p", "workers=-2"], "workers -2: must be greater than or equal to 0"),
        (["-p", "processes_per_worker=0"], "processes_per_worker 0: must be greater"),
        (["-p", "args=[true]"], "args.0 True: must be a valid string"),
        (["-p", "entrypoint=/etc/x.py"], "entrypoint '/etc/x.py': must be the path of a .py file"),
        (["-p", "entrypoint=train.sh"], "entrypoint 'train.sh': must be the path of a .py file"),
        (["-p", "min_accuracy=90"], "min_accuracy 90.0: must be between 0 and 1"),
        (["-p", "min_accuracy=NaN"], "min_accuracy"),
        (["-p", "seed=-1"], "seed -1: must be between 0 and 4294967295"),
        (["-p", "time_limit=-1"], "time_limit -1: must be seconds"),
        (["-p", "model_name=a/b"], "model_name 'a/b': must be a name, without slash"),
        (["-p", "model_name="], "model_name '': must be a name"),
        (["-p", "dataset_uri=/no/such/place"], "there is no such file or directory"),
        (["-p", "dataset_uri=hdfs://node/x"], "hdfs:// is not supported"),
        (["-p", "dataset_uri=pvc://claim/x"], "is mounted, which needs a cluster"),
        (["-p", 'dataset_options={"region": "x"}'], "region goes with oss"),
        (["-p", "code_secret=My Secret"], "must be the name of a Secret"),
        (["-p", "code_directory=../x"], "must be a path inside the repository"),
        (["-p", "dataset_uri=builtin://cats"], "built in are builtin://digits"),
        (["-p", "code_url=/no/such/place"], "code_url '/no/such/place' is neither"),
        (["-p", "code_url=https://me:hunter2@example.org/x"], "password or token"),
        (["-p", "code_revision=--upload-pack=x"], "is not a branch, a tag or a commit"),
        (["--params", "/no/such/file.yaml"], "--params /no/such/file.yaml: cannot be read"),
    ],
)
def test_bad_input_is_one_sentence_and_creates_nothing(trireme, untracked, arguments, said):
    pipeline = [] if arguments == ["mxnet"] else ["pytorch-training"]
    status, output, error = trireme("run", *pipeline, *arguments)
    assert status == 2
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1
    assert "hunter2" not in error
    assert output == ""
    assert not untracked.exists()


@pytest.mark.slow
def test_bad_input_ends_the_process_with_2_and_no_traceback(tmp_path):
    process = start("run", "pytorch-training", "-p", "workers=two", home=tmp_path / "home")
    output, error = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert error == "error: parameter workers: 'two' is not a whole number\n"
    assert output == ""
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('{"gpus": 1}', "gpus: there is no such field; did you mean gpu?"),
        ('{"memory": "16GB"}', "memory '16GB': must be a Kubernetes quantity"),
        ('{"elastic": {"min": 5, "max": 4}}', "elastic: min 5 must not be above max 4"),
        ('{"name": "mine"}', "job.name: the pipeline sets this itself"),
        ('{"replicas": null}', "replicas None: must be an object"),
        ("[]", "parameter job: '[]' is not a JSON object"),
    ],
)
def test_a_wrong_field_of_the_job_is_refused(pipeline, value, said):
    with pytest.raises(InputError) as caught:
        pipeline.complete(pipeline.given([f"job={value}"], None))
    assert str(caught.value).startswith(said)


def test_tensorflow_trains_with_parameter_servers_where_a_parameter_says_so():
    pipeline = catalog.load("tensorflow-training")
    given = pipeline.complete(pipeline.given(["parameter_servers=2", 'job={"retries": 3}'], None))
    assert (given["workers"], given["parameter_servers"]) == (-1, 2)
    assert pipeline.trainings(given).job.roles["worker"].count == 2
    for wrong, said in (
        ("parameter_servers=-1", "parameter_servers -1: must not be negative"),
        ("processes_per_worker=2", "tensorflow-training has no parameter 'processes_per_worker'"),
        ('job={"elastic": {"min": 1, "max": 2}}', "elastic: only pytorch jobs can be elastic"),
    ):
        with pytest.raises(InputError, match=said):
            pipeline.complete(pipeline.given([wrong], None))


@pytest.mark.slow
def test_compile_writes_the_golden_file_every_time(tmp_path, golden):
    folders = [tmp_path / "one", tmp_path / "two" / "deeper"]
    processes = [
        # Another seed gives sets another order.
        start("compile", "-o", str(folder), home=tmp_path / "home", PYTHONHASHSEED=str(seed))
        for seed, folder in enumerate(folders, start=1)
    ]
    files = [f"{name}.yaml" for name in PIPELINES]
    texts = []
    for process, folder in zip(processes, folders, strict=True):
        output, error = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, error
        assert output == "".join(f"{folder / file}\n" for file in files)
        assert sorted(file.name for file in folder.iterdir()) == sorted(files)
        texts.append({file: (folder / file).read_text() for file in files})
    assert texts[0] == texts[1]
    for file, text in texts[0].items():
        golden(file, text)
    assert not (tmp_path / "home").exists()


def test_compiled_with_claims_every_step_has_them_mounted(trireme, tmp_path):
    options = ["--dataset-claim", "flowers", "--dataset-claim", "birds", "--cache-claim", "cache"]
    names = list(PIPELINES)
    assert trireme("compile", *names, "-o", str(tmp_path / "with"), *options)[0] == 0
    assert trireme("compile", *names, "-o", str(tmp_path / "without"))[0] == 0
    expected = [
        ("flowers", str(volumes.DATASETS / "flowers")),
        ("birds", str(volumes.DATASETS / "birds")),
        ("cache", str(volumes.CACHE)),
    ]
    for name in names:
        spec, platform = yaml.safe_load_all((tmp_path / "with" / f"{name}.yaml").read_text())
        executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        assert set(executors) == set(spec["deploymentSpec"]["executors"])
        for executor in executors.values():
            config = json_format.ParseDict(executor, KubernetesExecutorConfig())
            found = [
                (mount.pvc_name_parameter.runtime_value.constant.string_value, mount.mount_path)
                for mount in config.pvc_mount
            ]
            assert found == expected
            del executor["pvcMount"]
        before = yaml.safe_load_all((tmp_path / "without" / f"{name}.yaml").read_text())
        kept = {name: executor for name, executor in executors.items() if executor}
        platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"] = kept
        assert [spec, platform] == list(before)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dataset-claim", "Flowers"], "--dataset-claim 'Flowers': must be the name of"),
        (["--cache-claim", "a b"], "--cache-claim 'a b': must be the name of"),
        (["--dataset-claim", "a", "--dataset-claim", "a"], "--dataset-claim 'a': this claim is"),
        (["--dataset-claim", "a", "--cache-claim", "a"], "--cache-claim 'a': this claim is"),
    ],
)
def test_claims_that_cannot_be_are_refused(options, said, trireme, tmp_path):
    status, _, error = trireme("compile", "-o", str(tmp_path / "out"), *options)
    assert (status, error.count("\n")) == (2, 1)
    assert said in error
    assert not (tmp_path / "out").exists()


def test_compile_into_a_place_that_cannot_be_is_one_sentence(trireme, tmp_path):
    (tmp_path / "file").write_text("here already")
    status, _, error = trireme("compile", "-o", str(tmp_path / "file"))
    assert status == 2
    assert error.startswith("error: --output ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("wrong", ["../../../x", "/tmp/x", "..", ".done", "", "a/b", "n" * 201])
@pytest.mark.parametrize("command", [["compile"], ["compile", "--target", "argo"], ["run"]])
def test_no_name_in_a_compiled_pipeline_becomes_a_path(
    trireme, untracked, tmp_path, command, wrong
):
    golden = Path(__file__).parents[2] / "golden"
    spec, platform = yaml.safe_load_all((golden / "pytorch-training.yaml").read_text())
    pipeline, task, output = (copy.deepcopy(spec) for _ in range(3))
    pipeline["pipelineInfo"]["name"] = wrong
    tasks = task["root"]["dag"]["tasks"]
    tasks[wrong] = tasks.pop("checkout")
    outputs = output["components"]["comp-checkout"]["outputDefinitions"]["parameters"]
    outputs[wrong] = outputs.pop("path")
    for changed in (pipeline, task, output):
        file = tmp_path / "given" / "pipeline.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump_all([changed, platform]))
        out = ["-o", str(tmp_path / "a" / "b" / "c" / "out")] if command[0] == "compile" else []
        status, _, error = trireme(*command, str(file), *out)
        assert (status, error.count("\n")) == (2, 1)
        assert {*tmp_path.iterdir()} <= {file.parent, untracked}
        assert not untracked.exists() or not any(untracked.iterdir())


def test_compile_of_an_unknown_pipeline_writes_nothing(trireme, tmp_path):
    status, _, error = trireme("compile", "pytorch-training", "mxnet", "-o", str(tmp_path / "out"))
    assert status == 2
    assert "there is no pipeline 'mxnet'" in error
    assert not (tmp_path / "out").exists()


def test_what_does_not_fit_on_a_command_line_is_refused(pipeline):
    with pytest.raises(InputError, match="the parameters have"):
        pipeline.complete(pipeline.given(["args=" + json.dumps(["x" * 120_000])], None))


def test_what_kfp_would_replace_is_refused(pipeline):
    placeholder = '{{$.inputs.parameters["seed"]}}'
    with pytest.raises(InputError, match="placeholder"):
        pipeline.complete(pipeline.given(["args=" + json.dumps([placeholder])], None))


def test_passwords_are_not_shown_with_a_tracking_uri():
    assert public("postgresql://ada:secret@db:5432/mlflow") == "postgresql://db:5432/mlflow"
    assert public("https://ada:secret@example.org") == "https://example.org"
    assert public("sqlite:////home/ada/mlflow.db") == "sqlite:////home/ada/mlflow.db"
