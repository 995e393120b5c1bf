r"""The expressions that carry values from step to step, in the language of Argo's ``{{=…}}`` tags.

Argo substitutes text, and more than once: what it has put into a template it reads again for tags,
and of what a container gets the kubelet expands ``$(…)``. So values travel as JSON in which there
is neither ``{{`` nor ``$`` but ``{\u007b`` and ``\u0024``: the same value, and nothing to expand.

The language: https://expr-lang.org/docs/language-definition; what Argo adds to it:
https://argo-workflows.readthedocs.io/en/latest/variables/#expression
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = (
    *("in", "not", "and", "or", "matches", "contains", "startsWith", "endsWith"),
    *("let", "if", "else", "true", "false", "nil"),
    # No words of the language; but before 3.7.16 and 4.0.7 Argo waits for what they would be,
    # wherever they are in an expression.
    *("item", "retries"),
)
_TO_JSON = r" | toJson() | replace('{' + '{', '{\\u007b') | replace('$', '\\u0024')"


@dataclass(frozen=True)
class Value:
    """What a parameter or an artifact will be at run time.

    Attributes:
        native: An expression that evaluates to the value itself.
        text: An expression that evaluates to its JSON, where there is a shorter one than to encode
            ``native``.
        maybe_absent: Whether it may be null because nobody has given it.
    """

    native: str
    text: str = ""
    maybe_absent: bool = False

    @property
    def json(self) -> str:
        """An expression that evaluates to the value's JSON."""
        return self.text or to_json(self.native)

    @property
    def tag(self) -> str:
        """The value's JSON as an argument of Argo's."""
        return f"{{{{={self.json}}}}}"


@dataclass(frozen=True)
class Constant(Value):
    """A value that is known now; needs no expression, and no argument."""

    native: str = field(init=False, default="")
    value: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "native", native(self.value))
        object.__setattr__(self, "text", quoted(encoded(self.value)))

    @property
    def tag(self) -> str:
        """The value's JSON as an argument of Argo's."""
        return encoded(self.value)


def to_json(native: str) -> str:
    """Returns an expression that evaluates to the JSON of another one's value."""
    return f"{native}{_TO_JSON}"


def encoded(value: Any) -> str:
    """Returns a value's JSON in which there is nothing that Argo or the kubelet would expand."""
    text = json.dumps(value).replace("$", r"\u0024").replace("\x7f", r"\u007f")
    return re.sub(r"\{(?=\{)", r"\\u007b", text)


def quoted(text: str) -> str:
    """Returns a text as a string of the expression language."""
    letters = []
    for letter, after in zip(text, text[1:] + " ", strict=False):
        if letter in "'\\":
            letters.append(f"\\{letter}")
        elif not letter.isprintable() or (letter in "{}" and letter == after):
            letters.append(f"\\U{ord(letter):08x}")
        else:
            letters.append(letter)
    return f"'{''.join(letters)}'"


def member(of: str, name: str, *, guarded: bool = False) -> str:
    """Returns an expression for a member of a map; guarded, it is null where there is no map."""
    if _NAME.fullmatch(name) and name not in _KEYWORDS:
        return f"{of}{'?.' if guarded else '.'}{name}"
    return f"{of}{'?.' if guarded else ''}[{quoted(name)}]"


def parameter(name: str, *, maybe_absent: bool = False) -> Value:
    """Returns the value of an input parameter of the template that the expression is in."""
    return json_value(member("inputs.parameters", name), maybe_absent=maybe_absent)


def json_value(text: str, *, maybe_absent: bool = False) -> Value:
    """Returns the value whose JSON an expression evaluates to."""
    return Value(f"fromJSON({text})", text, maybe_absent)


def name_value(native: str) -> Value:
    """Returns the value of an expression for a name that Kubernetes allows: it needs no escapes."""
    return Value(native, f"'\"' + {native} + '\"'")


def output(task: str, name: str, *, guarded: bool = False) -> str:
    """Returns an expression for a task's output; guarded, it is null where the task has none."""
    outputs = f"{member('tasks', task)}.outputs"
    return member(
        f"{outputs}?.parameters" if guarded else f"{outputs}.parameters", name, guarded=guarded
    )


def native(content: Any) -> str:
    """Returns an expression for what may hold Values."""
    if isinstance(content, Value):
        return content.native
    if isinstance(content, dict):
        members = ", ".join(f"{native(key)}: {native(value)}" for key, value in content.items())
        return f"({{{members} }})"  # two braces would be the end of a tag
    if isinstance(content, list):
        return f"[{', '.join(map(native, content))}]"
    if isinstance(content, str):
        return quoted(content)
    return "nil" if content is None else json.dumps(content)


def is_known(content: Any) -> bool:
    """Whether nothing in it is a Value that is known at run time only."""
    if isinstance(content, dict):
        return all(is_known(part) for pair in content.items() for part in pair)
    if isinstance(content, list):
        return all(map(is_known, content))
    return not isinstance(content, Value)


def to_value(content: Any) -> Value:
    """Returns the value that what may hold Values has at run time."""
    return Constant(value=content) if is_known(content) else Value(native(content))


NOTHING = "KFP_NOTHING"
"""A variable that is empty. Between two braces it keeps Argo from taking them for a tag, and the
kubelet takes it out."""

_APART = f"{{$({NOTHING}){{"
_UNCHANGED = f" | replace('$', '$$') | replace('{{' + '{{', '{_APART}')"


def document(content: Any) -> str:
    """Returns the JSON of what may hold Values, each of which becomes a tag."""
    if isinstance(content, Value):
        return content.tag
    if isinstance(content, dict):
        members = [f"{document(key)}: {document(value)}" for key, value in content.items()]
        text = ", ".join(members)
        return f"{{ {text}}}" if text.startswith("{") else f"{{{text}}}"
    if isinstance(content, list):
        return f"[{', '.join(map(document, content))}]"
    return encoded(content)


def manifest(content: Any) -> Any:
    """Returns what may hold Values, each of which becomes a string that is a tag."""
    if isinstance(content, Value):
        return f"{{{{={content.native}}}}}"
    if isinstance(content, dict):
        return {key: manifest(value) for key, value in content.items()}
    if isinstance(content, list):
        return [manifest(item) for item in content]
    return content


def word(text: str) -> str:
    """Returns a text as a container's command, argument or variable, which Argo leaves alone."""
    return re.sub(r"\{(?=\{)", f"{{$({NOTHING})", text)


def word_tag(native: str) -> str:
    """Returns the tag for text in a container's argument that Argo and the kubelet leave alone."""
    return f"{{{{={native}{_UNCHANGED}}}}}"


def shown(text: str) -> str:
    """Returns a text that is only shown to people, without anything that Argo takes for a tag."""
    return re.sub(r"\{(?=\{)", "{ ", text)


Output = Callable[[bool], Value]
"""Returns an output's value; told that the task may have none, one that is null then."""

EXECUTOR_OUTPUT = "executor-output"
"""The output parameter that is the file that kfp's executor writes."""


def dag_output(task: str, name: str) -> Output:
    """Returns an output of a task that consists of others, whose outputs are JSON already."""

    def value(guarded: bool) -> Value:
        text = output(task, name, guarded=guarded)
        return json_value(f"({text} ?? 'null')" if guarded else text)

    return value


def executor_output(task: str, key: str, *, may_be_file: bool, kind: str) -> Output:
    """Returns an output parameter of a step that kfp's executor runs, or of a file it may write."""

    def value(guarded: bool) -> Value:
        values = member(_executor_output(task, guarded), "parameterValues")
        expression = member(values, key, guarded=guarded or may_be_file)
        if may_be_file:
            expression = f"({expression} ?? {file_output(task, key, kind)(guarded).native})"
        return Value(expression)

    return value


def file_output(task: str, key: str, kind: str) -> Output:
    """Returns an output parameter that a step writes to a file: text, or JSON of its type."""

    def value(guarded: bool) -> Value:
        text = output(task, key, guarded=guarded)
        if kind == "STRING":
            return Value(text)
        text = f"trim({text} ?? 'null')" if guarded else f"trim({text})"
        return Value(f"fromJSON(lower({text}))" if kind == "BOOLEAN" else f"fromJSON({text})")

    return value


def executor_artifact(task: str, key: str, schema: dict[str, Any]) -> Output:
    """Returns an output artifact of a step of kfp's executor, which says all but the type."""

    def value(guarded: bool) -> Value:
        artifacts = member(_executor_output(task, guarded), "artifacts")
        expression = f"{member(artifacts, key, guarded=guarded)}{'?' if guarded else ''}.artifacts"
        if guarded:
            expression = f"({expression} ?? [])"
        fields = {name: Value(f"#.{name}") for name in ("name", "uri", "metadata")}
        return Value(f"map({expression}, {native(fields | {'type': schema})})")

    return value


def constant(value: Value) -> Output:
    """Returns an output that does not depend on whether its task has run."""
    return lambda guarded: value


def _executor_output(task: str, guarded: bool) -> str:
    text = output(task, EXECUTOR_OUTPUT, guarded=guarded)
    return f"fromJSON({text} ?? '{{}}')" if guarded else f"fromJSON({text})"
