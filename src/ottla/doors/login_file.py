"""A file with secrets: its lines, read again when it has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Generic, TypeVar

from ottla.errors import ConfigError
from ottla.events import EventLog
from ottla.file_state import state_of

logger = EventLog(__name__)

T = TypeVar("T")

MAX_FILE_BYTES: Final = 1 << 20


class RereadFile(Generic[T]):
    """What `read` makes of a file; one that cannot be read any more changes nothing."""

    def __init__(self, file: Path, read: Callable[[Path], T], *, what: str) -> None:
        self._file = file
        self._read = read
        self._what = what
        self._seen = state_of(file)
        self._found = read(file)

    def newest(self) -> T:
        """What is in the file now."""
        state = state_of(self._file)
        if state != self._seen:
            self._seen = state
            self._read_again()
        return self._found

    def _read_again(self) -> None:
        try:
            self._found = self._read(self._file)
        except ConfigError as error:
            logger.warning(
                "login_file_not_read",
                "the %(what)s of before stay: %(reason)s",
                what=self._what,
                reason=str(error),
            )
        else:
            logger.info(
                "login_file_read",
                "%(what)s were read again: %(file)s",
                what=self._what,
                file=str(self._file),
            )

    def __repr__(self) -> str:
        return repr(str(self._file))


def lines_of(file: Path) -> Iterator[tuple[int, str]]:
    """The lines with something in them and their numbers; a line that begins with # is a comment."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is no text in UTF-8") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{file} has more than {MAX_FILE_BYTES} bytes")
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped
