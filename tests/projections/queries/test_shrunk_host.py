"""What a user sees of a host that offers less than its runs hold."""

import pytest

from events.resources import REVOCABLE, Kinds
from projections.queries.entities import host_json
from projections.views.rows import HostRow, to_json


def host(capacity: dict[str, int], allocated: dict[str, int], **fields: object) -> HostRow:
    row = HostRow(host_id="h", session=1, offered=1, reconciled_session=1, **fields)  # type: ignore[arg-type]
    row.capacity, row.allocated = to_json(capacity), to_json(allocated)
    return row


def test_the_surplus_is_shown_with_its_code_and_numbers() -> None:
    body = host_json(host({"cpu": 3000, "memory": 8192}, {"cpu": 4500, "memory": 1024}), Kinds())
    assert body["shrunk"] is not None
    assert (body["shrunk"]["code"], body["shrunk"]["surplus"]) == ("HOST_SHRUNK", {"cpu": 1.5})
    assert "by 1.5 cpu" in body["shrunk"]["message"]


@pytest.mark.parametrize(
    ("capacity", "allocated", "fields"),
    [
        ({"cpu": 3000}, {"cpu": 3000}, {}),
        ({"cpu": 3000}, {"cpu": 3000, REVOCABLE: 500}, {}),
        ({}, {"cpu": 3000}, {"lost_code": "SILENT", "lost_session": 1}),
    ],
)
def test_no_surplus_where_the_rest_fits_is_lent_or_is_lost(
    capacity: dict[str, int], allocated: dict[str, int], fields: dict[str, object]
) -> None:
    assert host_json(host(capacity, allocated, **fields), Kinds())["shrunk"] is None


def test_a_named_device_that_is_gone_or_unwell_is_no_surplus_as_its_run_keeps_it() -> None:
    devices = to_json([{"id": "1", "kind": "gpu", "memory": 40 << 10}])
    capacity, held = {"cpu": 4000, "gpu": 1000}, {"cpu": 4000, "gpu": 2000, "gpu_memory": 80 << 10}
    assert host_json(host(capacity, held, devices=devices), Kinds())["shrunk"] is None
    shrunk = host_json(host({"gpu": 1000}, {"gpu": 2000}), Kinds())["shrunk"]
    assert shrunk is not None, "of an amount nobody knows which card is gone"
    assert shrunk["surplus"] == {"gpu": 1}
    shrunk = host_json(host({"cpu": 3000, "gpu": 1000}, held, devices=devices), Kinds())["shrunk"]
    assert shrunk is not None
    assert shrunk["surplus"] == {"cpu": 1}
