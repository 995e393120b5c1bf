"""Pipelines that kfp has compiled: trireme/pipeline/catalog.py and trireme/graph/."""

import pytest
import yaml
from fuzzing import SOON, changed_text, changed_value, corpus, fuzz, read_or_refused

from trireme.pipeline import catalog

VALID = [file.read_text() for file in corpus("compiled", "valid-*")]


def load(file):
    """Does with a pipeline what every command does with it."""
    pipeline = catalog.load(file)
    given = {name: "a" for name, each in pipeline.parameters.items() if each.is_needed}
    read_or_refused(pipeline.complete, given)
    graph = pipeline.graph
    assert all(isinstance(name, str) for name in graph.images | graph.after_failures)
    return graph.step_names and f"{pipeline.display_name} {graph.description}"


@pytest.mark.parametrize("file", corpus("compiled"), ids=lambda file: file.stem)
def test_the_corpus(file):
    assert bool(read_or_refused(load, file)) == file.stem.startswith("valid-")


@fuzz(60, text=changed_text(VALID))
def test_a_compiled_pipeline_is_loaded_or_refused_in_a_sentence(text, tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    read_or_refused(load, file, within=3 * SOON)  # kfp reads it three times


@fuzz(60, spec=changed_value([list(yaml.safe_load_all(text)) for text in VALID]))
def test_a_pipeline_of_other_fields_is_loaded_or_refused_in_a_sentence(spec, tmp_path):
    file = tmp_path / "pipeline.yaml"
    if isinstance(spec, list):
        file.write_text(yaml.safe_dump_all(spec, sort_keys=False))
        read_or_refused(load, file, within=3 * SOON)
