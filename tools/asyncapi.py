"""The AsyncAPI description of all topics, made of the topic table and the schemas: `python -m tools.asyncapi`."""

import json
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import FoldedScalarString

import schemas
from events.topics import EVERY, FANOUT, SETTINGS, Topic

TARGET = Path(__file__).parents[1] / "docs" / "asyncapi.yaml"
BINDING = "0.5.0"
AVRO = "application/vnd.apache.avro+json;version=1.9.0"
INFO = {
    "title": "Paceline",
    "version": "1",
    "description": (
        "What Paceline reads from Kafka and writes to it. Each cell has one partition of every topic; the producer "
        "names the partition. A value is Avro in single-object encoding: C3 01, the CRC-64-AVRO fingerprint of the "
        "schema in 8 bytes, little-endian, the value. Where a schema registry is configured, it is Confluent's wire "
        "format instead, both are read, and the subject is the full name of the record (RecordNameStrategy). "
        "Bytes with the attribute column are integers of that type, little-endian, one after another. What led to a "
        "decision is in its fields of the type Cause: of a list with the attribute each, one for each value of that "
        "column; and in a field with the attribute cause_in, the offset of the cause in that topic."
    ),
    "license": {"name": "Apache-2.0"},
}
KEYS = {
    "paceline.jobs": "Id of the job.",
    "paceline.pools": "Path of the pool; any key for CellConfigured.",
    "paceline.hosts": "Id of the host; name of the gateway for GatewayBeat and HostsLoaded.",
    "paceline.tasks": "Id of the host; name of the gateway for RunsReported.",
    "paceline.forecasts": "forecasts.",
}
"""Keys of facts; those of the fan-out stand with their schemas."""
ROUND_KEY = (
    "paceline KIND machine=M cell=C epoch=E round=R prev=H schema=F build=V hash=H: what decides whether the record is "
    "part of the history. KIND is claim or round, prev the BLAKE2b-256 of the value of the round before (of a claim, "
    "of round R), schema the fingerprint of the value's schema, build the version of Paceline that wrote it, hash the "
    "BLAKE2b-256 of the value; hashes and fingerprint in hexadecimal."
)


def description() -> dict[str, Any]:
    """The document."""
    return {
        "asyncapi": "3.0.0",
        "info": INFO,
        "defaultContentType": "avro/binary",
        "channels": {topic.folder: _channel(topic) for topic in EVERY},
        "operations": {name: each for topic in EVERY for name, each in _operations(topic)},
        "components": {
            "messages": {path.stem: _message(path) for path in _files()},
            "messageTraits": {"fanout": {"headers": _event_id()}},
        },
    }


def write(target: Path = TARGET) -> None:
    """Writes the document as YAML."""
    yaml = YAML()
    yaml.width = 110
    with target.open("w") as file:
        file.write("# Written by `python -m tools.asyncapi` from the topic table and the schemas.\n")
        yaml.dump(_folded(description()), file)


def _files() -> dict[Path, None]:
    """Schemas of all messages, each once."""
    return {path: None for topic in EVERY for path in topic.messages()}


def _channel(topic: Topic) -> dict[str, Any]:
    text = f"Written by {topic.writer}."
    if topic.machine:
        decisions = ", ".join([*(path.stem for path in schemas.files(topic.folder)), "TimerPassed"])
        text += f" The decisions in its rounds, each in single-object encoding: {decisions}."
    return {
        "address": topic.name,
        "description": text,
        "messages": {path.stem: {"$ref": f"#/components/messages/{path.stem}"} for path in topic.messages()},
        "bindings": {"kafka": {"topicConfiguration": _settings(), "bindingVersion": BINDING}},
    }


def _settings() -> dict[str, Any]:
    """The settings of each topic, in the types of the binding."""
    read = {name: YAML(typ="safe").load(value) for name, value in SETTINGS.items()}
    return {**read, "cleanup.policy": [SETTINGS["cleanup.policy"]]}


def _operations(topic: Topic) -> list[tuple[str, dict[str, Any]]]:
    """The operations of Paceline on a topic: it reads facts and rounds, and writes all of them."""
    name = "".join(word.capitalize() for word in topic.folder.split("-"))
    actions = [] if topic in FANOUT else ["receive"]
    return [
        (f"{action}{name}", {"action": action, "channel": {"$ref": f"#/channels/{topic.folder}"}})
        for action in [*actions, "send"]
    ]


def _message(path: Path) -> dict[str, Any]:
    schema = json.loads(path.read_text())
    folder = path.parent.name
    topic = next((each for each in EVERY if each.folder == folder), None)
    message: dict[str, Any] = {
        "name": f"{schema['namespace']}.{schema['name']}",
        "title": schema["name"],
        "summary": schema["doc"],
        "payload": {"schemaFormat": AVRO, "schema": schema},
    }
    if topic in FANOUT:
        message["traits"] = [{"$ref": "#/components/messageTraits/fanout"}]
    return {**message, "bindings": {"kafka": {"key": _key(topic, schema), "bindingVersion": BINDING}}}


def _key(topic: Topic | None, schema: Any) -> dict[str, str]:
    if topic is None:
        return {"type": "string", "description": ROUND_KEY}
    text = KEYS.get(topic.name) or schema["doc"].partition("Key: ")[2]
    return {"type": "string", "description": text[0].upper() + text[1:]}


def _event_id() -> dict[str, Any]:
    text = "CELL/MACHINE/ROUND/INDEX/ITEM: the same for a repeat and for no other message."
    return {"type": "object", "properties": {"paceline-event-id": {"type": "string", "description": text}}}


def _folded(node: Any) -> Any:
    """Long texts as YAML folds them."""
    if isinstance(node, dict):
        return {key: _folded(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_folded(value) for value in node]
    return FoldedScalarString(node) if isinstance(node, str) and len(node) > 90 else node


if __name__ == "__main__":
    write()
