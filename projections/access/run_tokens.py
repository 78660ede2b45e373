"""Tokens of runs: each is good as long as its run is live in the views, for its own job alone."""

import asyncio

import numpy as np
from starlette.datastructures import Headers
from starlette.types import Scope

from events.actors import RUN
from events.codes import LIVE_TASKS
from events.run_tokens import ISSUER, WrongRunToken, opened
from events.signing_keys import SigningKeys
from paceline.client.bearer import shown
from projections.access.authentication import refused
from projections.access.identity import Identity
from projections.access.oidc import part
from projections.queries.entities import job_row
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.views.reader import Views


class RunProver:
    """Proves which run shows a token that this cell has signed. Implements `Prover`."""

    def __init__(self, views: Views, keys: SigningKeys, cell: int) -> None:
        self._views = views
        self._keys = keys
        self._cell = cell

    async def prove(self, scope: Scope, headers: Headers) -> Identity | None:
        """Implements `Prover`."""
        token = shown(headers.get("authorization"))
        if not token.startswith("ey") or token.count(".") != 2:
            return None
        claims = part(token, 1)
        if claims.get("iss") != ISSUER or claims.get("cell") != self._cell:
            return None
        return await asyncio.to_thread(self._proven, token)

    def _proven(self, token: str) -> Identity:
        try:
            run = opened(token, self._keys.published(), self._cell)
        except WrongRunToken as wrong:
            raise refused(wrong.code, str(wrong)) from wrong
        if not self._is_live(*run):
            raise refused("TOKEN_RUN_ENDED", f"run {run.run} of task {run.job_id}/{run.instance} isn't live")
        subject = f"job/{run.job_id}/task/{run.instance}/run/{run.run}"
        return Identity(subject, how=RUN, run=(run.job_id, run.instance, run.run), reads=(), reads_job=run.job_id)

    def _is_live(self, job_id: str, instance: int, run: int) -> bool:
        with self._views.read() as connection:
            job = job_row(connection, job_id)
            if job is None or not 0 <= instance < job.instances:
                return False
            columns = columns_of(connection, job, np.array([instance], np.int32))
        at = {name: int(columns[TASK_PLACES[name]][0]) for name in ("state", "run")}
        return at["state"] in LIVE_TASKS and at["run"] == run
