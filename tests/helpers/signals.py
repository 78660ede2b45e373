"""Signals that a shell lets the processes in its background ignore, and with them all that they start."""

import signal

HEARD = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL}


def heard() -> None:
    """From now on they are heard again, here and by all that is started."""
    for number, handler in HEARD.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
