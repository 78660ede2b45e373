"""Derives what a release writes of a schema: records and fields marked `written_from` are read before they are written.

A reader knows a schema only by its fingerprint, so a release reads what the next one writes only if it has that schema
already. Whatever is new is therefore shipped one release ahead: in its `.avsc` file, with `"written_from": "0.4.0"` on
the record or on the field. Until then it is decoded and applied, and nobody writes it (decision 032).
"""

import json
from typing import Any

from schemas import GOLDEN

Version = tuple[int, ...]


def version(text: str) -> Version:
    """The numbers of a version, for comparison."""
    return tuple(map(int, text.split(".")))


def is_released(release: str) -> bool:
    """Whether the schemas of a release were kept (`python -m tools.release`), the last step before it is out."""
    return release in json.loads((GOLDEN / "releases.json").read_text())


def written(schema: Any, by: str) -> Any:
    """The schema as the release `by` writes it; None: it doesn't write this record yet."""
    return None if _later(schema, by) else _without_later(schema, by)


def stages(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema as releases write it one after another, the last one whole."""
    marks = sorted(set(_marks(schema)), key=version)
    versions = [written(schema, "0"), *(written(schema, mark) for mark in marks)]
    return [stage for at, stage in enumerate(versions) if stage is not None and stage not in versions[:at]]


def _later(part: Any, by: str) -> bool:
    return version(part.get("written_from", "0")) > version(by)


def _without_later(avro: Any, by: str) -> Any:
    if isinstance(avro, list):
        return [_without_later(branch, by) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    if "fields" in avro:
        fields = [field for field in avro["fields"] if not _later(field, by)]
        return {**avro, "fields": [{**field, "type": _without_later(field["type"], by)} for field in fields]}
    return {name: _without_later(inner, by) if name in ("items", "values") else inner for name, inner in avro.items()}


def _marks(avro: Any) -> list[str]:
    if isinstance(avro, list):
        return [mark for branch in avro for mark in _marks(branch)]
    if not isinstance(avro, dict):
        return []
    own = [avro["written_from"]] if "written_from" in avro else []
    inner = [avro.get("items"), avro.get("values"), *(avro.get("fields") or ())]
    inner += [avro["type"]] if isinstance(avro.get("type"), dict | list) else []
    return own + [mark for each in inner for mark in _marks(each)]
