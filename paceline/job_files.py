"""Job and pool files: YAML 1.2 or JSON, many documents in a file, checked whole before anything is written.

Every problem is found in one go and named by file, line, column and JSON pointer.
"""

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from events.codes import no_pool
from events.pool_spec import PoolSpec
from events.spec import POOL_PATTERN, JobSpec
from events.spec_problems import problems
from paceline.client.api_requests import new_id
from paceline.client.errors import Faults

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
NODES_MAX = 50_000
"""A document with more names and values, its aliases written out, is refused: each takes 50 µs to read."""
DEPTH_MAX = 50
"""So is one that is nested deeper."""
FILE_BYTES_MAX = 64 * 1024 * 1024

_TOO_MANY = f"has more than {NODES_MAX:,} names and values, its aliases written out"
_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_NULL, _TRUE = ("", "~", "null", "Null", "NULL"), ("true", "True", "TRUE")
M = TypeVar("M", bound=BaseModel)


class Fault(NamedTuple):
    """One problem, and where it stands: line and column from 1, 0 where it stands nowhere."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        at = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.file}{at}: {self.message}"


class Document(NamedTuple):
    """One document: its value, and where each part of it stands (line and column from 1, by JSON pointer)."""

    file: str
    value: Any
    marks: dict[str, tuple[int, int]]

    def fault(self, pointer: str, message: str) -> Fault:
        """A problem of a part; where the pointer leads nowhere, of the part that should hold it."""
        place = pointer
        while place not in self.marks:
            place = place.rpartition("/")[0]
        return Fault(self.file, *self.marks[place], f"{pointer}: {message}" if pointer else message)


class JobFile(NamedTuple):
    """A checked job: its id, what the user wrote with that id, the model, and where it stands."""

    job_id: str
    body: dict[str, Any]
    spec: JobSpec
    document: Document


class PoolFile(NamedTuple):
    """A checked pool."""

    path: str
    body: dict[str, Any]
    spec: PoolSpec


def read_jobs(sources: Sequence[str], pools: Callable[[], Iterable[str]] | None = None) -> list[JobFile]:
    """The jobs of files, folders or standard input. A job without an id gets one from the name of its file. Raises
    `Faults`: all that is wrong, unknown pools too where `pools` can tell which there are.
    """
    found, faults = _documents(sources)
    jobs: list[JobFile] = []
    used: dict[str, str] = {}
    for document in found:
        spec = _checked(document, document.value, JobSpec, faults)
        if spec is None:
            continue
        job_id = spec.job_id or new_id(stem(document.file))
        if job_id in used:
            faults.append(document.fault("/job_id", f"is the id of another job, at {used[job_id]}"))
        used[job_id] = f"{document.file}:{document.marks[''][0]}"
        jobs.append(JobFile(job_id, {**document.value, "job_id": job_id}, spec, document))
    if faults and pools is not None:
        faults += _unknown_pools(found, set(pools()))
    return _raise_faults(faults, jobs, "job", sources)


def _unknown_pools(documents: list[Document], known: set[str]) -> Iterator[Fault]:
    for document in documents:
        path = document.value.get("pool") if isinstance(document.value, dict) else None
        if isinstance(path, str) and re.fullmatch(POOL_PATTERN, path) and path not in known:
            nearest = difflib.get_close_matches(path, known, n=1)
            yield document.fault("/pool", no_pool(path) + "".join(f"; did you mean {name}?" for name in nearest))


def read_pools(sources: Sequence[str]) -> list[PoolFile]:
    """The pools of files, each a document or an item of a list, parents before their children. Raises `Faults`."""
    found, faults = _documents(sources)
    pools: list[PoolFile] = []
    used: dict[str, str] = {}
    for document in (each for whole in found for each in _items(whole)):
        value = document.value
        path = value.get("path") if isinstance(value, dict) else None
        body = {name: part for name, part in value.items() if name != "path"} if isinstance(value, dict) else value
        spec = _checked(document, body, PoolSpec, faults)
        if isinstance(value, dict) and not (isinstance(path, str) and re.fullmatch(POOL_PATTERN, path)):
            faults.append(document.fault("/path", "must be the path of a pool, such as /maps/tiles"))
        elif path in used:
            faults.append(document.fault("/path", f"is the path of another pool, at {used[path]}"))
        elif spec is not None:
            used[str(path)] = f"{document.file}:{document.marks[''][0]}"
            pools.append(PoolFile(str(path), body, spec))
    return sorted(_raise_faults(faults, pools, "pool", sources), key=lambda pool: pool.path.split("/"))


def read_one(source: str, model: type[M]) -> tuple[M, Document]:
    """The single document of a file, checked, and where its parts stand. Raises `Faults`."""
    found, faults = _documents([source])
    if len(found) > 1:
        faults.append(found[1].fault("", "a second document; one belongs into a file"))
    checked = _checked(found[0], found[0].value, model, faults) if found else None
    _raise_faults(faults, found, "document", [source])
    assert checked is not None
    return checked, found[0]


def _raise_faults(faults: list[Fault], found: list[Any], what: str, sources: Sequence[str]) -> list[Any]:
    if not faults and not found:
        faults.append(Fault(", ".join(sources), 0, 0, f"there is no {what} in it"))
    if faults:
        files = list(dict.fromkeys(fault.file for fault in faults))
        faults.sort(key=lambda fault: (files.index(fault.file), fault.line, fault.column))
        raise Faults([str(fault) for fault in faults])
    return found


def _checked(document: Document, value: Any, model: type[M], faults: list[Fault]) -> M | None:
    if not isinstance(value, dict):
        faults.append(document.fault("", "must be a mapping of fields"))
        return None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for pointer, message in problems(error, model):
            faults.append(document.fault(pointer, message + _quotes(value, pointer, message)))
        return None


def _quotes(value: Any, pointer: str, message: str) -> str:
    """What helps where text is asked for, and YAML reads a number or a truth."""
    if "valid string" not in message:
        return ""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        inside = value.get(name) if isinstance(value, dict) else None
        value = value[int(name)] if isinstance(value, list) and name.isdecimal() and int(name) < len(value) else inside
    return "; put it in quotes" if isinstance(value, bool | int | float) else ""


def _items(document: Document) -> list[Document]:
    """The items of a document that is a list, or itself."""
    if not isinstance(document.value, list):
        return [document]
    marks: list[dict[str, tuple[int, int]]] = [{} for _ in document.value]
    for at, mark in document.marks.items():
        index, slash, rest = at[1:].partition("/")
        if index:
            marks[int(index)][f"{slash}{rest}"] = mark
    return [Document(document.file, value, marks[index]) for index, value in enumerate(document.value)]


def _documents(sources: Sequence[str]) -> tuple[list[Document], list[Fault]]:
    documents: list[Document] = []
    faults: list[Fault] = []
    for name, text in _texts(sources, faults):
        documents += _parse(name, text, faults.append)
    return documents, faults


def _texts(sources: Sequence[str], faults: list[Fault]) -> Iterator[tuple[str, str]]:
    for source in sources:
        paths: Iterable[Path] = [Path(source)]
        if source != STDIN and Path(source).is_dir():
            paths = sorted(path for path in Path(source).iterdir() if path.suffix in SUFFIXES)
            if not paths:
                faults.append(Fault(source, 0, 0, f"no file there ends with {', '.join(SUFFIXES)}"))
        for path in paths:
            try:
                with nullcontext(sys.stdin.buffer) if source == STDIN else path.open("rb") as file:
                    data = file.read(FILE_BYTES_MAX + 1)
                if len(data) > FILE_BYTES_MAX:
                    faults.append(Fault(str(path), 0, 0, f"is over {FILE_BYTES_MAX >> 20} MiB"))
                    continue
                yield ("stdin" if source == STDIN else str(path)), data.decode()
            except OSError as error:
                faults.append(Fault(str(path), 0, 0, error.strerror or str(error)))
            except UnicodeDecodeError as error:
                faults.append(Fault(str(path), 0, 0, f"is not UTF-8 text: {error.reason} at byte {error.start}"))


def _parse(name: str, text: str, say: Callable[[Fault], None]) -> Iterator[Document]:
    """The documents of a text that hold something."""
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
        """See `Composer`: the next document."""
        self._nodes = 0
        return super().get_node()

    def compose_node(self, parent: Any, index: Any) -> Any:
        """See `Composer`: a node with all below it."""
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
        self.marks: dict[str, tuple[int, int]] = {}
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
                self._fault(key, f"{place}: stands twice, first at line {self.marks[place][0]}")
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


def stem(name: str) -> str:
    """The beginning of an id, from the name of a file."""
    found = re.sub(r"[^a-z0-9._-]+", "-", Path(name).stem.lower()).strip("-._")
    return "job" if name == "stdin" or not found else found[:64]
