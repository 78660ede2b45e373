"""All that is wrong with a spec, each problem by a JSON pointer and a message."""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from events.instance_ranges import PATTERN
from events.spec.job import JobSpec
from events.spec.ports import NAME_ALONE, WITH_NUMBER
from events.words import plural

UNNAMED = ("[key]", NAME_ALONE, WITH_NUMBER)
"""Parts of the place of an error that no user has written."""


def problems(error: ValidationError, model: type[BaseModel] | None = None) -> list[tuple[str, str]]:
    """All that is wrong with a value of a model: JSON pointer and message. `model`: where it isn't a job."""
    return [(_pointer(detail["loc"]), _message(model or JobSpec, detail)) for detail in error.errors(include_url=False)]


def _pointer(loc: tuple[int | str, ...]) -> str:
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in loc if part not in UNNAMED)
    return "".join(f"/{part}" for part in parts)


def _message(model: type[BaseModel], detail: Any) -> str:
    if detail["type"] == "model_type":
        return f"must be a mapping, such as {{{_names_at(model, detail['loc'])[0]}: ...}}"
    if detail["type"] == "list_type" and isinstance(detail["input"], str):
        return f"must be a list, such as {json.dumps(detail['input'].split())}"
    if (least := detail.get("ctx", {}).get("min_length")) is not None and detail["type"] == "too_short":
        return f"must have at least {plural(least, 'item')}, or be left out"
    if detail["type"] == "string_pattern_mismatch" and detail["ctx"]["pattern"] == PATTERN:
        return 'must be instances such as "0-9,12"'
    if detail["type"] != "extra_forbidden":
        text: str = detail["msg"]
        for prefix, plain in (("Input should", "must"), ("String should", "must"), ("Field required", "is missing")):
            text = text.replace(prefix, plain)
        choices = re.findall("'([^']*)'", detail["ctx"]["expected"]) if detail["type"] == "literal_error" else []
        nearest = _nearest(detail["input"], choices)
        return f"{text}; did you mean {nearest}?" if nearest else text
    names = _names_at(model, detail["loc"][:-1])
    nearest = _nearest(detail["loc"][-1], names)
    hint = f"did you mean {nearest}?" if nearest else f"known are {', '.join(names)}"
    return f"is not a known field; {hint}"


def _nearest(name: object, names: Sequence[str]) -> str:
    """The name that is most like one that isn't known; empty: none is."""
    return next(iter(difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)), "")


def _names_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The names of the fields at a place in a spec."""
    for part in loc:
        field = model.model_fields.get(str(part))
        if field is not None:
            model = next(_models_in(field.annotation))
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)
