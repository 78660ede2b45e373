"""A value that is sealed for a run on a host is of use to nobody else."""

import pytest

from hostagent.run_record import RunKey
from hostagent.sealing import new_key, open_sealed, public_half, purpose, seal

RUN = RunKey("job", 3, 2)
ABOUT = purpose(0, "h1", 7, RUN, "db", 1)


def test_the_host_opens_what_was_sealed_for_it() -> None:
    key = new_key()
    sealed = seal(public_half(key), ABOUT, b"value")
    assert b"value" not in sealed
    assert open_sealed(key, ABOUT, sealed) == b"value"


@pytest.mark.parametrize(
    "other",
    [
        purpose(1, "h1", 7, RUN, "db", 1),
        purpose(0, "h2", 7, RUN, "db", 1),
        purpose(0, "h1", 8, RUN, "db", 1),
        purpose(0, "h1", 7, RunKey("job", 3, 3), "db", 1),
        purpose(0, "h1", 7, RUN, "web", 1),
        purpose(0, "h1", 7, RUN, "db", 2),
    ],
)
def test_nothing_opens_it_for_another_cell_host_session_run_name_or_version(other: bytes) -> None:
    key = new_key()
    sealed = seal(public_half(key), ABOUT, b"value")
    with pytest.raises(ValueError, match="sealed for another"):
        open_sealed(key, other, sealed)
    with pytest.raises(ValueError, match="sealed for another"):
        open_sealed(new_key(), ABOUT, sealed)
    with pytest.raises(ValueError, match="sealed for another"):
        open_sealed(key, ABOUT, sealed[:-1] + bytes([sealed[-1] ^ 1]))
