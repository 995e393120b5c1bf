"""Checks of a file of ``torch.export.save``, so that loading it executes nothing of it.

``torch.export.load`` of torch 2.13 believes the texts in it: ``sympy.sympify`` evaluates sizes,
operations are looked up as attributes of ``torch``, and Python source is made of names and guards
(torch/_export/serde/serialize.py, torch/export/_unlift.py, torch/fx/graph.py).
"""

import ast
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BEFORE_2_8 = "serialized_exported_program.json"  # a file of the form that torch 2.7 wrote

# Torch finds a record of its file whatever the case of the name, so every name is a known one.
_RECORD = re.compile(
    r"models/model\.json|data/sample_inputs/model\.pt|archive_(format|version)|byteorder|"
    r"data/(weights|constants)/((weight|tensor)_\d+|model_(weights|constants)_config\.json)|"
    r"\.data/(version|serialization_id)|\.format_version|\.storage_alignment",
    re.ASCII,
)

# Keys of the JSON whose texts are told to a person or to an operation, and nothing else.
_FREE = {"stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "as_string", "as_strings"}
_SHAPES_OF_ARGUMENTS = {"in_spec", "out_spec"}  # JSON in a text; its contexts are JSON again
_NUMBER = re.compile(r"-?Infinity|NaN")  # which JSON has none for
_NAME = re.compile(r"[\w.]*", re.ASCII)
# Names of weights, which may be keys of a ModuleDict, and which are looked up as attributes.
_OF_WEIGHTS = {"config", "parameter_name", "buffer_name", "fqn"}
_PATH = re.compile(r"[^\"'\\()\[\]{}<>#;=,\x00-\x1f]*")
_VERSION = re.compile(r"[\w.+]*", re.ASCII)
_WORDS = re.compile(r"[\w./ -]*", re.ASCII)

_OPERATION = re.compile(
    # ``aten`` has two operations that open a file by its name.
    r"torch\.ops\.(aten|prims|quantized_decomposed)\."
    r"(?!(from_file|save)\b)(?!__(?!(and|or|xor|lshift|rshift)__))\w+\.(?!__)\w+|"
    r"torch\.(sym_(float|int|ite|max|min|not|sqrt|sum)|_sym_\w+)|"
    r"math\.[a-z]\w*|"
    r"_operator\.(abs|add|and_|eq|floordiv|ge|getitem|gt|le|lshift|lt|mod|mul|ne|neg|not_|or_|pos|"
    r"pow|rshift|sub|truediv|xor)",
    re.ASCII,
)
# Operations that call something, and where their arguments have what they call.
_CALLERS = {
    "torch.ops.higher_order.cond": (1, 2),
    "torch.ops.higher_order.map_impl": (0,),
    "torch.ops.higher_order.scan": (0,),
    "torch.ops.higher_order.associative_scan": (0,),
    "torch.ops.higher_order.while_loop": (0, 1),
    "torch.ops.higher_order.wrap_with_set_grad_enabled": (1,),
    "torch.ops.higher_order.wrap_with_autocast": (4,),
}

# How sympy and torch/utils/_sympy write sizes, and what guards compare them by.
_FUNCTION = re.compile(
    r"Abs|Add|And|BitwiseFn_bitwise_and|BitwiseFn_bitwise_or|CeilDiv|CeilToInt|CleanDiv|Eq|Equality|"
    r"Float|FloatPow|FloatTrueDiv|FloorDiv|FloorToInt|GreaterThan|Identity|IntTrueDiv|Integer|"
    r"IsNonOverlappingAndDenseIndicator|LShift|LessThan|Max|Min|Mod|ModularIndexing|Mul|Ne|Not|Or|"
    r"Pow|PowByNatural|PythonMod|RShift|Rational|RoundDecimal|RoundToInt|StrictGreaterThan|"
    r"StrictLessThan|Symbol|ToFloat|TruncToFloat|TruncToInt|TruncToNum|Unequality|Where|ceiling|"
    r"floor|sqrt"
)
_VALUES = {"oo", "int_oo", "true", "false", "L"}
_SYMBOL = re.compile(r"(s|u|f|zf|zuf)\d+", re.ASCII)
_OF_A_TENSOR = {"size", "stride", "storage_offset"}  # what guards ask an argument, as L['x'].size()
_QUOTED = re.compile(r"[\w.+-]*", re.ASCII)


def check(file: Path) -> None:
    """Refuses, with a ValueError, a file that holds more than tensors and operations."""
    from torch.export.pt2_archive import PT2ArchiveReader

    with zipfile.ZipFile(file) as packed:
        if _BEFORE_2_8 in packed.namelist():
            raise ValueError("torch 2.7 or earlier has saved it; save it again with a later one")
    # As torch reads it, which may be something else where names are doubled.
    reader = PT2ArchiveReader(str(file))
    for name in reader.get_file_names():
        if not _RECORD.fullmatch(name):
            raise ValueError(f"it holds {name}, and only tensors and operations are loaded")
        if name.endswith(".json"):
            content = json.loads(reader.read_bytes(name))
            for key, text in _texts(content):
                if not _is_harmless(key, text):
                    raise ValueError(
                        f"its {key or 'key'} {text[:80]!r} is not loaded: it may be code"
                    )
            for node in _nodes(content):
                if not _calls_what_it_may(node):
                    raise ValueError(f"its {node['target'][:80]!r} is not loaded: it may call code")


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yields all calls of operations in a JSON value, and what looks like one."""
    if isinstance(value, dict):
        if isinstance(value.get("target"), str):
            yield value
        for below in value.values():
            yield from _nodes(below)
    elif isinstance(value, list):
        for below in value:
            yield from _nodes(below)


def _calls_what_it_may(node: dict[str, Any]) -> bool:
    """Tells whether what is called is a graph of the file, and an item is asked for by a number."""
    arguments = [node_input.get("arg", {}) for node_input in node.get("inputs", ())]
    if node["target"] == "_operator.getitem":
        return len(arguments) == 2 and arguments[1].keys() == {"as_int"}
    called = _CALLERS.get(node["target"], ())
    return all(
        index < len(arguments) and arguments[index].keys() == {"as_graph"} for index in called
    )


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yields all texts of a JSON value, with the key that they are below; keys have none."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield {"range_constraints": "expr_str", "config": "config"}.get(key, ""), name
            yield from _texts(below, name)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
    elif isinstance(value, str):
        yield key, value


def _is_harmless(key: str, text: str) -> bool:
    if key in _FREE:
        return True
    if key == "target":
        return text in _CALLERS or bool(_OPERATION.fullmatch(text))
    if key in ("as_float", "as_floats") and _NUMBER.fullmatch(text):
        return True
    if key in _OF_WEIGHTS:
        return bool(_PATH.fullmatch(text)) and not any(map(_is_of_modules, text.split(".")))
    if key in ("expr_str", "guards_code"):
        return _is_expression(text)
    if key in _SHAPES_OF_ARGUMENTS:
        return key == "out_spec" or all(_WORDS.fullmatch(word) for word in _texts_of_json(text))
    return bool((_VERSION if key == "torch_version" else _NAME).fullmatch(text))


def _is_of_modules(part: str) -> bool:
    """Tells whether a part of a name would be found in every module, and not among its weights."""
    import torch

    return part.startswith("__") or hasattr(torch.fx.GraphModule, part)


def _texts_of_json(text: str) -> Iterator[str]:
    for key, part in _texts(json.loads(text)):
        if key == "context":
            yield from _texts_of_json(part)
        else:
            yield part


def _is_expression(text: str) -> bool:
    """Tells whether a text is numbers, names and operators, and calls of what sizes are made by."""
    if set(text) & set('#"\\\r\n'):  # what is after a comment is not seen here, but pasted there
        return False
    try:
        return _is_harmless_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_harmless_node(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float)
        case ast.Name(id=name):
            return name in _VALUES or bool(_SYMBOL.fullmatch(name))
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
            return _is_harmless_node(value) and bool(_QUOTED.fullmatch(key))
        case ast.Call(func=ast.Name(id="Symbol" | "Float"), args=[ast.Constant(value=str(name))]):
            parts: list[ast.AST] = [keyword.value for keyword in node.keywords]
            return bool(_QUOTED.fullmatch(name)) and all(map(_is_harmless_node, parts))
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[], keywords=[]):
            return name in _OF_A_TENSOR and _is_harmless_node(value)
        case ast.Call(func=ast.Name(id=name)):
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
            return bool(_FUNCTION.fullmatch(name)) and all(map(_is_harmless_node, parts))
        case ast.UnaryOp() | ast.BinOp() | ast.BoolOp() | ast.Compare() | ast.Subscript():
            marks = ast.operator | ast.unaryop | ast.boolop | ast.cmpop | ast.expr_context
            parts = [child for child in ast.iter_child_nodes(node) if not isinstance(child, marks)]
            return all(map(_is_harmless_node, parts))
    return False
