"""Texts in an Argo template that hold values: JSON, words of a command line, names."""

import json
import re
from typing import Any

from trireme.pipelines.targets.argo.expressions import Value, encoded

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
        members = [f"{document(key)}: {document(each)}" for key, each in content.items()]
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
        return {key: manifest(each) for key, each in content.items()}
    if isinstance(content, list):
        return [manifest(each) for each in content]
    return content


def word(text: str) -> str:
    """Returns a text as a container's command, argument or variable, which Argo leaves alone."""
    return re.sub(r"\{(?=\{)", f"{{$({NOTHING})", text)


def word_of(native: str) -> str:
    """Returns the tag for an expression's text that becomes part of a container's argument.

    Neither Argo nor the kubelet changes anything in it.
    """
    return f"{{{{={native}{_UNCHANGED}}}}}"


def shown(text: str) -> str:
    """Returns a text that is only shown to people, without anything that Argo takes for a tag."""
    return re.sub(r"\{(?=\{)", "{ ", text)


def json_text(value: Any) -> str:
    """Returns JSON as people write it, for the parameters of a run."""
    return json.dumps(value, ensure_ascii=False)
