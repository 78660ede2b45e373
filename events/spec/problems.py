"""All that is wrong with a spec, each problem by a JSON pointer and a message."""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, Tag, ValidationError

from events.instance_ranges import PATTERN
from events.spec.conditions import LASTING, TIMED
from events.spec.host_devices import BY_KIND, IN_NODES, ONE_BY_ONE
from events.spec.job import ID_PATTERN, POOL_PATTERN, JobSpec
from events.spec.ports import NAME_ALONE, WITH_NUMBER
from events.words import plural

PATTERNS = {
    PATTERN: 'must be instances such as "0-9,12"',
    ID_PATTERN: "must be 1 to 128 of a-z, 0-9, dot, dash and underscore, and begin with a letter or digit",
    POOL_PATTERN: "must be a path such as /maps/tiles: 1 to 8 names, each of 1 to 64 letters, digits, dots, dashes "
    "and underscores, which begins with a letter or digit",
}
"""Patterns of strings in words."""
UNNAMED = ("[key]", NAME_ALONE, WITH_NUMBER, LASTING, TIMED, ONE_BY_ONE, BY_KIND, IN_NODES)
"""Parts of the place of an error that no user has written."""


def problems(error: ValidationError, model: type[BaseModel] | None = None) -> list[tuple[str, str]]:
    """All that is wrong with a value of a model: JSON pointer and message. `model`: where it isn't a job."""
    details = error.errors(include_url=False)
    misspelt = {(*place, name) for place, name in (_meant(model or JobSpec, each) for each in details) if name}
    return [
        (_pointer(each["loc"]), message_of(model or JobSpec, each))
        for each in details
        if each["loc"] not in misspelt or not _is_left_out(model or JobSpec, each)
    ]


def _meant(model: type[BaseModel], detail: Any) -> tuple[tuple[int | str, ...], str]:
    """The place of a field that isn't known, and the field that was probably meant; empty: none."""
    if detail["type"] != "extra_forbidden":
        return (), ""
    place = detail["loc"][:-1]
    return place, _nearest(detail["loc"][-1], _names_at(model, place))


def _is_left_out(model: type[BaseModel], detail: Any) -> bool:
    """Whether what is wrong with a field is that it isn't there."""
    field = _model_at(model, detail["loc"][:-1]).model_fields[detail["loc"][-1]]
    return bool(detail["type"] == "missing" or detail["input"] == field.get_default(call_default_factory=True))


def _pointer(loc: tuple[int | str, ...]) -> str:
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in loc if part not in UNNAMED)
    return "".join(f"/{part}" for part in parts)


def message_of(model: type[BaseModel], detail: Any) -> str:
    """Says what is wrong with a value of a model, by pydantic's details."""
    if detail["type"] == "model_type":
        return f"must be a mapping, such as {{{_names_at(model, detail['loc'])[0]}: ...}}"
    if detail["type"] == "list_type" and isinstance(detail["input"], str):
        return f"must be a list, such as {json.dumps(detail['input'].split())}"
    if (least := detail.get("ctx", {}).get("min_length")) is not None and detail["type"] == "too_short":
        return f"must have at least {plural(least, 'item')}, or be left out"
    if detail["type"] in ("bool_type", "bool_parsing"):
        return "must be true or false"
    if detail["type"] == "string_pattern_mismatch" and detail["ctx"]["pattern"] in PATTERNS:
        return PATTERNS[detail["ctx"]["pattern"]] + _as_id(detail)
    if detail["type"] != "extra_forbidden":
        text: str = detail["msg"]
        for prefix, plain in (("Input should", "must"), ("String should", "must"), ("Field required", "is missing")):
            text = text.replace(prefix, plain)
        choices = re.findall("'([^']*)'", detail["ctx"]["expected"]) if detail["type"] == "literal_error" else []
        if len(choices) == 1:
            return f"must be `{choices[0]}`"
        nearest = _nearest(detail["input"], choices)
        return f"{text}; did you mean {nearest}?" if nearest else text
    names = _names_at(model, detail["loc"][:-1])
    nearest = _nearest(detail["loc"][-1], names)
    hint = f"did you mean {nearest}?" if nearest else f"known are {', '.join(names)}"
    return f"is not a known field; {hint}"


def _nearest(name: object, names: Sequence[str]) -> str:
    """The name that is most like one that isn't known; empty: none is."""
    return next(iter(difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)), "")


def _as_id(detail: Any) -> str:
    """The id that is nearest to what was written instead; empty: none is."""
    if detail["ctx"]["pattern"] != ID_PATTERN:
        return ""
    nearest = re.sub("[^a-z0-9._-]+", "-", detail["input"].lower()).strip("-._")[:128]
    return f"; write {nearest}" if nearest else ""


def _names_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The names of the fields at a place in a spec."""
    return list(_model_at(model, loc).model_fields)


def _model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    annotation: Any = None
    for part in loc:
        field = model.model_fields.get(str(part))
        if field is not None:
            annotation = field.annotation
            model = next(_models_in(annotation))
        elif part in UNNAMED:
            forms = [each for each in get_args(annotation) if Tag(str(part)) in getattr(each, "__metadata__", ())]
            model = next((model for form in forms for model in _models_in(form)), model)
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)
