"""trireme/models/load.py: models come back as saved, and nothing else runs."""

import io
import json
import os
import pickle
import re
import sys
import zipfile

import numpy as np
import pytest
import torch
from malicious import Malicious
from torch import nn

from trireme.models import comparison
from trireme.models.load import load_model
from trireme.models.trained import NotLoadable

ENTRYPOINT = "trainers/train.py"

NETWORK = """
from torch import nn

class Small(nn.Module):
    def __init__(self, inputs=4, outputs=3):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.layer(x))

def fails():
    raise RuntimeError("no network today")

def no_module():
    return 7
"""

X = torch.arange(8.0).reshape(2, 4)


@pytest.fixture
def code(tmp_path):
    """A repository with a network beside the training program and one at its root."""
    directory = tmp_path / "code"
    (directory / "trainers").mkdir(parents=True)
    (directory / "trainers" / "small_network.py").write_text(NETWORK)
    (directory / "root_network.py").write_text(NETWORK)
    yield directory
    for name in ("small_network", "root_network"):
        sys.modules.pop(name, None)


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    return directory


@pytest.fixture
def linear():
    torch.manual_seed(0)
    return nn.Linear(4, 3)


@pytest.fixture
def state(linear):
    return {f"layer.{name}": value for name, value in linear.state_dict().items()}


def refusal(model, code, factory="") -> str:
    with pytest.raises(NotLoadable) as caught:
        load_model(model, code, ENTRYPOINT, factory)
    message = str(caught.value)
    assert message.strip()
    assert "\n" not in message
    return message


@pytest.mark.slow
def test_an_exported_program_needs_no_code(model, tmp_path, linear):
    program = torch.export.export(linear, (X,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, model / "model.pt2")
    (model / "weights.pt").write_text("an exported program goes first")
    loaded = load_model(model, tmp_path / "no-code", ENTRYPOINT)
    assert torch.equal(loaded.network(X[:1]), linear(X[:1]))


@pytest.mark.parametrize("module", ["small_network", "root_network"])
@pytest.mark.parametrize("name", ["model.pt", "weights.pth", "pytorch_model.bin", "sub/model.pt"])
def test_weights_that_name_their_factory_are_loaded(model, code, linear, state, module, name):
    saved = {"factory": f"{module}:Small", "arguments": {"outputs": 3}, "state_dict": state}
    (model / name).parent.mkdir(exist_ok=True)
    torch.save(saved, model / name)
    loaded = load_model(model, code, ENTRYPOINT)
    assert not loaded.network.training
    assert torch.equal(loaded.network(X), linear(X))


def test_arguments_of_the_factory_are_optional(model, code, linear, state):
    torch.save({"factory": "small_network:Small", "state_dict": state}, model / "model.pt")
    assert torch.equal(load_model(model, code, ENTRYPOINT).network(X), linear(X))


def test_bare_weights_are_loaded_with_a_factory(model, code, linear, state):
    torch.save(state, model / "model.pt")
    loaded = load_model(model, code, ENTRYPOINT, "small_network:Small")
    assert torch.equal(loaded.network(X), linear(X))


def test_what_data_parallelism_puts_before_names_is_taken_away(model, code, linear, state):
    torch.save({f"module.{name}": value for name, value in state.items()}, model / "model.pt")
    loaded = load_model(model, code, ENTRYPOINT, "small_network:Small")
    assert torch.equal(loaded.network(X), linear(X))


def test_a_network_with_a_part_called_module_is_loaded(model, code, linear):
    (code / "trainers" / "small_network.py").write_text(
        "from torch import nn\n"
        "class Wrapped(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.module = nn.Linear(4, 3)\n"
        "    def forward(self, x):\n"
        "        return self.module(x)\n"
    )
    state = {f"module.{name}": value for name, value in linear.state_dict().items()}
    saved = {"factory": "small_network:Wrapped", "state_dict": state}
    torch.save(saved, model / "model.pt")
    assert torch.equal(load_model(model, code, ENTRYPOINT).network(X), linear(X))


def test_a_file_called_model_goes_before_others(model, code, linear, state):
    torch.save({"optimizer": 1}, model / "last.pt")
    torch.save({"factory": "small_network:Small", "state_dict": state}, model / "model.pt")
    assert torch.equal(load_model(model, code, ENTRYPOINT).network(X), linear(X))


def test_the_search_path_is_as_before(model, code, state):
    before = sys.path[:]
    torch.save({"factory": "small_network:Small", "state_dict": state}, model / "model.pt")
    load_model(model, code, ENTRYPOINT)
    assert sys.path == before


def test_torchscript_is_refused_by_its_name(model, code, linear):
    torch.jit.trace(linear, X[:1]).save(model / "model.pt")
    told = refusal(model, code, "small_network:Small")
    assert told == (
        "model.pt is not a file of weights: it is TorchScript, which is not loaded; let the "
        "program save the state_dict, or with torch.export.save to model.pt2"
    )


def test_an_empty_directory_is_refused(model, code):
    assert "left nothing in MODEL_DIR" in refusal(model, code)


def test_several_files_are_refused_by_name(model, code, state):
    for name in ("a.pt", "b.pt"):
        torch.save(state, model / name)
    assert "left a.pt, b.pt in MODEL_DIR" in refusal(model, code)


def test_files_of_other_kinds_are_refused_by_name(model, code):
    (model / "model.h5").write_text("something else")
    assert "left model.h5 in MODEL_DIR" in refusal(model, code)


def test_bare_weights_without_a_factory_are_refused(model, code, state):
    torch.save(state, model / "model.pt")
    assert "give model_factory=module:callable" in refusal(model, code)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_a_malicious_pickle_is_refused_and_does_not_run(model, code, tmp_path, plain, nested):
    mark = tmp_path / "ran"
    content = {"factory": "small_network:Small", "state_dict": Malicious(mark)}
    if plain:
        (model / "model.pt").write_bytes(pickle.dumps(content if nested else Malicious(mark)))
    else:
        torch.save(content if nested else Malicious(mark), model / "model.pt")
    assert "model.pt is not a file of weights" in refusal(model, code)
    assert not mark.exists()


def test_a_whole_pickled_network_is_refused(model, code, linear):
    torch.save(linear, model / "model.pt")
    assert "model.pt is not a file of weights" in refusal(model, code)


def poisoned(model, part: str, mark) -> None:
    """Saves an exported program, and puts a malicious pickle into a part of the file."""
    file = model.parent / "model.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 3), (X,)), file)
    written = io.BytesIO()
    torch.save(Malicious(mark), written)
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(model / "model.pt2", "w") as copy:
        for name in source.namelist():
            content = source.read(name)
            if part in name:
                content = written.getvalue()
            if part in ("weights/weight_", "opaque", "OPAQUE") and name.endswith("_config.json"):
                content = config(part, content)
            copy.writestr(name, content)
        if part in ("opaque", "OPAQUE"):  # torch finds either
            copy.writestr(f"model/data/constants/{part}_obj_0", pickle.dumps(Malicious(mark)))


def config(part: str, content: bytes) -> bytes:
    described = json.loads(content)
    for entry in described["config"].values():
        entry["use_pickle"] = True
    if part in ("opaque", "OPAQUE") and not described["config"]:  # that of the constants
        described["config"]["x"] = {
            "path_name": "opaque_obj_0",
            "is_param": False,
            "use_pickle": True,
            "tensor_meta": None,
        }
    return json.dumps(described).encode()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["weights/weight_", "sample_inputs", "opaque", "OPAQUE"])
def test_a_malicious_pickle_in_an_exported_program_does_not_run(model, code, tmp_path, part):
    mark = tmp_path / "ran"
    poisoned(model, part, mark)
    assert "model.pt2 is not an exported program: " in refusal(model, code)
    assert not mark.exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
    # Also where it is only compared with another.
    assert not comparison.compare(model, model.parent).identical
    assert not mark.exists()


CALL = "__import__('pathlib').Path({mark!r}).touch()"


def first_node(program):
    return program["graph_module"]["graph"]["nodes"][0]


def outputs(program):
    """Has an item asked for by a text, of what may be any attribute."""
    arguments = [{"name": "", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}]
    arguments.append({"name": "", "arg": {"as_string": "__builtins__"}, "kind": 1})
    first_node(program).update(target="_operator.getitem", inputs=arguments)


def called(program, operation):
    """Puts a call of an operation with a text in place of the first one."""
    text = {"name": "x", "arg": {"as_string": f"touch {operation[1]}"}, "kind": 1}
    first_node(program).update(target=operation[0], inputs=[text])


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    {
        "a size": lambda program, mark: program["graph_module"]["graph"]["tensor_values"]["linear"][
            "sizes"
        ].__setitem__(0, {"as_expr": {"expr_str": CALL.format(mark=mark), "hint": None}}),
        "an operation": lambda program, mark: called(program, ("torch.os.system", mark)),
        "a file": lambda program, mark: called(program, ("torch.ops.aten.save.default", mark)),
        "an item": lambda program, mark: outputs(program),
        "a weight's name": lambda program, mark: program["graph_module"]["signature"][
            "input_specs"
        ][0]["parameter"].update(parameter_name="print_readable.__func__.__globals__"),
        "a guard": lambda program, mark: program.update(guards_code=[CALL.format(mark=mark)]),
        "a comment": lambda program, mark: program.update(
            guards_code=[f'1 # ", {CALL.format(mark=mark)}) #']
        ),
        "a name": lambda program, mark: program["graph_module"]["module_call_graph"][0][
            "signature"
        ].update(forward_arg_names=[f"x={CALL.format(mark=mark)}"]),
        "a keyword": lambda program, mark: program["graph_module"]["module_call_graph"][0][
            "signature"
        ].update(
            in_spec=json.dumps([1, {"type": "builtins.dict", "context": json.dumps([mark + "()"])}])
        ),
    }.items(),
    ids=lambda change: change[0],
)
def test_code_in_an_exported_program_does_not_run(model, code, tmp_path, change):
    mark = tmp_path / "ran"
    file = tmp_path / "model.pt2"
    batch = torch.export.Dim("batch", min=1, max=1024)
    torch.export.save(
        torch.export.export(nn.Linear(4, 3), (X,), dynamic_shapes=({0: batch},)), file
    )
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(model / "model.pt2", "w") as copy:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("models/model.json"):
                program = json.loads(content)
                change[1](program, str(mark))
                content = json.dumps(program).encode()
            copy.writestr(name, content)
    assert re.search("is not loaded: it may (be|call) code", refusal(model, code))
    assert not mark.exists()


@pytest.mark.slow
def test_an_exported_program_with_guards_is_loaded(model, code):
    class Even(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = nn.ParameterDict({"größe-a": nn.Parameter(torch.ones(1))})

        def forward(self, x):
            x = (x * self.scales["größe-a"]).masked_fill(x < 0, float("-inf"))
            return x.reshape(2, -1).sum(1) if x.shape[0] % 2 == 0 and x.shape[0] < 100 else x

    program = torch.export.export(
        Even(), (torch.ones(4, 8),), dynamic_shapes=({0: torch.export.Dim.AUTO},)
    )
    torch.export.save(program, model / "model.pt2")
    loaded = load_model(model, code, ENTRYPOINT)
    assert loaded.predict(np.ones((6, 8), np.float32)).tolist() == [24.0, 24.0]


@pytest.mark.parametrize("number", ["float16", "bfloat16", "float64"])
def test_other_numbers_take_what_a_dataset_holds(model, code, state, linear, number):
    (code / "trainers" / "other_numbers.py").write_text(
        "import torch, small_network\n"
        f"def make():\n    return small_network.Small().to(torch.{number})\n"
    )
    torch.save(state, model / "model.pt")
    loaded = load_model(model, code, ENTRYPOINT, "other_numbers:make")
    sys.modules.pop("other_numbers")
    assert loaded.precision == number
    found = loaded.predict(X.numpy())
    assert found.dtype == (np.float64 if number == "float64" else np.float32)
    assert np.allclose(found, linear(X).detach().numpy(), atol=0.1)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_model_is_refused(model, code, content):
    (model / "model.pt").write_bytes(content)
    assert "model.pt is not a file of weights" in refusal(model, code)


def test_a_broken_exported_program_is_refused(model, code):
    (model / "model.pt2").write_bytes(b"text")
    assert "model.pt2" in refusal(model, code)


@pytest.mark.parametrize("content", [torch.zeros(3), [1, 2], 7])
def test_what_is_no_state_dictionary_is_refused(model, code, content):
    torch.save(content, model / "model.pt")
    said = refusal(model, code, "small_network:Small")
    assert f"holds a {type(content).__name__}, not a state dictionary" in said


@pytest.mark.parametrize("inner", [torch.zeros(3), None, {1: torch.zeros(3)}, {"layer.weight": 7}])
def test_a_state_dictionary_of_something_else_is_refused(model, code, inner):
    torch.save({"factory": "small_network:Small", "state_dict": inner}, model / "model.pt")
    refusal(model, code)


@pytest.mark.parametrize("factory", [7, ["small_network:Small"]])
def test_a_factory_that_is_no_text_is_refused(model, code, state, factory):
    torch.save({"factory": factory, "state_dict": state}, model / "model.pt")
    refusal(model, code)


def test_arguments_that_are_no_dictionary_are_refused(model, code, state):
    saved = {"factory": "small_network:Small", "arguments": [1], "state_dict": state}
    torch.save(saved, model / "model.pt")
    refusal(model, code)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("no_such_module:Small", "No module named 'no_such_module'"),
        ("small_network:Large", "has no attribute 'Large'"),
        ("small_network", "could not build the model"),
        ("small_network:", "could not build the model"),
        (":Small", "could not build the model"),
        ("small_network:fails", "RuntimeError: no network today"),
        ("small_network:no_module", "small_network:no_module"),
    ],
)
def test_a_wrong_factory_is_refused(model, code, state, factory, said):
    torch.save(state, model / "model.pt")
    assert said in refusal(model, code, factory)


def test_arguments_that_the_factory_does_not_take_are_refused(model, code, state):
    saved = {"factory": "small_network:Small", "arguments": {"depth": 9}, "state_dict": state}
    torch.save(saved, model / "model.pt")
    assert "depth" in refusal(model, code)


def test_weights_of_other_shapes_are_refused(model, code, state):
    saved = {"factory": "small_network:Small", "arguments": {"outputs": 5}, "state_dict": state}
    torch.save(saved, model / "model.pt")
    assert "does not fit small_network:Small" in refusal(model, code)


def test_weights_of_another_network_are_refused(model, code):
    torch.save({"other.weight": torch.zeros(3)}, model / "model.pt")
    assert "does not fit small_network:Small" in refusal(model, code, "small_network:Small")


def test_code_with_a_package_called_as_ours_is_loaded(model, code, linear, state):
    (code / "components").mkdir()
    (code / "components" / "__init__.py").touch()
    (code / "components" / "net.py").write_text(NETWORK)
    torch.save(state, model / "model.pt")
    loaded = load_model(model, code, ENTRYPOINT, "components.net:Small")
    assert torch.equal(loaded.network(X), linear(X))


def test_a_script_that_reads_its_arguments_when_imported_is_no_failure(model, code, state):
    script = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--must', required=True)"
    )
    (code / "trainers" / "script.py").write_text(f"{script}\np.parse_args()\n")
    torch.save(state, model / "model.pt")
    assert "script:Small" in refusal(model, code, "script:Small")


@pytest.mark.parametrize(
    "factory",
    ["os:system", "subprocess:check_output", "hostile:system", "hostile:os", "json:loads"],
)
def test_a_file_may_name_only_what_the_code_defines(model, code, state, tmp_path, factory):
    mark = tmp_path / "called"
    (code / "hostile.py").write_text("import os\nfrom os import system\n")
    (code / "json.py").write_text("class Small: pass\n")  # Python has its own
    arguments = {"command": f"touch {mark}"}
    saved = {"factory": factory, "arguments": arguments, "state_dict": state}
    torch.save(saved, model / "model.pt")
    assert "which the training code does not define" in refusal(model, code)
    assert not mark.exists()


def test_a_folder_of_the_code_does_not_have_a_module_of_that_name_imported(model, code, state):
    (code / "this").mkdir()  # Python's own prints a poem when it is imported
    saved = {"factory": "this:s", "arguments": {}, "state_dict": state}
    torch.save(saved, model / "model.pt")
    assert "which the training code does not define" in refusal(model, code)
    assert "this" not in sys.modules


def test_a_person_may_name_any_factory(model, code, state):
    saved = {"factory": "torch.nn:Linear", "arguments": {"in_features": 4, "out_features": 2}}
    torch.save(saved | {"state_dict": torch.nn.Linear(4, 2).state_dict()}, model / "model.pt")
    assert load_model(model, code, ENTRYPOINT, "torch.nn:Linear").weights == 10
