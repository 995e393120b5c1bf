"""--images: images by their digests, in all that is compiled, uploaded, run and scheduled."""

import json

import pytest
import yaml

from trireme.images import BASE, OF_REPLICAS, PYTORCH

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
PINS = {
    image: f"registry.example.org/{number}@{DIGEST}"
    for number, image in enumerate((BASE, *OF_REPLICAS))
}


@pytest.fixture
def images(tmp_path):
    """A file of images, written anew with other content by whoever wants that."""
    file = tmp_path / "images.yaml"
    file.write_text(yaml.safe_dump(PINS))
    return file


def test_every_image_is_replaced_and_nothing_else(trireme, images, tmp_path):
    for directory, options in (("as-is", []), ("pinned", ["--images", str(images)])):
        status, _, errors = trireme("compile", "-o", str(tmp_path / directory), *options)
        assert status == 0
        notes = [line.partition(",")[0] for line in errors.splitlines()]
        assert notes == ([] if options else ["note: without a digest"])
    for file in (tmp_path / "as-is").iterdir():
        made = list(yaml.safe_load_all((tmp_path / "pinned" / file.name).read_text()))
        (given,) = pulled(made)  # of which the other says nothing
        assert given == {name: PINS[name] for name in OF_REPLICAS}
        assert made == with_pins(list(yaml.safe_load_all(file.read_text())))
        assert not any(name in text for text in texts(made) for name in PINS)


def pulled(value):
    """Takes out of a document what training steps pull for which name."""
    if isinstance(value, dict):
        given = value.get("parameters", {}).get("images", {}).get("runtimeValue", {})
        if given.get("constant", {}).keys() >= set(OF_REPLICAS):
            del value["parameters"]["images"]
            return [given["constant"]]
        return [one for inner in value.values() for one in pulled(inner)]
    return [one for inner in value for one in pulled(inner)] if isinstance(value, list) else []


def with_pins(value):
    if isinstance(value, dict):
        return {key: with_pins(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_pins(inner) for inner in value]
    return PINS.get(value, value)


def texts(value):
    """Yields all texts in a document, but for the names of fields."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("pipeline", ["pytorch-training", "tensorflow-training", "retraining"])
@pytest.mark.parametrize("target", ["argo", "kfp"])
def test_a_plan_shows_and_probes_what_will_be_pulled(trireme, images, pipeline, target):
    words = ("plan", pipeline, "--target", target, "--no-check", "-o", "json")
    status, output, _ = trireme(*words, "--images", str(images))
    assert status == 0
    without = json.loads(trireme(*words)[1])
    assert "without a digest" in without["warnings"].pop()
    assert json.loads(output) == with_pins(without)
    assert not any(name in text for text in texts(json.loads(output)) for name in PINS)


def test_a_plan_takes_the_pin_of_an_image_of_ones_own(trireme, tmp_path):
    (tmp_path / "own.py").write_text(
        "from kfp import dsl\n"
        '@dsl.component(base_image="example.org/mine:1")\n'
        "def hello(): ...\n"
        "@dsl.pipeline(name='own')\n"
        "def own(): hello()\n"
    )
    pinned = f"example.org/mine@sha256:{'a' * 64}"
    (tmp_path / "images.yaml").write_text(f"example.org/mine:1: {pinned}")
    words = ("plan", str(tmp_path / "own.py"), "--target", "argo", "--no-check", "-o", "json")
    status, output, _ = trireme(*words, "--images", str(tmp_path / "images.yaml"))
    assert status == 0
    assert pinned in texts(json.loads(output))


def test_it_is_compiled_the_same_byte_for_byte(trireme, images, tmp_path):
    made = []
    for directory in ("one", "two"):
        place = tmp_path / directory
        trireme("compile", "pytorch-training", "-o", str(place), "--images", str(images))
        made.append((place / "pytorch-training.yaml").read_bytes())
    assert made[0] == made[1]


def test_runs_and_schedules_get_them_unless_they_name_another(trireme, kubeflow, images):
    run = ("run", "pytorch-training", "--target", "kfp", "--no-wait", "--images", str(images))
    assert trireme(*run)[0] == 0
    assert PINS[PYTORCH] in texts(next(iter(kubeflow.versions.values()))["pipeline_spec"])
    kubeflow.runs.clear()
    assert trireme(*run, "-p", "image=mine:1")[0] == 0
    assert kubeflow.only_run()["runtime_config"]["parameters"]["image"] == "mine:1"
    at_night = ("schedule", "pytorch-training", "--cron", "0 3 * * *")
    assert trireme(*at_night, "--images", str(images))[0] == 0
    assert len(kubeflow.versions) == 1
    assert trireme(*at_night)[1].splitlines()[1].startswith("  version: ")
    assert len(kubeflow.versions) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("{", "is not YAML"),
        ("[a]", "must map names of images to images with digests"),
        ("", "must map names of images"),
        (f"{BASE}x: a@{DIGEST}", f"no pipeline uses '{BASE}x'; they use ghcr.io"),
        (f"{BASE}: registry.example.org/base:1", "'registry.example.org/base:1' for ghcr.io"),
        (f"{BASE}: registry.example.org/base@sha256:12", "has no digest"),
        (f"{BASE}: 7", "has no digest"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(trireme, kubeflow, images, content, said):
    if content is None:
        images.unlink()
    else:
        images.write_text(content)
    status, _, errors = trireme("upload", "pytorch-training", "--images", str(images))
    assert (status, errors.count("\n")) == (2, 1)
    assert errors.startswith(f"error: --images {images}")
    assert said in errors
    assert kubeflow.seen == []
