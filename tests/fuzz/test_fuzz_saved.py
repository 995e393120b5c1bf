"""trireme.yaml: trireme/pipeline/saved.py. And the files of --shape, --images and prices."""

import pytest
from fuzzing import changed_text, corpus, fuzz, read_or_refused

from trireme.compiling import images, shape
from trireme.cost import prices
from trireme.pipeline import saved
from trireme.text import yaml_text

VALID = [file.read_text() for file in corpus("saved", "valid-*")]
SHAPES = [file.read_text() for file in corpus("shape", "valid-*")]
PRICES = [file.read_text() for file in corpus("prices", "valid-*")]
PINNED = f"ghcr.io/trireme/base: registry.example.org/base@sha256:{64 * 'a'}\n"


def read_prices(file):
    return prices.parse(yaml_text.text_of(file, "prices"), "prices")


def read(file):
    found = saved.read(file)
    for kind, named in found:
        for name, content in named.items():
            entry = saved.Entry(kind, name, content, file)
            read_or_refused(saved.check, entry, ["local", "kfp", "argo"])
            assert isinstance(entry.in_a_word, str)
    return found.model_fields_set


@pytest.mark.parametrize("file", corpus("saved"), ids=lambda file: file.stem)
def test_the_corpus(file):
    assert bool(read_or_refused(read, file)) == file.stem.startswith("valid-")


@pytest.mark.parametrize(
    ("kind", "parse"), [("shape", shape.read), ("prices", read_prices)], ids=["shape", "prices"]
)
def test_the_corpus_of_shapes_and_prices(kind, parse):
    for file in corpus(kind):
        assert bool(read_or_refused(parse, file)) == file.stem.startswith("valid-")


@fuzz(150, text=changed_text(VALID))
def test_saved_configurations_are_read_or_refused_in_a_sentence(text, tmp_path):
    file = tmp_path / "trireme.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    read_or_refused(read, file)


@fuzz(150, text=changed_text([*SHAPES, *PRICES, PINNED]))
def test_shapes_images_and_prices_are_read_or_refused_in_a_sentence(text, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    read_or_refused(shape.read, file)
    read_or_refused(read_prices, file)
    read_or_refused(images.read, file, [])
