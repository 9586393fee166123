"""Opens the files of a checkpoint from Python: on local disks, through pyarrow, or through fsspec."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

from ottla.errors import ConfigError, OttlaError

OFF_OPTION: Final = "commitSourceOffsets"
STORAGE_OPTION: Final = "checkpointStorageOptions"
# A single letter before the colon is a Windows drive.
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/]*))?(.*)", re.DOTALL)
_S3: Final = ("s3", "s3a", "s3n")
# Errors that a retry does not mend, as pyarrow writes them.
_REFUSED: Final = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|UNRECOGNIZED_CLIENT|Forbidden"
)


class CheckpointError(OttlaError):
    """The checkpoint cannot be read, or is not in the format that Spark writes."""


class StoreError(CheckpointError):
    """The store that has the checkpoint did not answer; it may do so later."""


class Files(Protocol):
    """The files of a checkpoint, in whichever store."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names in a folder; empty if it does not exist."""
        ...

    def folders(self) -> list[str]:
        """The names of the folders at the top."""
        ...


class LocalFiles:
    """Files of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._folder / folder))
        except FileNotFoundError:
            return []

    def folders(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(each.name for each in self._folder.iterdir() if each.is_dir())


class ArrowFiles:
    """A store that pyarrow opens: S3 and compatible ones, HDFS, Google Cloud Storage."""

    def __init__(self, filesystem: Any, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")

    def read(self, name: str) -> bytes | None:
        try:
            with self._filesystem.open_input_stream(f"{self._folder}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _read_failure(f"{self._folder}/{name}", error) from error

    def names(self, folder: str) -> list[str]:
        return sorted(each.base_name for each in self._listed(f"{self._folder}/{folder}"))

    def folders(self) -> list[str]:
        from pyarrow import fs

        found = self._listed(self._folder)
        return sorted(each.base_name for each in found if each.type == fs.FileType.Directory)

    def _listed(self, folder: str) -> list[Any]:
        from pyarrow import fs

        selector = fs.FileSelector(folder, allow_not_found=True)
        try:
            return list(self._filesystem.get_file_info(selector))
        except OSError as error:
            raise _read_failure(folder, error) from error


class FsspecFiles:
    """A store that fsspec opens."""

    def __init__(self, filesystem: Any, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")

    def read(self, name: str) -> bytes | None:
        # A cached listing may be older than the file.
        self._filesystem.invalidate_cache()
        try:
            return bytes(self._filesystem.cat_file(f"{self._folder}/{name}"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _read_failure(f"{self._folder}/{name}", error) from error

    def names(self, folder: str) -> list[str]:
        return sorted(_last_part(each["name"]) for each in self._listed(f"{self._folder}/{folder}"))

    def folders(self) -> list[str]:
        found = self._listed(self._folder)
        return sorted(_last_part(each["name"]) for each in found if each["type"] == "directory")

    def _listed(self, folder: str) -> list[Any]:
        self._filesystem.invalidate_cache()
        try:
            return list(self._filesystem.ls(folder, detail=True))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _read_failure(folder, error) from error


def _last_part(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1]


def _read_failure(name: str, error: OSError) -> CheckpointError:
    text = f"The checkpoint's file {name} cannot be read: {' '.join(str(error).split())}"
    if isinstance(error, PermissionError) or _REFUSED.search(text):
        return CheckpointError(f"{text}. {STORAGE_OPTION} or the environment has to give the keys.")
    return StoreError(text)


def open_files(location: str, storage: Mapping[str, Any]) -> Files:
    """The files below a location: a path, file: or a URL of a store that pyarrow or fsspec opens.

    `storage` is passed to the store: to pyarrow's S3FileSystem (endpoint_override, access_key, ...) or to fsspec's.
    """
    # Parsed as Hadoop does: nothing is unquoted, so that %20, ? and # are parts of names.
    match = _URL.fullmatch(location)
    if match is None:
        return LocalFiles(Path(location))
    scheme, authority, path = match[1].lower(), match[2] or "", match[3]
    if scheme == "file":
        return LocalFiles(Path(path))
    folder = f"{authority}{path}"
    try:
        if scheme in _S3:
            from pyarrow import fs

            return ArrowFiles(fs.S3FileSystem(**storage), folder)
        if not storage:
            from pyarrow import fs

            try:
                return ArrowFiles(*fs.FileSystem.from_uri(f"{scheme}://{authority}{quote(path)}"))
            except (ValueError, NotImplementedError, ImportError):
                pass
        import fsspec

        return FsspecFiles(fsspec.filesystem(scheme, **storage), folder)
    except Exception as error:
        raise CheckpointError(
            f"The checkpoint {location} cannot be opened from Python: {error}. Install a library that opens it "
            f"(pyarrow does s3, hdfs and gs; fsspec others), give {STORAGE_OPTION} what it needs, or set "
            f"{OFF_OPTION}=false: then the source's offsets are not committed with the output."
        ) from error


def read_storage_options(text: str | None) -> dict[str, Any]:
    """The value of the option checkpointStorageOptions, a JSON object."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        # Neither the text nor the error's cause, which quotes it: it may contain keys.
        raise _bad_storage_options("it is not JSON") from None
    if not isinstance(found, dict):
        raise _bad_storage_options("it is not an object")
    return found


def _bad_storage_options(why: str) -> ConfigError:
    example = '{"endpoint_override":"127.0.0.1:9000","scheme":"http"}'
    return ConfigError(f"{STORAGE_OPTION} is not valid: it must be like {example} ({why})")
