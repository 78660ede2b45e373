"""Numbers and times in what somebody asks for: bounded, so that nothing that is written can be too large to show."""

from datetime import UTC, datetime

DIGITS_MAX = 18
"""The most digits of a number: a longer one does not fit into 64 bits."""
END_MS = 253_370_764_800_000
"""The year 9999: times before it can be shown in every zone."""


def whole_number(text: str, digits: int = DIGITS_MAX) -> int | None:
    """A whole number without a sign, of so many digits at most; None where the text is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def since_ms(time: datetime | None) -> int:
    """A time that was asked for in milliseconds, UTC where it names no zone; 0: none was."""
    return int(time.replace(tzinfo=time.tzinfo or UTC).timestamp() * 1000) if time else 0


def time_ms(text: str) -> int | None:
    """A time in milliseconds, UTC where it names no zone; None where the text is none, or one that can't be shown."""
    try:
        moment = datetime.fromisoformat(text)
        ms = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return ms if 0 <= ms < END_MS else None
