"""Secrets on their host: asked for when a run is to start, and kept in memory (tmpfs) as long as it goes on.

`RUN/NAME` under `place` holds a value, for the user of the run alone, by its group where it isn't the agent's: what a
task owns it could make writable, and fill the memory of its host. Its keeper removes `RUN` when the run ends; what a
lost keeper leaves is removed here. Nothing of a value is in the agent's folder: that has the key alone (`host.key`),
to which gateways seal. The token of a run is brought with them, and a new one when half of its life is over.
"""

import asyncio
import errno
import os
import stat
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from events.abilities import SECRETS, VALUE
from events.codes import Code
from events.run_tokens import SECRET
from events.signing_keys import RUN_TOKEN_S
from events.structs import known
from hostagent import private_files
from hostagent.folders import entries, remove
from hostagent.run_as import TaskUser
from hostagent.run_record import RunKey, read_json
from hostagent.secret_messages import RunName, SealedSecret, SecretsAnswer, SecretsAsk, SecretsOfRun

RUNS_MAX = 100
"""Runs whose secrets are asked for at once."""
RETRY_S = 2.0
"""The wait before they are asked for again of a store that is away, and"""
AWAY_S = 30.0
"""for how long in all; then the run is not started, and the cell tries again."""
LOOK_S = 60.0
"""So often is looked for tokens whose life is half over."""
IN_MEMORY = ("tmpfs", "ramfs")


class StoredKey(msgspec.Struct):
    """`host.key`. `of`: the inode of the folder: one that was copied gets another key."""

    private: str
    public: str
    of: int


class Waiting(msgspec.Struct):
    """A run that waits for its secrets: what starts it, and what refuses it, with a reason and whether that lasts."""

    start: Callable[[], None]
    refuse: Callable[[str, bool], None]
    since_s: float = 0.0
    """Since when the store is known to be away; 0: it isn't."""


class HostSecrets:
    """The secrets of one host. `folder`: the agent's; `user_of`: as whom the tasks of a job run, None: as this process;
    `say`: told of trouble. Raises `OSError`.
    """

    def __init__(self, folder: Path, user_of: Callable[[str], TaskUser | None], say: Callable[[str], None]) -> None:
        self._user_of = user_of
        self._say = say
        self._key = _stored_key(folder)
        self.place: Path | None = None
        """Where the values are; None: this host can't keep any, and `fault` says why."""
        self.fault = ""
        try:
            self.place = _place(folder, self._key)
        except OSError as error:
            self.fault = error.strerror or str(error)
            say(f"takes no secrets for tasks: {self.fault}")
        self._waiting: dict[RunKey, Waiting] = {}
        self._changed = asyncio.Event()

    @property
    def public(self) -> str:
        """The public half of the key, in base64; empty: no secrets are taken."""
        return self._key.public if self.place is not None else ""

    def attributes(self) -> dict[str, str]:
        """The ability, where there is a place for them."""
        return {SECRETS: VALUE} if self.place is not None else {}

    def folder_of(self, run: RunKey) -> Path:
        """The folder of a run. Raises `ValueError` where there can't be one."""
        if self.place is None:
            raise ValueError(f"this host takes no secrets: {self.fault}")
        return self.place / f"{run.job_id}.{run.instance}.{run.run}"

    def remove(self, run: RunKey) -> None:
        """The run is over."""
        if self.place is not None and os.path.lexists(folder := self.folder_of(run)) and (faults := remove(folder)):
            self._say(f"can't remove secrets: {faults[0]}")

    def close(self) -> None:
        """Removes the place, if no run has secrets."""
        if self.place is not None:
            with suppress(OSError):
                self.place.rmdir()

    def keep_only(self, runs: Collection[RunKey]) -> None:
        """Removes what is of no run that goes on."""
        if self.place is not None:
            own = {self.folder_of(run).name for run in runs}
            for entry in entries(self.place):
                if entry.name not in own:
                    remove(entry.path)

    def want(self, run: RunKey, start: Callable[[], None], refuse: Callable[[str, bool], None]) -> None:
        """Has a run started once its secrets are here."""
        self._waiting.setdefault(run, Waiting(start, refuse))
        self._changed.set()

    def forget(self, *runs: RunKey) -> None:
        """The cell wants these runs no more."""
        for run in runs:
            self._waiting.pop(run, None)

    def forget_all(self) -> None:
        """The cell is about to say all that it wants."""
        self._waiting.clear()

    async def follow(
        self, session: tuple[int, str, int], ask: Callable[[bytes], Awaitable[bytes]], changed: Callable[[], None]
    ) -> None:
        """Brings what runs wait for, as long as a session lasts: cell, host and number. `ask`: puts a question to its
        gateway; `changed`: called when runs were started or refused.
        """

        async def answered(runs: Sequence[RunKey]) -> list[SecretsOfRun]:
            question = SecretsAsk(session[-1], [RunName(*run) for run in runs])
            return msgspec.json.decode(await ask(msgspec.json.encode(question)), type=known(SecretsAnswer)).runs

        while True:
            self._changed.clear()
            if runs := list(self._waiting)[:RUNS_MAX]:
                answers = await answered(runs)
                for each in answers:
                    self._take(each, session)
                changed()
                if any(each.away for each in answers):
                    await asyncio.sleep(RETRY_S)
            elif runs := self._with_old_tokens():
                for each in await answered(runs):
                    self._renew(each, session)
            if not self._waiting:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), LOOK_S)

    def _take(self, answer: SecretsOfRun, session: tuple[int, str, int]) -> None:
        """Starts a run, or says why it can't be; puts it off where its secrets may come yet."""
        run = answer.run.key
        waiting = self._waiting.pop(run, None)
        if waiting is None:  # not wanted any more
            return
        if answer.away:
            waiting.since_s = waiting.since_s or time.monotonic()
            if time.monotonic() - waiting.since_s < AWAY_S:
                self._waiting[run] = waiting  # behind the others
                return
        if fault := answer.missing or answer.away:
            waiting.refuse(fault, bool(answer.missing))
        elif answer.secrets:
            try:
                self._write(run, answer.secrets, session)
            except (OSError, ValueError) as error:
                self.remove(run)
                waiting.refuse(f"{Code.SECRETS_AWAY}: the host can't keep its secrets: {error}", False)
            else:
                waiting.start()

    def _with_old_tokens(self) -> list[RunKey]:
        """Runs whose tokens have lived for half of their time."""
        runs, old_s = list[RunKey](), time.time() - RUN_TOKEN_S / 2
        for entry in entries(self.place) if self.place is not None else ():
            with suppress(OSError, ValueError):
                if os.stat(f"{entry.path}/{SECRET}").st_mtime <= old_s:
                    job_id, instance, run = entry.name.rsplit(".", 2)
                    runs.append(RunKey(job_id, int(instance), int(run)))
        return runs[:RUNS_MAX]

    def _renew(self, answer: SecretsOfRun, session: tuple[int, str, int]) -> None:
        """Puts a new token in the place of a run's old one; where there is none now, the next look asks again."""
        run = answer.run.key
        try:
            for secret in answer.secrets:
                if secret.name == SECRET:
                    path = self.folder_of(run) / SECRET
                    draft = path.with_name(f"{SECRET}.new")
                    draft.unlink(missing_ok=True)
                    self._open(draft, run, secret, session)
                    draft.replace(path)
        except (OSError, ValueError) as error:
            self._say(f"can't renew the token of {run}: {error}")

    def _write(self, run: RunKey, secrets: list[SealedSecret], session: tuple[int, str, int]) -> None:
        """Opens the values into the folder of a run, which its user can read from then on. Raises `OSError`."""
        self.remove(run)
        folder = self.folder_of(run)
        folder.mkdir(mode=0o700)
        user = self._user_of(run.job_id)
        for secret in secrets:
            self._open(folder / secret.name, run, secret, session)
        if user is not None:
            os.chown(folder, -1, user.gid)
            folder.chmod(0o510)

    def _open(self, path: Path, run: RunKey, secret: SealedSecret, session: tuple[int, str, int]) -> None:
        """Opens a value into a file that isn't there yet, for the user of a run. Raises `OSError`, `ValueError`."""
        from hostagent.sealing import open_sealed, purpose

        private, user = b64decode(self._key.private), self._user_of(run.job_id)
        value = open_sealed(private, purpose(*session, run, secret.name, secret.version), secret.sealed)
        file = os.open(path, private_files.CREATE | os.O_EXCL, 0o400)
        try:
            if os.write(file, value) != len(value):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if user is not None:
                os.fchown(file, -1, user.gid)
                os.fchmod(file, 0o440)
        finally:
            os.close(file)


def _stored_key(folder: Path) -> StoredKey:
    """The key of the agent of a folder, drawn when it is first used. Raises `OSError`."""
    path, inode = folder / "host.key", folder.stat().st_ino
    stored = read_json(path, StoredKey)
    if stored is None or stored.of != inode:
        from hostagent.sealing import new_key, public_half

        private = new_key()
        stored = StoredKey(b64encode(private).decode(), b64encode(public_half(private)).decode(), inode)
        private_files.write_durably(str(path), msgspec.json.encode(stored).decode())
    return stored


def _place(folder: Path, key: StoredKey) -> Path:
    """A folder of this user in memory, of a name that nobody else knows before it is there. Raises `OSError`."""
    uid = os.geteuid()
    # not first /dev/shm: at the end of its last session a user may lose what is there (RemoveIPC of systemd-logind)
    roots = [Path("/run" if not uid else f"/run/user/{uid}"), Path("/dev/shm")]
    name = blake2b(str(folder.resolve()).encode(), key=b64decode(key.private), digest_size=8).hexdigest()
    for root in roots:
        if _is_in_memory(root) and os.access(root, os.W_OK | os.X_OK):
            place = root / f"paceline-{name}"
            with suppress(FileExistsError):
                place.mkdir(mode=0o700)
            status = place.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid:
                raise OSError(errno.EEXIST, f"{place} is somebody else's")
            place.chmod(0o711)  # who runs as another user gets to its own folder, and lists nothing
            return place
    raise OSError(errno.ENOENT, f"neither {roots[0]} nor {roots[1]} is a tmpfs that this agent may write to")


def _is_in_memory(path: Path) -> bool:
    """Whether what is written there stays in memory."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    over = [fields for fields in mounts if path == Path(fields[1]) or Path(fields[1]) in path.parents]
    return bool(over) and max(over, key=lambda fields: len(fields[1]))[2] in IN_MEMORY
