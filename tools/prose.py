"""Checks the English of the code: `python -m tools.prose [FOLDER ...]` lists findings, `--lower` lowers the allowance.

Docstrings are sentences with a subject or a verb, names of data are nouns, and words are those of the field. A folder
may have as many older findings of a kind as `tests/house/prose.txt` says, which only shrinks; one that isn't named
there may have none. Code that moves to another folder takes its allowance along, by hand.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ALLOWANCE = ROOT / "tests" / "house" / "prose.txt"
PACKAGES = (
    "bench",
    "deploy",
    "events",
    "examples",
    "hostagent",
    "paceline",
    "processors",
    "projections",
    "schemas",
    "tools",
)
GENERATED = "events/records/"
FRAGMENT = re.compile(r"(What|Who|Whom|Whose|Which|How|Of)\b|See (?:[^.]|\.(?=\w))*\.\s*$")
"""A docstring that begins with a subordinate clause, or only points elsewhere."""
PARTICIPLES = {
    "asked", "chosen", "found", "given", "gone", "heard", "held", "kept", "known", "left", "made", "named", "said",
    "sent", "shown", "taken", "told", "wanted",
}  # fmt: skip
"""Names that tell what happened to data instead of what it is."""
PRIVATE = re.compile(
    r"\b(hands? out|the face|[Ss]ee above|stands? twice|decided? again|asked to leave|nothing goes on|lacks? nothing|"
    r"told apart|in vain|anew|speaks? of|fate|slips? of the pen|harmed)\b"
)
"""Everyday words for which the field has a term."""
FILE = re.compile(r"[\w/]+\.py\b")
CODE = re.compile(r"^\s*(from [\w.]+ import \w|import [a-z_.]+$)", re.MULTILINE)


class Finding(NamedTuple):
    """One place that breaks a rule."""

    path: str
    line: int
    kind: str
    text: str


def findings(path: str, source: str, files: frozenset[str]) -> Iterator[Finding]:
    """The findings in a module; `files` are the names of all modules, without their folders."""
    tree = ast.parse(source)
    for line, text in docstrings(tree):
        start = text.strip().partition("\n")[0]
        if FRAGMENT.match(text.strip()):
            yield Finding(path, line, "fragment", start)
        if CODE.search(text):
            yield Finding(path, line, "code", start)
        yield from _words(path, line, text, files)
    for line, text in comments(source):
        yield from _words(path, line, text, files)
    for line, name in names(tree):
        if name in PARTICIPLES:
            yield Finding(path, line, "participle", name)


def _words(path: str, line: int, text: str, files: frozenset[str]) -> Iterator[Finding]:
    for word in PRIVATE.findall(text):
        yield Finding(path, line, "private", word)
    for name in FILE.findall(text):
        if name.rpartition("/")[2] not in files:
            yield Finding(path, line, "dangling", name)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings that stand alone: docstrings of modules, classes, functions and of the attributes before them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments of a module, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Variables that are assigned, and parameters; not fields of a TypedDict, whose names are those on the wire."""
    wire = {id(field.target) for field in _fields_of_typed_dicts(tree)}
    for node in ast.walk(tree):
        if id(node) in wire:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def _fields_of_typed_dicts(tree: ast.Module) -> Iterator[ast.AnnAssign]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and "TypedDict" in "".join(map(ast.dump, node.bases)):
            yield from (field for field in node.body if isinstance(field, ast.AnnAssign))


def folder(path: str) -> str:
    """The folder whose allowance counts for a file: at most two levels."""
    return "/".join(Path(path).parent.parts[:2])


def modules() -> list[str]:
    """The modules of the packages, generated ones left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *PACKAGES],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = [path for path in listed.stdout.split() if path.endswith(".py") and (ROOT / path).exists()]
    return sorted(path for path in paths if not path.startswith(GENERATED))


def all_findings() -> list[Finding]:
    """The findings in all modules."""
    files = frozenset(path.name for top in (*PACKAGES, "tests") for path in (ROOT / top).rglob("*.py"))
    return [one for path in modules() for one in findings(path, (ROOT / path).read_text(), files)]


def counts(all_of_them: list[Finding]) -> Counter[tuple[str, str]]:
    """Counts the findings by folder and kind."""
    return Counter((folder(one.path), one.kind) for one in all_of_them)


def allowance() -> Counter[tuple[str, str]]:
    """The findings that each folder may have, by kind: the least where a merge has left two lines."""
    table: Counter[tuple[str, str]] = Counter()
    for line in ALLOWANCE.read_text().splitlines():
        place, kind, count = line.split()
        table[place, kind] = min(int(count), table.get((place, kind), int(count)))
    return table


def lower() -> None:
    """Lowers the allowance to what there is; where there is more, it stays as it was."""
    rest = counts(all_findings()) & allowance()
    ALLOWANCE.write_text("".join(f"{place} {kind} {count}\n" for (place, kind), count in sorted(rest.items())))


def main(arguments: list[str]) -> None:
    """Runs the command."""
    if arguments == ["--lower"]:
        lower()
        return
    for one in all_findings():
        if not arguments or one.path.startswith(tuple(arguments)):
            print(f"{one.path}:{one.line}: {one.kind}: {one.text}")


if __name__ == "__main__":
    main(sys.argv[1:])
