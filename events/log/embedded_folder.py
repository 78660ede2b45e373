"""The folder of an embedded log: how RocksDB opens it, and what is wrong where it doesn't."""

import os
from contextlib import suppress
from pathlib import Path

from rocksdict import DBCompressionType, Options

from events.log.port import LogFault, LogUnavailable


def options(secondary: bool = False) -> Options:
    """The options with which RocksDB opens a log."""
    options = Options(raw_mode=True)
    options.create_if_missing(not secondary)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(32 * 1024 * 1024)
    options.set_keep_log_file_num(2)
    options.set_max_open_files(-1 if secondary else 256)  # a secondary must hold the files that its primary deletes
    return options


def is_missing(folder: Path) -> bool:
    """Whether there is no log in a folder; False where that can't be seen."""
    try:
        return not (folder / "CURRENT").exists()
    except OSError:
        return False


def sync_journals(folder: Path) -> None:
    """Returns when all that was written so far to a log of another process is on the disk. Raises `LogUnavailable`."""
    try:
        for path in (*sorted(folder.glob("*.log")), folder):
            with suppress(FileNotFoundError):  # all of it stands in a synced table
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
    except OSError as error:
        raise LogUnavailable(f"The log in {folder} can't be made durable: {error.strerror}. Try again.") from error


def no_log(folder: Path) -> LogFault:
    """The error where no log is in a folder."""
    return LogFault(f"There is no log in {folder}. Name the folder of a cell.")


def fault_of_opening(folder: Path, error: Exception) -> LogFault:
    """The error for users from RocksDB's error when a log is opened."""
    text = str(error)
    if "lock" in text.lower():
        return LogFault(f"The log in {folder} is in use by another process. Stop that one, or name another folder.")
    if "Permission denied" in text or "Read-only" in text:
        return LogFault(f"The log in {folder} isn't writable: {text}. Give this user the right to write there.")
    if "No space left" in text:
        return LogFault(f"The disk of {folder} is full. Make room there.")
    if "CURRENT" in text and "No such file" in text:
        return no_log(folder)
    return LogFault(f"The log in {folder} can't be opened: {text}. Restore it from its archive.")
