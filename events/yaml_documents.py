"""Documents of a text in YAML 1.2 or JSON as plain values, bounded, and where each part of them stands."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

NODES_MAX = 50_000
"""A document with more names and values, its aliases written out, is refused: each takes 50 µs to read."""
DEPTH_MAX = 50
"""So is one that is nested deeper."""

_TOO_MANY = f"has more than {NODES_MAX:,} names and values, its aliases written out"
_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_NULL, _TRUE = ("", "~", "null", "Null", "NULL"), ("true", "True", "TRUE")


class Fault(NamedTuple):
    """One problem, and where it stands: line and column from 1, 0 where it stands nowhere."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        at = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.file}{at}: {self.message}"


Marks = dict[str, tuple[int, int]]
"""Where each part of a value stands: line and column from 1, by JSON pointer."""


class Document:
    """One document: its file, its value, and where each part of it stands, or what finds that."""

    def __init__(self, file: str, value: Any, marks: Marks | Callable[[], Marks]) -> None:
        self.file, self.value = file, value
        self._marks = marks

    @cached_property
    def marks(self) -> Marks:
        """Where each part of it stands."""
        return self._marks() if callable(self._marks) else self._marks

    def fault(self, pointer: str, message: str) -> Fault:
        """A problem of a part; where the pointer leads nowhere, of the part that should hold it."""
        place = pointer
        while place not in self.marks:
            place = place.rpartition("/")[0]
        return Fault(self.file, *self.marks[place], f"{pointer}: {message}" if pointer else message)


def parse(name: str, text: str, say: Callable[[Fault], None]) -> Iterator[Document]:
    """The documents of a text that hold something; `name` is that of its file, `say` is told what is wrong."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _BoundedComposer
    try:
        for node in yaml.compose_all(text):
            if node is None or (isinstance(node, ScalarNode) and node.tag == _TAG + "null"):
                continue
            builder = _Builder(name, say)
            builder.mark("", node)
            value = builder.build("", node)
            if builder.whole:
                yield Document(name, value, builder.marks)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        say(Fault(name, line, column, str(error.problem or error.context)))
    except YAMLError as error:
        say(Fault(name, 0, 0, str(error)))


class _BoundedComposer(Composer):
    """Makes nodes of what is read, as long as they are neither many nor deep: it goes down by recursion."""

    _nodes = _depth = 0

    def get_node(self) -> Any:
        """Implements `Composer`: the next document."""
        self._nodes = 0
        return super().get_node()

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Implements `Composer`: a node with all below it."""
        self._nodes += 1
        self._depth += 1
        wrong = "" if self._depth <= DEPTH_MAX else f"is nested more than {DEPTH_MAX} levels deep"
        wrong = wrong if self._nodes <= NODES_MAX else _TOO_MANY
        if wrong:
            raise MarkedYAMLError(problem=wrong, problem_mark=self.parser.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Builder:
    """Builds plain values of the core schema from nodes; says what is not allowed."""

    def __init__(self, name: str, say: Callable[[Fault], None]) -> None:
        self.marks: Marks = {}
        self.whole = True
        self._name = name
        self._say = say
        self._open: list[Node] = []
        self._nodes = 0

    def mark(self, pointer: str, node: Node) -> None:
        """Remembers where a part stands."""
        self.marks[pointer] = (node.start_mark.line + 1, node.start_mark.column + 1)

    def build(self, pointer: str, node: Node) -> Any:
        """The value of a node."""
        self._nodes += 1
        if self._nodes == NODES_MAX:
            return self._refuse(node, _TOO_MANY)
        if any(node is outer for outer in self._open):
            return self._refuse(node, "holds itself by an alias")
        if not self.whole and self._nodes > NODES_MAX:
            return None
        self._open.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._mapping(pointer, node)
            if isinstance(node, SequenceNode):
                return [self._item(f"{pointer}/{index}", item) for index, item in enumerate(node.value)]
            return self._scalar(node)
        finally:
            self._open.pop()

    def _item(self, pointer: str, node: Node) -> Any:
        self.mark(pointer, node)
        return self.build(pointer, node)

    def _mapping(self, pointer: str, node: MappingNode) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value, merged in self._fields(node):
            if not isinstance(key, ScalarNode):
                self._refuse(key, "the name of a field must be text")
                continue
            name = self._whole_characters(key, str(key.value))
            place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            if name in out and merged:
                continue
            if name in out:
                self._fault(key, f"{place}: duplicate key; first at line {self.marks[place][0]}")
                continue
            self.mark(place, key)
            out[name] = self.build(place, value)
        return out

    def _fields(self, node: MappingNode, merged: bool = False) -> Iterator[tuple[Node, Node, bool]]:
        """Names and values of a mapping, then those that it merges (`<<: *alias`), which its own replace."""
        for key, value in node.value:
            if key.tag != _MERGE:
                yield key, value, merged
        for key, value in (field for field in node.value if field[0].tag == _MERGE):
            for each in value.value if isinstance(value, SequenceNode) else [value]:
                if not isinstance(each, MappingNode):
                    self._refuse(key, "<< takes a mapping, or a list of them")
                elif any(each is outer for outer in self._open):
                    self._refuse(key, "holds itself by an alias")
                elif self._nodes < NODES_MAX:
                    self._nodes += 1
                    self._open.append(each)
                    yield from self._fields(each, True)
                    self._open.pop()
                elif self.whole:
                    self._refuse(key, _TOO_MANY)

    def _scalar(self, node: Node) -> Any:
        kind, text = str(node.tag).removeprefix(_TAG), str(node.value)
        if kind == "null" and text in _NULL:
            return None
        if kind == "bool":
            return text in _TRUE
        if kind in ("str", "timestamp"):
            return self._whole_characters(node, text)
        try:
            if kind == "int":
                return int(text.replace("_", ""), 10 if text.lstrip("+-")[:2].lower() not in ("0o", "0x", "0b") else 0)
            if kind == "float":
                return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            return text
        return self._refuse(node, f"the tag {node.tag} is not allowed")

    def _whole_characters(self, node: Node, text: str) -> str:
        """JSON writes characters beyond the first 65,536 as two halves, which YAML takes for two characters."""
        if text.isascii():
            return text
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._refuse(node, "is no text: half a character stands there")
            return ""

    def _refuse(self, node: Node, message: str) -> None:
        self._fault(node, message)
        self.whole = False

    def _fault(self, node: Node, message: str) -> None:
        self._say(Fault(self._name, node.start_mark.line + 1, node.start_mark.column + 1, message))
