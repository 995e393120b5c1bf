"""What descriptions that people write are made of."""

from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema


class Part(BaseModel):
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
