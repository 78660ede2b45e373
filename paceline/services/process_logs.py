"""Logs of the processes on stderr: lines for people, or one JSON object each."""

import asyncio
import faulthandler
import logging
import sys
from typing import Any

import structlog

NAME = "paceline.process"
as_json = False
"""Whether all that this process says of itself is to be objects, the last sentence too."""
_process_fields: dict[str, Any] = {}


def _add_fields(_logger: Any, _level: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Every line names its process, those of libraries and the last sentence too."""
    return {**_process_fields, **line}


SHARED: list[Any] = [
    _add_fields,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def _of_the_end(record: logging.LogRecord) -> bool:
    """Whether a line says only that a request was cut off: what becomes of open streams when a process ends."""
    return record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)


def configure(form: str, level: str, **fields: Any) -> None:
    """Sends all logs of this process through one handler; what libraries say only where it is a warning. `own`: the
    fields by which each line names this process. A library that crashes in C says where.
    """
    faulthandler.enable(2)  # stderr
    _process_fields.clear()
    _process_fields.update(fields)
    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    renderer: Any = structlog.processors.JSONRenderer()
    if form == "console":
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(lambda record: not _of_the_end(record))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level="DEBUG" if level == "debug" else "WARNING", force=True)
    logging.getLogger(NAME).setLevel(level.upper())
    global as_json
    as_json = form == "json"


def logger(**bound: Any) -> Any:
    """A logger whose lines carry what is bound."""
    return structlog.get_logger(NAME).bind(**bound)
