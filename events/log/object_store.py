"""Files in a folder or an S3-compatible store, by fsspec: where archives of the log and snapshots of stores are kept.

A file written to a local folder is whole and synced, or not there; object stores promise the same by themselves.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from fsspec.core import split_protocol, url_to_fs

from events.log.port import LogFault, LogUnavailable

PART = ".part"


class Files:
    """The files under a URL of fsspec (`/backup`, `file://…`, `s3://bucket/…`), by names relative to it.

    Every method raises `LogUnavailable` where the place doesn't answer or refuses; reading what isn't there raises
    `FileNotFoundError`. Raises `LogFault` where fsspec doesn't know the URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._local = split_protocol(url)[0] in (None, "file", "local")
        try:
            self._fs, self._root = url_to_fs(url)
        except ImportError as error:
            raise LogFault(f"{url} can't be used: {error}. For S3: pip install 'paceline[s3]'.") from error
        except ValueError as error:
            raise LogFault(f"{url} can't be used: {error}. Name a folder, or a URL such as s3://bucket.") from error

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none where there is no such folder."""
        with self._reached():
            self._fs.invalidate_cache()
            try:
                paths = self._fs.ls(self._at(folder), detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(PurePosixPath(each).name for each in paths if not each.endswith(PART))

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        with self._reached():
            data: bytes = self._fs.cat_file(self._at(name))
        return data

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, in the place of one that is there."""
        with self._reached(reads=False):
            if not self._local:
                self._fs.pipe_file(self._at(name), data)
                return
            with self._part(name) as part:
                part.write_bytes(data)

    def put(self, source: Path, name: str) -> None:
        """Copies a file of this machine to a name."""
        with self._reached(reads=False):
            if not self._local:
                self._fs.put_file(str(source), self._at(name))
                return
            with self._part(name) as part:
                shutil.copyfile(source, part)

    def get(self, name: str, target: Path) -> None:
        """Copies a file to this machine."""
        with self._reached():
            self._fs.get_file(self._at(name), str(target))

    def remove(self, folder: str) -> None:
        """Removes a folder and its files; nothing where there is none."""
        with self._reached(), suppress(FileNotFoundError):
            self._fs.rm(self._at(folder), recursive=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _part(self, name: str) -> Iterator[Path]:
        """A file to write beside the one named, then synced and put in its place."""
        target = Path(self._at(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.{os.getpid()}{PART}")
        try:
            yield part
            _sync(part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        for folder in target.parents:
            _sync(folder)
            if folder == Path(self._root):
                break

    @contextmanager
    def _reached(self, reads: bool = True) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each driver behind fsspec has exceptions of its own
            if reads and isinstance(error, FileNotFoundError):  # to who writes, s3fs says so of the bucket
                raise
            raise LogUnavailable(f"{self.url} can't be used now: {error}. See that it can be reached.") from error


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
