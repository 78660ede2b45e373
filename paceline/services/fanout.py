"""`paceline fanout`: each decision again as one message of its own type, for the cells that its group gives it."""

from collections import defaultdict

from events.log.kafka.kafka_log import KafkaLog
from events.topics import MACHINES, rounds_of
from paceline.services.cell_log import with_archive
from paceline.services.data_folder import CannotStart
from paceline.services.faust_app import run_cells
from paceline.services.settings import Settings
from paceline.services.startup import Start
from projections.fanout.component import PACE, FanoutCell


def serve(settings: Settings, start: Start) -> None:
    """Runs until SIGTERM or SIGINT. Raises `CannotStart`."""
    folder = settings.data / "fanout"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotStart(str(error)) from error
    reached: defaultdict[int, dict[str, int]] = defaultdict(dict)

    def make(cell: int) -> FanoutCell:
        def say(text: str) -> None:
            start.say(cell, text)

        log = KafkaLog(settings.kafka, cell, {**PACE, **settings.kafka_options}, say)
        return FanoutCell(log, with_archive(log, settings.archive), folder, say, reached[cell])

    run_cells(settings, start, [rounds_of(machine) for machine in MACHINES], make)
