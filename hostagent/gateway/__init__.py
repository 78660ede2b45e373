"""The gateway: turns accepted rounds of lifecycle into orders for agents, and what agents say into facts."""

from hostagent.gateway.component import Gateway
from hostagent.gateway.connections import Link, LogMissing

__all__ = ["Gateway", "Link", "LogMissing"]
