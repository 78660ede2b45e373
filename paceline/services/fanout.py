"""`paceline fanout`: each decision again as one message of its own type."""

from paceline.services.data_folder import CannotStart
from paceline.services.faust_app import serve_pages
from paceline.services.settings import Settings
from paceline.services.startup import begin
from projections.fanout.app import run_fanout


def run(settings: Settings) -> int:
    """Runs until SIGTERM or SIGINT. Raises `CannotStart`."""
    start = begin(settings, "fanout")
    fault = run_fanout(
        settings.kafka,
        settings.data,
        start.name,
        settings.service.session_timeout_ms,
        settings.kafka_options,
        lambda app, look: serve_pages(app, look, start.listening),
        start.say,
        settings.archive,
    )
    if fault:
        raise CannotStart(fault)
    start.say(None, "stopped")
    return 0
