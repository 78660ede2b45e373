"""The metrics of a gateway for Prometheus."""

from collections.abc import Iterable

from prometheus_client import Counter, Gauge

from hostagent.gateway.hosts import HostConnection

LABELS = ("cell", "gateway")
HOSTS = Gauge("paceline_gateway_hosts", "Hosts that follow orders of this gateway.", LABELS)
REPORTS = Counter("paceline_gateway_reports_total", "Reports of runs taken from hosts.", LABELS)
ORDERS = Counter("paceline_gateway_orders_total", "Orders sent to hosts, repeats after a connection included.", LABELS)


class Metrics:
    """The metrics of one gateway."""

    def __init__(self, cell: int, gateway: str) -> None:
        labels = {"cell": str(cell), "gateway": gateway}
        self._hosts = HOSTS.labels(**labels)
        self.reports = REPORTS.labels(**labels)
        self.orders = ORDERS.labels(**labels)

    def set_hosts(self, hosts: Iterable[HostConnection]) -> None:
        """Where the gateway stands now."""
        self._hosts.set(len([host for host in hosts if host.link is not None]))
