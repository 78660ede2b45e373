"""A forecaster of its own beside a cell of processes on Kafka: killed, started again, and the log cut behind it."""

from pathlib import Path

from events.topics import rounds_of
from hostagent.fleet import SIM_CAPACITY
from paceline.services.forecaster import FILE
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty

PARTS = ("lifecycle", "entitlement", "placement", "sla", "projector", "gateway.0", "api", "forecaster")
LIFECYCLE = rounds_of("lifecycle")


def test_one_that_is_killed_scores_what_it_said_and_goes_on_from_its_file_when_the_log_is_cut(
    broker: Broker, tmp_path: Path
) -> None:
    site = Site(tmp_path, empty(broker, 1), sim_hosts=1)
    whole = {"resources": {"cpu": f"{SIM_CAPACITY['cpu']}m"}, "max_runtime": "10m"}
    try:
        site.start(*PARTS)
        site.until_ready(*PARTS)
        site.pool("/p")
        site.submit("first", duration="9m", **whole)
        site.until(lambda: site.running("first") == 1)
        site.submit("second", duration="9m", **whole)
        again(site)
        forecast = site.until(lambda: site.request("GET", "/v1/jobs/second").json().get("forecast"), "a forecast")
        assert (forecast["pool"], forecast["method"]) == ("/p", "ahead")
        again(site)
        site.request("POST", "/v1/jobs/first/stops", {"reason": "enough"})
        scores = site.until(lambda: site.request("GET", "/v1/forecasts?pool=/p").json()["scores"], "a score")
        assert [each["scored"] for each in scores] == [1]
        site.stop("forecaster")
        assert (tmp_path / "data" / "cell-0" / FILE).exists()
        site.remove(0, LIFECYCLE, 3)
        site.start("forecaster")
        site.until_ready("forecaster")
        assert site.status("forecaster", 0)["ready"]
        assert len(site.request("GET", "/v1/forecasts?pool=/p").json()["scores"]) == 1
    finally:
        site.processes.stop_all()


def again(site: Site) -> None:
    """Kills it, and starts another."""
    site.kill("forecaster")
    site.start("forecaster")
    site.until_ready("forecaster")
