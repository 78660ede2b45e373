"""The past of cells on Kafka, asked of an API beside a projector."""

from pathlib import Path
from typing import Any

import httpx2

from tests.helpers.asking import ask
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty


def asked(site: Site, path: str, at: str) -> httpx2.Response:
    """What the API answers once the views are made."""

    def look() -> Any:
        answer = ask(f"http://{site.address('api')}{path}", params={"at": at})
        return answer if answer.status_code != 503 else None

    found: httpx2.Response = site.until(look, f"{path} at {at}")
    return found


def test_a_cell_on_kafka_is_shown_as_it_was(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 2), cells=2, PACELINE_VIEWS__COPY_EVERY="20")
    try:
        site.begin()
        site.pool("/p", cell=0)
        site.pool("/q", cell=1)
        site.submit("first", 3)
        site.submit("other", 2, pool="/q")
        site.finish("first")
        site.finish("other")
        said = ask(f"http://{site.address('api')}/v1/jobs/first/history", params={"page_size": 1000}).json()
        last = said["events"][-1]
        site.submit("second", 3)
        site.finish("second")
        for at in (f"0/{last['position']}", last["at"]):
            shown = asked(site, "/v1/jobs", at)
            assert "second" not in {job["job_id"] for job in shown.json()["jobs"]}
            assert asked(site, "/v1/jobs/first", at).json()["state"] == "SUCCEEDED"
            assert asked(site, "/v1/jobs/second", at).status_code == 404
        site.until(lambda: list((tmp_path).rglob("copies/*.head")), "a copy of views")
    finally:
        site.processes.stop_all()
