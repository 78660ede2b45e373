"""The AsyncAPI description: what is checked in is what the topics and schemas give, and it holds together."""

import json
from pathlib import Path
from typing import Any

import fastavro
from ruamel.yaml import YAML

from events.topics import EVERY
from tools import asyncapi

DOCUMENT = YAML(typ="safe").load(asyncapi.TARGET)


def at(pointer: str) -> Any:
    """What a reference within the document names."""
    node: Any = DOCUMENT
    for part in pointer.removeprefix("#/").split("/"):
        node = node[part]
    return node


def references(node: Any) -> list[str]:
    """All references in a part of the document."""
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [found for value in node.values() for found in references(value)]
    return [found for value in node for found in references(value)] if isinstance(node, list) else []


def test_what_is_checked_in_is_what_topics_and_schemas_give(tmp_path: Path) -> None:
    asyncapi.write(tmp_path / "asyncapi.yaml")
    assert (tmp_path / "asyncapi.yaml").read_text() == asyncapi.TARGET.read_text(), "run python -m tools.asyncapi"


def test_it_has_the_form_of_asyncapi_3() -> None:
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert DOCUMENT.keys() == {"asyncapi", "info", "defaultContentType", "channels", "operations", "components"}
    assert {"title", "version"} <= DOCUMENT["info"].keys()
    for channel in DOCUMENT["channels"].values():
        assert channel.keys() == {"address", "description", "messages", "bindings"}
        assert channel["messages"]
    for operation in DOCUMENT["operations"].values():
        assert operation["action"] in ("send", "receive")
        assert operation.keys() == {"action", "channel"}
    for message in DOCUMENT["components"]["messages"].values():
        assert message.keys() - {"traits"} == {"name", "title", "summary", "payload", "bindings"}
        assert message["payload"].keys() == {"schemaFormat", "schema"}
        assert message["bindings"]["kafka"]["key"]["description"].endswith(".")


def test_every_reference_leads_to_what_it_should() -> None:
    found = references(DOCUMENT)
    assert found
    for reference in found:
        assert isinstance(at(reference), dict), reference
    for channel in DOCUMENT["channels"].values():
        for name, reference in channel["messages"].items():
            assert at(reference["$ref"])["title"] == name
    used = {reference for reference in found if reference.startswith("#/components/messages/")}
    assert used == {f"#/components/messages/{name}" for name in DOCUMENT["components"]["messages"]}


def test_every_topic_and_every_record_in_it_is_described_by_its_schema() -> None:
    channels = {channel["address"]: channel for channel in DOCUMENT["channels"].values()}
    assert channels.keys() == {topic.name for topic in EVERY}
    for topic in EVERY:
        assert channels[topic.name]["messages"].keys() == {path.stem for path in topic.messages()}
        for path in topic.messages():
            message = DOCUMENT["components"]["messages"][path.stem]
            assert message["payload"]["schema"] == json.loads(path.read_text())
            assert fastavro.parse_schema(message["payload"]["schema"])["name"] == message["name"]
