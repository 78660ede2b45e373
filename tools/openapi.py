"""Keeps the description of the HTTP API: `python -m tools.openapi` writes docs/openapi.json, as the routes say.

It writes nothing where clients of what is kept would break (`tools.api_breaks`), and names that; `--breaking` writes it
all the same: then the CHANGELOG says what clients have to do.
"""

import json
import sys
from typing import Any

import schemas
from events.log.memory import MemoryLog
from projections.api.app import create_app
from tools.api_breaks import breaks

FILE = schemas.ROOT.parent / "docs" / "openapi.json"


def described() -> Any:
    """The description as the routes of one cell say it."""
    app = create_app(None, MemoryLog(lambda: 0, 0), token="", listen="", cell_info=dict)  # type: ignore[arg-type]
    return json.loads(json.dumps(app.openapi()))


def kept() -> Any:
    """The description that is kept; empty where there is none."""
    return json.loads(FILE.read_text()) if FILE.exists() else {"paths": {}}


def text_of(description: Any) -> str:
    """The text of the file: the same for the same description, a line for each value, so that changes can be read."""
    return json.dumps(description, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes the file; the exit code."""
    new = described()
    differences = breaks(kept(), new)
    print(*differences, sep="\n", end="\n" if differences else "")
    if differences and "--breaking" not in sys.argv:
        return 1
    FILE.write_text(text_of(new))
    return 0


if __name__ == "__main__":
    sys.exit(main())
