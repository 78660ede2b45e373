"""Writes the page of a job's fields from the JSON Schema of its spec: `python -m events.spec_page > docs/jobs.md`."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from events.spec import JobSpec, json_schema

KINDS: tuple[str, ...] = get_args(JobSpec.model_fields["kind"].annotation)
EXAMPLES = Path("examples/kinds")
HEAD = """\
# Jobs

A job is written in YAML or JSON and submitted with `paceline job submit FILE`, `POST /v1/jobs`, or as a `JobSubmitted`
record. This page is made from the schema of the spec by `python -m events.spec_page > docs/jobs.md`; a test compares.
[task-life.md](task-life.md) has the life of a task, [reasons.md](reasons.md) why it waits.

Times have a unit: `500ms`, `10s`, `5m`, `2h`. So have sizes: `64MiB`, `2GiB`. Other amounts are numbers (`0.5`) or
thousandths (`500m`).
"""
LEFT_OUT = """\
## Not supported

Peloton had these; Paceline leaves them out on purpose.

* Executors of one's own, init containers and groups of containers in one task.
* A listing of the files of a task. Its output is kept and shown (`paceline job logs`).
* Container images and secrets: tasks are processes of the host so far.
* Jobs that depend on others, or start at a time: whatever submits jobs can wait (`paceline job wait`).
* Lockdown of a job against changes.
"""
UNITS = {"(ms|s|m|h)": "time", "(MiB|GiB|TiB)": "size", "(m)": "amount"}


def page(root: Path) -> str:
    """The page, in Markdown; `root`: the folder that has the examples."""
    schema = json_schema()
    parts = dict(_parts(schema, schema["properties"].values()))
    found = [HEAD, *_examples(root), "## Fields\n", *_table(schema)]
    for name, part in parts.items():
        found += [f"### {name}\n", f"{part['description']}\n", *_table(part)]
    return "\n".join([*found, LEFT_OUT])


def _examples(root: Path) -> Iterator[str]:
    yield "## One complete example of each kind\n"
    for kind in KINDS:
        text = (root / EXAMPLES / f"{kind}.yaml").read_text()
        yield f"`{EXAMPLES}/{kind}.yaml`\n\n```yaml\n{text}```\n"


def _parts(schema: Mapping[str, Any], values: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parts that values refer to, by name, each before those that it refers to itself."""
    for value in values:
        for name in _references(value):
            part = schema["$defs"][name]
            yield name, part
            yield from _parts(schema, part["properties"].values())


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)
    elif isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        yield from _references([inner for name, inner in value.items() if name != "default"])


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| field | value | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, field in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else _default(field)
        cells = (f"`{name}`", _type(field), default, _meaning(field))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    refers = next(_references(dict(field)), None) is not None
    if value is None or value in ([], {}, "") or (refers and isinstance(value, dict)):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _meaning(field: Mapping[str, Any]) -> str:
    text: str = field.get("description", "")
    return "" if text.startswith("a time with a unit") else text


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        kinds = [_type(each) for each in field["anyOf"] if each.get("type") != "null" and "const" not in each]
        return " or ".join(dict.fromkeys(kinds)) if "time" not in kinds and "size" not in kinds else kinds[0]
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    match field.get("type"):
        case "array":
            return f"list of {_type(field['items'])}"
        case "object":
            return "map of texts"
        case "integer" | "number":
            return "number" + _bounds(field)
        case "boolean":
            return "`true`, `false`"
    return next((unit for ending, unit in UNITS.items() if ending in field.get("pattern", "")), "text")


def _bounds(field: Mapping[str, Any]) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if low is None or high is None:
        return ""
    return f", {low} to {high:,}" if low >= 0 else ""


if __name__ == "__main__":
    sys.stdout.write(page(Path.cwd()))
