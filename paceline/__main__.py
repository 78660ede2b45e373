"""`python -m paceline`, and the entry of the command: an interrupt while the program is loaded ends it quietly, too."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Loads the command, runs it and exits."""
    try:
        from paceline.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
