"""The API and the pages of a cell over the views in a folder that another process fills, as `paceline api` serves them:
python -m bench._ui_server FOLDER TOKEN. Prints its address.
"""

import sys
from pathlib import Path

from events.log.embedded import EmbeddedLog
from hostagent.server import Server
from paceline.services.startup import listening
from projections.api.app import create_app
from projections.ui.app import add_ui
from projections.views.reader import AttachedViews

GRACE_S = 1


def main(folder: Path, token: str) -> None:
    """Serves until it is ended."""
    log = EmbeddedLog.open_secondary(folder / "log")
    views = AttachedViews(folder / "views.sqlite")
    socket = listening("127.0.0.1:0")
    address = f"127.0.0.1:{socket.getsockname()[1]}"
    info = {"cell": 0, "listen": address, "log": str(folder), "machines": {}}
    app = create_app(views, log, token=token, listen=address, cell_info=lambda: info)
    add_ui(app, {0: app.state.context}, token)
    print(address, flush=True)
    Server(app, GRACE_S).run([socket])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
