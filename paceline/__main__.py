"""`python -m paceline`, and the entry of the command: an interrupt while the program is loaded ends it quietly, too."""

import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Loads the command, runs it and exits."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        try:
            if (
                handler is signal.default_int_handler
            ):  # an exception within an import may be lost, or leave half a module
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            from paceline.cli.main import main as run_command
        finally:
            signal.signal(signal.SIGINT, handler)
        run_command()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
