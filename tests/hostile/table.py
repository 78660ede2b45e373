"""The table of `docs/security.md`: what stops an attack at which level, as the suite has measured it."""

from pathlib import Path

from tests.hostile.suite import GROUPS, LEVELS

PAGE = Path(__file__).parents[2] / "docs/security.md"
BEGIN, END = "<!-- measured by `make hostile` -->", "<!-- end -->"
STOPPED, WORKS, ABSENT = "stopped", "**works**", "not measured"


def text(found: dict[str, dict[str, bool]]) -> str:
    """The table of what was found, by level and attack."""
    lines = [f"| attack | {' | '.join(level.name for level in LEVELS)} |", f"| --- |{' --- |' * len(LEVELS)}"]
    for group, attacks in GROUPS.items():
        lines.append(f"| *{group}* |{' |' * len(LEVELS)}")
        for attack in attacks:
            cells = (word(found.get(level.name, {}).get(attack.name)) for level in LEVELS)
            lines.append(f"| {attack.title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def word(stopped: bool | None) -> str:
    """A cell of the table."""
    return ABSENT if stopped is None else STOPPED if stopped else WORKS


def put(table: str) -> None:
    """Writes it into the page."""
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


def told() -> dict[tuple[str, str], str]:
    """The cells of the page, by level and title of the attack."""
    rows = [line.strip("|").split("|") for line in PAGE.read_text().split(BEGIN)[1].split(END)[0].split("\n") if line]
    _, *names = [cell.strip() for cell in rows[0]]
    return {(name, row[0].strip()): cell.strip() for row in rows[2:] for name, cell in zip(names, row[1:], strict=True)}
