"""Strict models, which descriptions that people write are made of."""

from collections.abc import Iterable
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema

from trireme.errors import InputError
from trireme.text.json_values import whole


class StrictModel(BaseModel):
    """Base of descriptions and their parts: unknown fields and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Makes each description one line, as editors show it."""
        schema = handler.resolve_ref_schema(handler(core))
        for described in (schema, *schema.get("properties", {}).values()):
            if "description" in described:
                described["description"] = " ".join(described["description"].split())
        return schema

    @classmethod
    def read(cls, parameter: str, options: dict[str, Any]) -> Self:
        """Returns what a parameter describes; what stands for a pipeline's parameter is text."""
        try:
            # Not as JSON: names need not be text in YAML.
            return cls.model_validate(whole(options), strict=False)
        except ValidationError as error:
            # A name that is wrong explains why another is missing.
            first = min(error.errors(include_url=False), key=lambda e: e["type"] == "missing")
            path = dotted((parameter, *first["loc"]))
            if first["type"] in ("extra_forbidden", "missing"):
                problem = "is needed" if first["type"] == "missing" else "is not a field"
                above = dotted((parameter, *first["loc"][:-1]))
                has = ", ".join(model_of(cls, first["loc"]).model_fields)
                raise InputError(f"{path} {problem}; {above} has {has}") from None
            message = first["msg"].removeprefix("Value error, ")
            message = message[0].lower() + message[1:]
            raise InputError(f"{path} {first['input']!r}: {message}") from None


def dotted(path: Iterable[int | str]) -> str:
    """Returns where a value is as a person reads it, whatever its names hold."""
    names = map(str, path)
    return ".".join(name if name.isprintable() else repr(name) for name in names)


def model_of(model: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel]:
    """Returns the model, or the part of it, that a field is of."""
    for part in path[:-1]:
        field = model.model_fields.get(str(part))
        model = (field and _model_in(field.annotation)) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Returns the model that a type is made of, as in ``list[Volume]`` or ``Elastic | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
