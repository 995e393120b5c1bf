"""Finding a pipeline: one of Trireme's own, of an installed package, in a file, or compiled."""

import ast
import difflib
import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from linecache import getlines
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import trireme
from trireme import plugins
from trireme.errors import InputError, TriremeError, first_line
from trireme.own_pipelines import PIPELINES
from trireme.pipeline.pipeline import Pipeline
from trireme.pipeline.program import is_program
from trireme.step_names import ONCE
from trireme.text import yaml_text

if TYPE_CHECKING:
    from trireme.graph.graph import Graph

COMPILED = (".yaml", ".yml", ".json")


def load(reference: Any, modules: dict[Path, ModuleType] | None = None) -> Pipeline:
    """Returns a pipeline.

    Args:
        reference: The name of one of Trireme's own or of an entry point, ``FILE.py``,
            ``FILE.py:FUNCTION``, or a YAML file that kfp has compiled; or a function with
            ``@dsl.pipeline``.
        modules: The files that have been run, which are not run again for another of their
            functions.

    Raises:
        InputError: There is none, or it cannot be loaded; one sentence.
    """
    if not isinstance(reference, str | os.PathLike):
        return _of_function(reference)
    reference = os.fspath(reference)
    path, function = _parts(reference)
    if path.endswith(".py"):
        return _of_file(Path(path), function, reference, {} if modules is None else modules)
    if reference.endswith(COMPILED):
        return _of_yaml(Path(reference))
    if reference in PIPELINES:
        identifier = reference.replace("-", "_")
        module = importlib.import_module(f"trireme.pipelines.{identifier}")
        return _pipeline(getattr(module, identifier), module)
    if entry := added().get(reference):
        return _of_entry_point(entry)
    raise InputError(_unknown(reference))


def added() -> dict[str, EntryPoint]:
    """Returns the pipelines that other packages offer, by name."""
    return plugins.found(plugins.PIPELINES, PIPELINES)


def is_known(reference: str) -> bool:
    """Tells whether a word can only be meant as a pipeline."""
    path, _ = _parts(reference)
    is_file = path.endswith((".py", *COMPILED))
    return is_file or reference in PIPELINES or reference in added()


def _parts(reference: str) -> tuple[str, str]:
    """Returns the file of a reference, and the function in it; folders may have colons, too."""
    path, colon, function = reference.rpartition(":")
    return (path, function) if colon and "/" not in function else (reference, "")


def _unknown(reference: str) -> str:
    names = [*PIPELINES, *added()]
    is_path = "/" in reference or "." in reference
    close = [] if is_path else difflib.get_close_matches(reference, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)};"
    files = "a file is FILE.py, or YAML that kfp compiled"
    if Path(_parts(reference)[0]).exists():
        return f"{reference!r} is no pipeline: {files}"
    return f"there is no pipeline {reference!r}; {hint} {files}"


def _of_file(
    path: Path, function: str, reference: str, modules: dict[Path, ModuleType]
) -> Pipeline:
    if not path.is_file():
        raise InputError(f"{reference}: there is no file {path}")
    if (file := path.resolve()) not in modules:
        with _explained(reference, file):
            _refuse_other_programs(file, reference)
            modules[file] = _imported(file)
    graph = _chosen(modules[file], function, reference)
    return _pipeline(graph, modules[file], file.parent)


def _refuse_other_programs(file: Path, reference: str) -> None:
    """Refuses a program without a pipeline, which would do its work when it is imported."""
    if is_program(file):
        raise InputError(
            f"{reference}: it has no function with @dsl.pipeline; to train with it: trireme run "
            f"{reference}"
        )


def _of_function(graph: Any) -> Pipeline:
    if not _is_pipeline(graph):
        raise InputError(f"{graph!r} is not a function with @dsl.pipeline")
    module = sys.modules[graph.pipeline_func.__module__]
    file = getattr(module, "__file__", None)  # a notebook has none
    return _pipeline(graph, module, Path(file).resolve().parent if file else Path.cwd())


def _of_entry_point(entry: EntryPoint) -> Pipeline:
    label = plugins.called(entry)
    module = None
    with _explained(label, None):
        loaded = entry.load()
        module = sys.modules[entry.module]
    graph = _chosen(loaded, "", label) if isinstance(loaded, ModuleType) else loaded
    if not _is_pipeline(graph):
        raise InputError(f"{label}: {entry.value} is not a function with @dsl.pipeline")
    return _pipeline(graph, module, Path(module.__file__ or ".").resolve().parent)


def _of_yaml(file: Path) -> Pipeline:
    from trireme.graph import reading

    text = yaml_text.text_of(file, str(file))
    yaml_text.check(text, str(file))
    try:
        graph = reading.of_yaml(text)
        pipeline = Pipeline(graph.name, graph, source=file.resolve().parent)
        pipeline.parameters  # noqa: B018 - what is read later is not looked for in vain then
        _refuse_repeated(pipeline)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except Exception as error:  # kfp's readers raise whatever they do
        why = " ".join(first_line(error).split())
        if isinstance(error, KeyError):
            why = f"it has no {error}; 'trireme job submit' takes the YAML of a job"
        raise InputError(f"{file} is not a pipeline that kfp compiled: {why}") from None
    return pipeline


def _pipeline(graph: Any, module: ModuleType, source: Path | None = None) -> Pipeline:
    """Returns a pipeline with what its module says besides of its parameters."""
    offered = {
        name: value
        for name in ("check", "trainings", "planned")
        if callable(value := getattr(module, name, None)) and not _is_pipeline(value)
    }
    read = _read(graph)
    pipeline = Pipeline(read.name, read, source=source, **offered)
    if source is not None:
        _refuse_repeated(pipeline)
    return pipeline


def _read(graph: Any) -> "Graph":
    """Returns what kfp has made of a function."""
    from trireme.graph import reading

    try:
        return reading.of_pipeline(graph)
    except (ValueError, KeyError, TypeError) as error:
        name = graph.pipeline_func.__name__
        raise InputError(
            f"{name}: kfp's compiler wrote what cannot be read: {first_line(error)}"
        ) from None


def _refuse_repeated(pipeline: Pipeline) -> None:
    """Refuses a step twice that has one place in the run workspace, if both would run."""
    for name in ONCE:
        paths = pipeline.graph.paths_of(name)
        groups = [path[:-1] for path in paths]
        is_looped = any(task.is_loop for path in paths for task in path)
        if is_looped or any(groups.count(group) > 1 for group in groups):
            how = "in a loop" if is_looped else "twice"
            raise InputError(
                f"{pipeline.name} has the step {name} {how}, and the second would replace what the "
                "first leaves in the run's workspace; make them two pipelines, or a sweep of trials"
            )


def _chosen(module: ModuleType, function: str, reference: str) -> Any:
    """Returns the pipeline of a module that is meant."""
    graphs = {
        name: value
        for name, value in vars(module).items()
        if _is_pipeline(value) and value.pipeline_func.__module__ == module.__name__
    }
    if function:
        if function not in graphs:
            names = ", ".join(graphs) or "none"
            raise InputError(
                f"{reference}: it has no pipeline {function!r} with @dsl.pipeline; there are "
                f"{names}"
            )
        return graphs[function]
    if not graphs:
        raise InputError(f"{reference}: it has no function with @dsl.pipeline")
    if len(graphs) > 1:
        file = Path(module.__file__ or reference).name
        choices = " or ".join(f"{file}:{name}" for name in graphs)
        raise InputError(f"{reference}: it has several pipelines; say which: {choices}")
    return next(iter(graphs.values()))


def _is_pipeline(value: Any) -> bool:
    from kfp.dsl.graph_component import GraphComponent

    return isinstance(value, GraphComponent)


def _imported(file: Path) -> ModuleType:
    """Runs a file as a module; what is beside it can be imported meanwhile."""
    # Its folder comes last on the path, so that installed packages are found as without it.
    name = f"trireme_file_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(file.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(file.parent))
    return module


@contextmanager
def _explained(label: str, file: Path | None) -> Iterator[None]:
    """Says in one sentence what is wrong with somebody's code, and where in it."""
    try:
        yield
    except TriremeError:
        raise
    except SyntaxError as error:
        is_own = file and error.filename == str(file.resolve())
        where = label if is_own or not error.filename else f"{label}: {error.filename}"
        line = f", line {error.lineno}" if error.filename else ""
        raise InputError(f"{where}{line}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        where, their_frames = "", [frame for frame in frames if _is_theirs(frame.filename)]
        if their_frames:
            last = their_frames[-1]
            is_own = file and last.filename == str(file.resolve())
            where = f"{'' if is_own else f': {last.filename}'}, {_lines(last, last is frames[-1])}"
        raise InputError(f"{label}{where}: {type(error).__name__}: {first_line(error)}") from None


def _lines(frame: traceback.FrameSummary, is_innermost: bool) -> str:
    """Says where a frame is: a function whose decorator refuses it is at fault anywhere."""
    number = frame.lineno or 0
    for node in () if is_innermost else ast.walk(ast.parse("".join(getlines(frame.filename)))):
        if isinstance(node, ast.FunctionDef) and any(
            decorator.lineno <= number <= (decorator.end_lineno or 0)
            for decorator in node.decorator_list
        ):
            return f"lines {number} to {node.end_lineno}"
    return f"line {number}"


def _is_theirs(file: str) -> bool:
    """Tells whether code is of neither Python, nor an installed package, nor Trireme."""
    if file.startswith("<") or {"site-packages", "dist-packages"} & {*Path(file).parts}:
        return False
    own_folders = (sysconfig.get_path("stdlib"), str(Path(trireme.__file__).parent))
    return not any(Path(file).is_relative_to(folder) for folder in own_folders)
