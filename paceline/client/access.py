"""Requests of the client about who may what: bindings, tokens, lockdowns, checks."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from paceline.client.api_requests import PAGE, Requests, new_id
from paceline.client.checked_values import path_of, pool_path

if TYPE_CHECKING:
    from paceline.client.access_models import (
        AccessAnswer,
        AccessCheck,
        AccessToken,
        LockdownList,
        PoolLockdown,
        StoredBinding,
        WhoAmI,
    )

ROOT = "/"
TOLD_S = 10.0


class AccessRequests(Requests):
    """Methods about who may what, see `Client`."""

    def bindings(self) -> "Iterator[StoredBinding]":
        """The bindings of roles that have not ended, by id."""
        return self._all("/v1/bindings", "bindings", {"page_size": PAGE})

    def bind_role(
        self,
        role: str,
        pool: str,
        subject: str = "",
        group: str = "",
        binding_id: str = "",
        from_at: str = "",
        until_at: str = "",
        reason: str = "",
        wait: float = 0,
        dry_run: bool = False,
    ) -> "AccessAnswer":
        """Binds a role over a pool and all below it (`/`: the cell) to a subject or a group. Times are RFC 3339.
        `binding_id`: its name; one that is there is replaced.
        """
        wish = {"subject": subject, "group": group, "from_at": from_at, "until_at": until_at}
        body = {"role": role, "pool": pool, "binding_id": binding_id or new_id("b"), "reason": reason}
        body |= {name: value for name, value in wish.items() if value}
        return cast("AccessAnswer", self._about_access("POST", "/v1/bindings", body, wait, dry_run))

    def unbind_role(self, binding_id: str, reason: str = "", wait: float = 0, dry_run: bool = False) -> "AccessAnswer":
        """Ends a binding."""
        return self._ended(path_of("bindings", binding_id), reason, wait, dry_run)

    def tokens(self) -> "Iterator[AccessToken]":
        """The tokens, without their texts; for a while also those that were revoked or have expired."""
        return self._all("/v1/tokens", "tokens", {"page_size": PAGE})

    def create_token(
        self,
        subject: str,
        role: str = "",
        pool: str = "",
        ttl: str = "30d",
        groups: Sequence[str] = (),
        reason: str = "",
        wait: float = TOLD_S,
        dry_run: bool = False,
        public_key: bytes = b"",
    ) -> "AccessAnswer":
        """Makes a token for a subject, and binds a role over a pool to it until the token ends, where one is named.
        `token` in the answer is its text, which is told this once. `ttl`: such as 12h; `0`: it holds until it is
        revoked. `public_key`: the Ed25519 key of a producer that signs its facts itself; it gets no text.
        """
        body = {"subject": subject, "role": role, "pool": pool, "ttl": ttl, "groups": list(groups), "reason": reason}
        body |= {"public_key": b64encode(public_key).decode()} if public_key else {}
        return cast("AccessAnswer", self._about_access("POST", "/v1/tokens", body, wait, dry_run))

    def revoke_token(self, token_id: str, reason: str = "", wait: float = 0, dry_run: bool = False) -> "AccessAnswer":
        """Revokes a token."""
        return self._ended(path_of("tokens", token_id), reason, wait, dry_run)

    def lockdowns(self, cell: int | None = None) -> "list[PoolLockdown]":
        """The lockdowns of a cell (None: that of the client), by pool; `/` is the cell."""
        params = {} if cell in (None, self._params.get("cell")) else {"cell": cell}
        return cast("LockdownList", self._get("/v1/lockdowns", params))["lockdowns"]

    def lock_down(self, pool: str = ROOT, reason: str = "", wait: float = 0, dry_run: bool = False) -> "AccessAnswer":
        """Locks the cell or a pool down: all writes but those of operators are refused, with the reason."""
        body = {"reason": reason, "command_id": new_id("lockdown")}
        return cast("AccessAnswer", self._about_access("PUT", _lockdown_of(pool), body, wait, dry_run))

    def end_lockdown(
        self, pool: str = ROOT, reason: str = "", wait: float = 0, dry_run: bool = False
    ) -> "AccessAnswer":
        """Ends the lockdown of the cell or of a pool."""
        return self._ended(_lockdown_of(pool), reason, wait, dry_run)

    def check_access(self, actor: str, verb: str, object: str = ROOT, groups: Sequence[str] = ()) -> "AccessCheck":
        """Whether an actor may do something, with the binding that allows it, or with the roles that would. `object`:
        a pool such as /maps, job/ID, host/ID, or `cell`; `actor`: empty for who asks.
        """
        params = {"actor": actor, "verb": verb, "object": object, "group": list(groups)}
        return cast("AccessCheck", self._get("/v1/access-checks", params))

    def whoami(self) -> "WhoAmI":
        """The identity of who asks, how it is known, and its roles."""
        return cast("WhoAmI", self._get("/v1/whoami"))

    def _ended(self, path: str, reason: str, wait: float, dry_run: bool) -> "AccessAnswer":
        query = {"reason": reason} if reason else {}
        return cast("AccessAnswer", self._about_access("DELETE", path, None, wait, dry_run, query))

    def _about_access(
        self, method: str, path: str, body: Any, wait: float, dry_run: bool, query: dict[str, str] | None = None
    ) -> Any:
        return self._write(method, path, body, wait, {**(query or {}), **({"dry_run": "true"} if dry_run else {})})


def _lockdown_of(pool: str) -> str:
    return "/v1/cell/lockdown" if pool == ROOT else pool_path(pool, "pool-lockdowns")
