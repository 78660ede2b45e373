"""Job and pool files: YAML 1.2 or JSON, many documents in a file, checked whole before anything is written.

Every problem is found in one go and named by file, line, column and JSON pointer.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from events.answers import no_pool
from events.json_documents import read_json
from events.nearest import meant
from events.words import plural
from events.yaml_documents import Document, Fault, parse
from paceline.client.api_requests import new_id
from paceline.client.errors import Faults
from paceline.client.json_type import Json

if TYPE_CHECKING:  # a cell checks most jobs, without the half of a command's time that these take to import
    from pydantic import BaseModel

    from events.spec.job import JobSpec
    from events.spec.pool import PoolSpec

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
_STRING_OR_TRAILING_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[\]}])')
FAULTS_SHOWN = 20
"""The most mistakes in files that are told one by one."""
FILE_BYTES_MAX = 64 * 1024 * 1024

M = TypeVar("M", bound="BaseModel")


@dataclass(frozen=True)
class JobFile:
    """A job: its id, what the user wrote with that id, and where it stands."""

    job_id: str
    body: Json
    document: Document

    @property
    def spec(self) -> "JobSpec":
        """The model, of a job that was checked."""
        from events.spec.job import JobSpec

        return JobSpec.model_validate(self.body)

    def place(self) -> str:
        """The file and the line where it begins."""
        return f"{self.document.file}:{self.document.marks[''][0]}"


class PoolFile(NamedTuple):
    """A checked pool."""

    path: str
    body: Json
    spec: "PoolSpec"


def read_jobs(sources: Sequence[str], pools: Callable[[], Iterable[str]] | None = None) -> list[JobFile]:
    """The jobs of files, folders or standard input, each a document or an item of a list. A job without an id gets one
    from the name of its file. Raises `Faults`: all that is wrong, unknown pools too where `pools` can tell which there
    are.
    """
    jobs, faults = _read_jobs(sources)
    return _checked_jobs(jobs, faults, pools, sources)


def read_unchecked_jobs(sources: Sequence[str], pools: Callable[[], Iterable[str]] | None = None) -> list[JobFile]:
    """The same, whose fields the cell has to check, unless something else is wrong with the files."""
    jobs, faults = _read_jobs(sources)
    if faults or not jobs:
        return _checked_jobs(jobs, faults, pools, sources)
    return jobs


def check_jobs(jobs: Sequence[JobFile], pools: Callable[[], Iterable[str]]) -> None:
    """Checks jobs that weren't. Raises `Faults` with all that is wrong with them."""
    _checked_jobs(list(jobs), [], pools, ())


def _read_jobs(sources: Sequence[str]) -> tuple[list[JobFile], list[Fault]]:
    documents, faults = _documents(sources)
    jobs: list[JobFile] = []
    used: dict[str, JobFile] = {}
    for document in (each for whole in documents for each in _items(whole)):
        if not isinstance(document.value, dict):
            faults.append(document.fault("", "must be a mapping of fields"))
            continue
        job_id = document.value.get("job_id")
        if job_id is None:
            job_id = new_id(stem(document.file))
        job = JobFile(job_id, {**document.value, "job_id": job_id}, document)
        jobs.append(job)
        if not isinstance(job_id, str):
            continue
        if job_id in used:
            faults.append(document.fault("/job_id", f"is the id of another job, at {used[job_id].place()}"))
        used[job_id] = job
    return jobs, faults


def _checked_jobs(
    jobs: list[JobFile], faults: list[Fault], pools: Callable[[], Iterable[str]] | None, sources: Sequence[str]
) -> list[JobFile]:
    from events.spec.job import JobSpec

    for each in jobs:
        if "path" in each.document.value and "pool" not in each.document.value:
            faults.append(each.document.fault("", "looks like a pool: define it by `paceline pool apply`"))
        else:
            _checked(each.document, each.document.value, JobSpec, faults)
    if faults and pools is not None:
        faults += _unknown_pools([each.document for each in jobs], set(pools()))
    return _raise_faults(faults, jobs, "job", sources)


def _unknown_pools(documents: list[Document], paths: set[str]) -> Iterator[Fault]:
    from events.spec.job import POOL_PATTERN

    for document in documents:
        path = document.value.get("pool") if isinstance(document.value, dict) else None
        if isinstance(path, str) and re.fullmatch(POOL_PATTERN, path) and path not in paths:
            yield document.fault("/pool", no_pool(path) + meant(path, paths))


def read_pools(sources: Sequence[str]) -> list[PoolFile]:
    """The pools of files, each a document or an item of a list, parents before their children. Raises `Faults`."""
    return _pools_of(*_documents(sources), sources)


def _pools_of(documents: list[Document], faults: list[Fault], sources: Sequence[str]) -> list[PoolFile]:
    from events.spec.job import POOL_PATTERN
    from events.spec.pool import PoolSpec

    pools: list[PoolFile] = []
    used: dict[str, str] = {}
    for document in (each for whole in documents for each in _items(whole)):
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
    return _one_of(*_documents([source]), source, model)


def read_pools_or_one(source: str, model: type[M]) -> list[PoolFile] | tuple[M, Document]:
    """The pools of a file; its single document where that is a mapping without the path of a pool. Raises `Faults`."""
    documents, faults = _documents([source])
    value = documents[0].value if len(documents) == 1 else None
    if isinstance(value, dict) and value and "path" not in value:
        return _one_of(documents, faults, source, model)
    if not value and len(documents) <= 1 and not faults:
        parts = ", ".join(model.model_fields)
        raise Faults([str(Fault(source, 0, 0, f"it is empty; there may be pools in it, or some of: {parts}"))])
    return _pools_of(documents, faults, [source])


def _one_of(documents: list[Document], faults: list[Fault], source: str, model: type[M]) -> tuple[M, Document]:
    if len(documents) > 1:
        faults.append(documents[1].fault("", "a second document; one belongs into a file"))
    checked = _checked(documents[0], documents[0].value, model, faults) if documents else None
    _raise_faults(faults, documents, "document", [source])
    assert checked is not None
    return checked, documents[0]


def _raise_faults(faults: list[Fault], documents: list[Any], what: str, sources: Sequence[str]) -> list[Any]:
    if not faults and not documents:
        faults.append(Fault(", ".join(sources), 0, 0, f"there is no {what} in it"))
    if faults:
        files = list(dict.fromkeys(fault.file for fault in faults))
        faults.sort(key=lambda fault: (files.index(fault.file), fault.line, fault.column))
        rest = len(faults) - FAULTS_SHOWN
        more = [f"and {plural(rest, 'more mistake')}"] if rest > 0 else []
        raise Faults([*map(str, faults[:FAULTS_SHOWN]), *more])
    return documents


def _checked(document: Document, value: Any, model: type[M], faults: list[Fault]) -> M | None:
    from pydantic import ValidationError

    from events.spec.problems import problems

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
    """A hint to quote a value where text is expected and YAML reads a number or a boolean."""
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
        read = read_json(name, text)
        if read is not None:
            documents += read
            continue
        if name.endswith(".json"):
            faults += _trailing_commas(name, text)
        documents += parse(name, text, faults.append)
    return documents, faults


def _trailing_commas(name: str, text: str) -> Iterator[Fault]:
    """YAML takes a comma at the end of a list or of an object, JSON doesn't."""
    for match in _STRING_OR_TRAILING_COMMA.finditer(text):
        if match[0] == ",":
            before = text[: match.start()]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            yield Fault(name, line, column, "JSON takes no comma after the last item")


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


def stem(name: str) -> str:
    """The beginning of an id, from the name of a file."""
    cleaned = re.sub(r"[^a-z0-9._-]+", "-", Path(name).stem.lower()).strip("-._")
    return "job" if name == "stdin" or not cleaned else cleaned[:64]
