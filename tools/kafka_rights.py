"""Writes the table of rights on Kafka into docs/security.md: `python -m tools.kafka_rights`."""

from collections.abc import Iterator
from pathlib import Path

from events.topics import FANOUT, VIEWED
from paceline.services.kafka_rights import OWN_GROUP, RIGHTS, Rights, operations

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
BEGIN, END = "<!-- made by `python -m tools.kafka_rights` -->", "<!-- end of rights -->"
LETTERS = {"Read": "R", "Write": "W", "Create": "C", "Delete": "X", "Describe": "d"}


def table() -> str:
    """The rights of each kind of user, in Markdown."""
    return "\n".join(_lines())


def put(text: str) -> str:
    """The page with another table."""
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _lines() -> Iterator[str]:
    columns = [topic.folder for topic in VIEWED] + ["fan-out"]
    yield f"| user | is | {' | '.join(columns)} | groups |"
    yield f"| --- | --- |{' --- |' * len(columns)} --- |"
    for kind, rights in RIGHTS.items():
        letters = [_letters(rights, topic.name) for topic in (*VIEWED, FANOUT[0])]
        yield f"| {kind} | {rights.purpose} | {' | '.join(letters)} | {_groups(rights)} |"


def _letters(rights: Rights, topic: str) -> str:
    return "".join(LETTERS.get(operation, "") for operation in operations(rights, topic))


def _groups(rights: Rights) -> str:
    joined = ["R its own name" if name == OWN_GROUP else f"R `{name}`" for name in rights.groups]
    return ", ".join(joined + [f"d `{name}`" for name in rights.looks_at])


if __name__ == "__main__":
    PAGE.write_text(put(table()))
