"""Jobs: their roles, the text and fields that they are made from, and the schema of these."""

import datetime
import math
import re

import jsonschema
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from shapes import SHAPES, TEXT, TRAINJOBS, descriptions
from small_jobs import MPI, PYTORCH, TENSORFLOW, job

from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.job.reading import merged


@pytest.mark.parametrize(
    ("fields", "roles", "world_size"),
    [
        (PYTORCH, {"master": 1}, 1),
        (PYTORCH | {"workers": 2, "processes_per_worker": 2}, {"master": 1, "worker": 2}, 6),
        (PYTORCH | {"workers": 999}, {"master": 1, "worker": 999}, 1000),
        (PYTORCH | {"elastic": {"min": 1, "max": 3}}, {"worker": 3}, 3),
        (PYTORCH | {"elastic": {"min": 1, "max": 3}, "workers": 2}, {"worker": 2}, 2),
        (PYTORCH | {"framework": "custom", "workers": 1}, {"master": 1, "worker": 1}, 2),
        (TENSORFLOW, {"worker": 1}, 1),
        (TENSORFLOW | {"replicas": {"chief": {}}}, {"chief": 1}, 1),
        (
            TENSORFLOW | {"workers": 2, "replicas": {"ps": {}, "chief": {}, "evaluator": {}}},
            {"chief": 1, "ps": 1, "worker": 2, "evaluator": 1},
            3,
        ),
        (MPI, {"launcher": 1, "worker": 1}, 1),
        (MPI | {"workers": 2, "processes_per_worker": 4}, {"launcher": 1, "worker": 2}, 8),
    ],
)
def test_workers_are_workers_and_every_process_that_trains_counts(fields, roles, world_size):
    described = TrainingJob.create(**fields)
    assert {role: replica.count for role, replica in described.roles.items()} == roles
    assert list(described.roles) == list(roles)
    assert described.world_size == world_size


def test_a_role_has_what_it_says_and_otherwise_what_the_job_says():
    roles = TrainingJob.create(**SHAPES["tensorflow-ps"]).roles
    assert (roles["chief"].cpu, roles["chief"].memory, roles["chief"].gpu) == ("4", "8Gi", 1)
    assert (roles["ps"].cpu, roles["ps"].memory, roles["ps"].gpu) == (None, "32Gi", None)
    assert (roles["evaluator"].command, roles["evaluator"].gpu) == (["python3", "evaluate.py"], 0)


@pytest.mark.parametrize(
    ("changes", "policy", "limit"),
    [
        ({}, "Never", 0),
        ({"retries": 3}, "OnFailure", 3),
        ({"restart_policy": "OnFailure"}, "OnFailure", None),
        ({"restart_policy": "ExitCode", "retries": 0}, "ExitCode", 0),
        ({"elastic": {"min": 1, "max": 2, "max_restarts": 5}}, "OnFailure", 10),
        ({"scheduling": {"spot": "gke"}}, "ExitCode", None),
        ({"framework": "mpi", "scheduling": {"spot": "gke"}}, "OnFailure", None),
    ],
)
def test_which_replicas_are_started_again_and_how_often(changes, policy, limit):
    described = job(**changes)
    assert {replica.restart_policy for replica in described.roles.values()} == {policy}
    assert described.restart_limit == limit


@pytest.mark.parametrize("name", SHAPES | TRAINJOBS)
def test_a_job_is_made_again_from_its_fields(name):
    described = TrainingJob.create(**(SHAPES | TRAINJOBS)[name])
    assert TrainingJob.create(**described.model_dump(exclude_unset=True)) == described
    assert TrainingJob.create(**described.model_dump()) == described
    assert TrainingJob.from_yaml(yaml.safe_dump(described.model_dump()), {}) == described


def test_yaml_needs_three_lines_for_a_job():
    described = TrainingJob.from_yaml("image: team/train:1\nentrypoint: train.py\nworkers: 2", {})
    assert described == TrainingJob.create(image="team/train:1", entrypoint="train.py", workers=2)


def test_text_in_yaml_stays_as_it_is_written():
    text = """
        entrypoint: train.py
        cpu: 1.50
        retries: 3
        suspend: true
        args: [1.10, 012, 12:30, 1_000, 0x1f, 2026-01-01, no, On, .nan, 1e-3, -7, "true", '']
        secret_env: ~
    """
    with pytest.raises(InputError, match=r"^secret_env: must be an object$"):
        TrainingJob.from_yaml(text, {})
    described = TrainingJob.from_yaml(text.replace("secret_env: ~", ""), {})
    words = "1.10 012 12:30 1_000 0x1f 2026-01-01 no On .nan 1e-3 -7 true"
    assert described.args == [*words.split(), ""]
    assert (described.cpu, described.retries, described.suspend) == ("1.50", 3, True)


def test_anchors_and_merged_mappings_in_yaml():
    described = TrainingJob.from_yaml(
        """
        framework: tensorflow
        entrypoint: train.py
        replicas:
          ps: &small {cpu: 1, memory: 2Gi}
          worker: {<<: *small, cpu: 4, count: 2}
        """,
        {},
    )
    worker = described.roles["worker"]
    assert (worker.cpu, worker.memory, worker.count) == ("4", "2Gi", 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a, b]", "the job must map the names of fields to values"),
        ("train.py", "the job must map the names of fields to values"),
        ("1: 2", "the job must map the names of fields to values"),
        ("a: [", "the job is not YAML: "),
        ("a: \x07", "the job is not YAML: "),
        ("? [a, b]\n: 1", "the job is not YAML: "),
        ("workers: " + 5000 * "9", "the job is not YAML that can be read: "),
        ("workers: !!int ''", "the job is not YAML: "),
        ("suspend: !!bool maybe", "the job is not YAML: "),
        ("image: !!python/name:os.system", "the job is not YAML: "),
        ("image: !!binary aGFsbG8=", "the job is not YAML: "),
        ("image: !!timestamp never", "the job is not YAML: "),
        ("args: " + 1000 * "[", "the job is not YAML that can be read: it is nested too deep"),
        ("image: a\nworkers: 1\nworkers: 2", "the job is not YAML: 'workers' is given twice"),
        (
            "args: &a [*a]",
            "the job is not YAML that can be read: it is nested too deep, or an alias",
        ),
        ("", "needs an entrypoint, a module or a command"),
    ],
)
def test_yaml_that_is_no_job_is_refused(text, said):
    with pytest.raises(InputError) as caught:
        TrainingJob.from_yaml(text, {})
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | TEXT | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def is_refused_or_taken(make):
    try:
        make()
    except InputError as error:
        assert "\n" not in str(error)


@given(st.text())
@example("a: &a [*a, *a]\n<<: *a")
@example("<<: 1")
@example("a: !!map [1]")
@example("!!str [a]: 1")
@example("%YAML 9.9\n--- {}")
@example("a: 1\n---\nb: 2")
def test_any_text_is_a_job_or_refused(text):
    is_refused_or_taken(lambda: TrainingJob.from_yaml(text, {}))


@given(st.dictionaries(st.sampled_from(list(TrainingJob.model_fields)), VALUES, max_size=3))
@example({"cpu": math.nan})
@example({"args": [datetime.date(2026, 1, 1)]})
@example({"name": "\ud800"})
@example({"dataset": {"\n": 1}})
@example({"workers": 10**5000})
def test_any_values_are_a_job_or_refused(fields):
    is_refused_or_taken(lambda: TrainingJob.create(**PYTORCH | fields))


@given(descriptions("training-operator"))
def test_any_job_is_made_again_from_its_fields(fields):
    try:
        described = TrainingJob.create(**fields)
    except InputError:
        return
    assert TrainingJob.create(**described.model_dump()) == described


def test_further_fields_win_and_add_to_mappings():
    fields = {"workers": 1, "env": {"A": "1", "B": "2"}, "args": ["a"]}
    more = {"workers": 2, "env": {"B": "3"}, "args": ["b"], "gpu": 1}
    both = {"workers": 2, "env": {"A": "1", "B": "3"}, "args": ["b"], "gpu": 1}
    assert merged(fields, more) == both
    assert fields["env"] == {"A": "1", "B": "2"}


@pytest.fixture(scope="module")
def schema():
    return TrainingJob.model_json_schema()


def test_the_schema_describes_every_field_in_one_line(schema):
    for name, part in ({"TrainingJob": schema} | schema["$defs"]).items():
        assert part["additionalProperties"] is False
        assert re.fullmatch(r"[A-Z].*\.", part["description"])
        for field, described in part["properties"].items():
            sentence = described.get("description", "")
            assert re.fullmatch(r"[A-Z`/].*\.", sentence), f"{name}.{field}: {sentence!r}"


@pytest.mark.parametrize("name", SHAPES | TRAINJOBS)
def test_the_schema_takes_what_the_description_takes(name, schema):
    jsonschema.validate((SHAPES | TRAINJOBS)[name], schema)


@pytest.mark.parametrize("fields", [{"cpu": 4}, {"args": [1, "a"]}, {"image": ""}])
def test_the_schema_takes_a_number_where_text_is_meant(fields, schema):
    jsonschema.validate(PYTORCH | fields, schema)
    assert job(**fields)


@pytest.mark.parametrize("fields", [{"wrokers": 1}, {"workers": "2"}, {"elastic": {"min": 1}}])
def test_the_schema_refuses_what_the_description_refuses(fields, schema):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(PYTORCH | fields, schema)
