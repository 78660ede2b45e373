"""`paceline gateway --cell N`: turns rounds into orders for agents, and what agents say into facts."""

import threading

from events.log.archived import ArchivedLog
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import Log, LogError
from hostagent.gateway.service import GatewayHangs, run_gateway
from paceline.services import health_pages
from paceline.services.data_folder import CannotStart
from paceline.services.process_setup import on_end
from paceline.services.settings import Settings
from paceline.services.startup import Start, folder_of, host_ca, signing_keys


def serve(settings: Settings, start: Start) -> None:
    """Runs until SIGTERM or SIGINT. Raises `CannotStart`."""
    cell, stop = settings.cell, threading.Event()
    on_end(stop.set)
    kafka = KafkaLog(settings.kafka, cell, settings.kafka_options, on_trouble=lambda text: start.say(cell, text))
    # one without a store folds the whole history
    log: Log = ArchivedLog(kafka, settings.archive) if settings.archive else kafka
    try:
        run_gateway(
            log,
            folder_of(settings, cell) / start.name,
            start.name,
            start.token,
            start.listening,
            lambda: start.say(cell, f"serves agents at {start.url}"),
            stop,
            settings.service.sim_hosts,
            settings.service.secrets,
            lambda: kafka.link.trouble,
            health_pages.routes,
            start.tls,
            host_ca(settings) if start.tls else None,
            signing_keys(settings.data, settings.service.signing_keys),
        )
    except (LogError, OSError, GatewayHangs) as fault:
        raise CannotStart(str(fault)) from fault
    finally:
        log.close()
