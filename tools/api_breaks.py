"""Differences of two descriptions of the API that break a client of the first.

A client may send less than it is told of and gets more: so parameters, fields of bodies and values that may be sent
must stay; fields, types and statuses of answers that it knows must stay as they are, and nothing new may be required
of it.
"""

from collections.abc import Iterator
from typing import Any

METHODS = ("get", "put", "post", "patch", "delete")
BOUNDS = (("minimum", 1), ("minLength", 1), ("minItems", 1), ("maximum", -1), ("maxLength", -1), ("maxItems", -1))
"""Bounds of values, and where a narrower one lies: above or below."""


def breaks(old: Any, new: Any) -> list[str]:
    """The differences that break clients, a line each."""
    return list(_Comparison(old, new).paths())


class _Comparison:
    def __init__(self, old: Any, new: Any) -> None:
        self._old, self._new = old, new
        self._compared: set[tuple[str, str, bool]] = set()

    def paths(self) -> Iterator[str]:
        for path, operations in self._old["paths"].items():
            if path not in self._new["paths"]:
                yield f"{path} is gone"
                continue
            for method in METHODS:
                if method not in operations:
                    continue
                if method not in self._new["paths"][path]:
                    yield f"{method.upper()} {path} is gone"
                    continue
                at = f"{method.upper()} {path}"
                yield from self._operation(at, operations[method], self._new["paths"][path][method])

    def _operation(self, at: str, old: Any, new: Any) -> Iterator[str]:
        if new.get("security") and not old.get("security"):
            yield f"{at} needs a token"
        parameters = {(each["in"], each["name"]): each for each in new.get("parameters", ())}
        before = {(each["in"], each["name"]): each for each in old.get("parameters", ())}
        for key, each in before.items():
            if key not in parameters:
                yield f"{at}: the parameter {key[1]} is gone"
                continue
            if parameters[key].get("required") and not each.get("required"):
                yield f"{at}: the parameter {key[1]} is required"
            yield from self._schema(
                f"{at}: the parameter {key[1]}", each["schema"], parameters[key]["schema"], is_sent=True
            )
        for key in parameters.keys() - before.keys():
            if parameters[key].get("required"):
                yield f"{at}: the new parameter {key[1]} is required"
        yield from self._body(at, old.get("requestBody"), new.get("requestBody"))
        for status in old["responses"]:
            if status.startswith("2") and status not in new["responses"]:
                yield f"{at}: no answer {status} any more"
            elif status.startswith("2"):
                answers = new["responses"][status].get("content", {})
                for kind, content in old["responses"][status].get("content", {}).items():
                    if kind not in answers:
                        yield f"{at}: answer {status} is no {kind} any more"
                    else:
                        yield from self._schema(f"{at}: answer {status}", content["schema"], answers[kind]["schema"])

    def _body(self, at: str, old: Any, new: Any) -> Iterator[str]:
        if new is None:
            return
        if new.get("required") and not (old and old.get("required")):
            yield f"{at}: a body is required"
        for kind, content in (old or {}).get("content", {}).items():
            if kind not in new["content"]:
                yield f"{at}: no body of {kind} any more"
            else:
                yield from self._schema(
                    f"{at}: the body", content["schema"], new["content"][kind]["schema"], is_sent=True
                )

    def _schema(self, at: str, old: Any, new: Any, is_sent: bool = False) -> Iterator[str]:
        """Differences of the type of a value that clients send, or get."""
        names = (old.get("$ref", ""), new.get("$ref", ""))
        if all(names):
            if (*names, is_sent) in self._compared:
                return
            self._compared.add((*names, is_sent))
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        for many in ("anyOf", "oneOf"):
            if many in old or many in new:
                yield from self._choices(at, old.get(many, [old]), new.get(many, [new]), is_sent)
                return
        wide, narrow = (new, old) if is_sent else (old, new)
        if not _types(narrow) <= _types(wide):
            yield f"{at} was {_words(old)}, is {_words(new)}"
            return
        yield from self._values(at, old, new, is_sent)
        fields, now = old.get("properties", {}), new.get("properties", {})
        for name in sorted(fields.keys() - now.keys()):
            if not (is_sent and new.get("additionalProperties", True) is not False):
                yield f"{at}: the field {name} is gone"
        required, before = set(new.get("required", ())), set(old.get("required", ()))
        for name in sorted(required - before if is_sent else before - required):
            if is_sent:
                yield f"{at}: the field {name} is required"
            elif name in now:
                yield f"{at}: the field {name} may be missing"
        for name in sorted(fields.keys() & now.keys()):
            yield from self._schema(f"{at}: {name}", fields[name], now[name], is_sent)
        for part in ("items", "additionalProperties"):
            if isinstance(old.get(part), dict) and isinstance(new.get(part), dict):
                yield from self._schema(f"{at}: each", old[part], new[part], is_sent)

    def _choices(self, at: str, old: list[Any], new: list[Any], is_sent: bool) -> Iterator[str]:
        """Each that may be sent must still be taken; each that is answered must be one that was."""
        for each in old if is_sent else new:
            others = new if is_sent else old
            if not any(self._fits(other, each, is_sent) for other in others):
                name = each.get("$ref", "").rpartition("/")[2] or _words(each)
                yield f"{at}: {name} is {'not taken any more' if is_sent else 'a new answer'}"

    def _fits(self, other: Any, each: Any, is_sent: bool) -> bool:
        pair = (each, other) if is_sent else (other, each)
        alone = _Comparison(self._old, self._new)
        alone._compared = set(self._compared)
        return not any(alone._schema("", *pair, is_sent=is_sent))

    def _values(self, at: str, old: Any, new: Any, is_sent: bool) -> Iterator[str]:
        allowed, now = _allowed(old), _allowed(new)
        if is_sent and now is not None and (allowed is None or allowed - now):
            yield f"{at} takes {', '.join(sorted(now))} alone"
        if not is_sent and allowed is not None and (now is None or now - allowed):
            yield f"{at} has other values than {', '.join(sorted(allowed))}"
        for bound, sign in BOUNDS if is_sent else ():
            if bound in new and (bound not in old or sign * (new[bound] - old[bound]) > 0):
                yield f"{at}: {bound} is {new[bound]}, was {old.get(bound, 'not bounded')}"
        if is_sent and new.get("pattern") not in (None, old.get("pattern")):
            yield f"{at} must match {new['pattern']}"


def _resolved(description: Any, schema: Any) -> Any:
    while "$ref" in schema:
        part = description
        for name in schema["$ref"].removeprefix("#/").split("/"):
            part = part[name]
        schema = part
    return schema


def _types(schema: Any) -> set[str]:
    """The types of a value; a number may be an integer."""
    kind = schema.get("type")
    if kind is None:
        return {"object", "array", "string", "number", "integer", "boolean", "null"}
    types = {kind} if isinstance(kind, str) else set(kind)
    return types | ({"integer"} if "number" in types else set())


def _allowed(schema: Any) -> set[str] | None:
    if "const" in schema:
        return {str(schema["const"])}
    return set(map(str, schema["enum"])) if "enum" in schema else None


def _words(schema: Any) -> str:
    kind = schema.get("type", "of any type")
    return kind if isinstance(kind, str) else " or ".join(kind)
