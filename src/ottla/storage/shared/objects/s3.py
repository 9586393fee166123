"""Objects in an S3-compatible store, through obstore.

Uploads overwrite: keys are used once, so a repeated upload has the same bytes, and nothing depends on conditional PUT,
which several stores do not have or do not keep. Every upload is one request, because parts of an upload that was given
up would stay in the bucket unseen.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.errors import ConfigError
from ottla.ports import Buffer, DamagedError, StorageError
from ottla.storage.shared.errors import (
    ObjectMissingError,
    ObjectsRefusedError,
    ObjectsUnavailableError,
)
from ottla.storage.shared.objects.aws_profile import (
    AwsProfile,
    environment_endpoint,
    environment_has_keys,
    environment_region,
    read_ca_file,
)
from ottla.storage.shared.objects.objects import ListedObject
from ottla.storage.shared.objects.s3_options import S3Options, parse_s3_url

if TYPE_CHECKING:
    from obstore.store import S3Store

T = TypeVar("T")

# The slowest link on which an object is still expected to arrive.
_BYTES_PER_SECOND: Final = 1024 * 1024
# Retries of the HTTP client, within the timeout: for refused connections and 5xx, which come back quickly.
_RETRIES: Final = 2
_FIRST_BACKOFF: Final = timedelta(milliseconds=50)
_LAST_BACKOFF: Final = timedelta(milliseconds=500)
_LISTED_AT_ONCE: Final = 1000
_DELETED_AT_ONCE: Final = 1000
_MESSAGE_CHARACTERS: Final = 300
# Shorter ones, which no store gives, are in any text.
_SECRET_CHARACTERS: Final = 4

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,500})</Message>")
# Which credentials a request had: of no use in a log.
_KEY_ID: Final = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")

# What the codes of S3 ask an operator to do.
_NO_CREDENTIALS: Final = (
    "there are no credentials in the URL, in variables (AWS_ACCESS_KEY_ID) or AWS's files"
)
_CREDENTIAL_PATHS: Final = ("/latest/api/token", "/latest/meta-data", "/v2/credentials", "169.254.")
_REFUSALS: Final = {
    "NoSuchBucket": "there is no such bucket: make it, or correct the URL",
    "AccessDenied": "the credentials have no permission for this",
    "AllAccessDisabled": "the bucket is disabled",
    "AccountProblem": "the account has a problem",
    "InvalidAccessKeyId": "the access key is unknown",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "InvalidToken": "the session token is wrong",
    "ExpiredToken": "the session token has expired",
    "TokenRefreshRequired": "the session token has expired",
    "PermanentRedirect": "the bucket is in another region: give it with region=",
    "AuthorizationHeaderMalformed": "the region is wrong: give it with region=",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    "InvalidBucketName": "the name of the bucket is not allowed",
    "MethodNotAllowed": "the address is not that of an S3 API",
    "QuotaExceeded": "the quota of the bucket is used up",
    "InsufficientStorage": "the store is full",
}


class S3Objects:
    """Objects below a prefix of a bucket."""

    def __init__(self, options: S3Options, environment: Mapping[str, str] = os.environ) -> None:
        """ConfigError if options, files and variables do not go together. Nothing is sent yet."""
        options.validate()
        self._options = options
        self._store, self._has_credentials = _open(options, environment)

    @classmethod
    def of_url(cls, url: str, environment: Mapping[str, str] = os.environ) -> S3Objects:
        return cls(parse_s3_url(url), environment)

    def __repr__(self) -> str:
        return f"S3Objects({self._options})"

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        import obstore

        size_bytes = sum(map(len, parts))
        upload = obstore.put_async(
            self._store,
            key,
            # An iterator of no buffers would be none of bytes either.
            [part for part in parts if len(part)] or b"",
            use_multipart=False,
        )
        await self._answer(upload, f"storing object {key}", size_bytes)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]:
        import obstore

        wanted = [(position, size_bytes) for position, size_bytes in ranges if size_bytes]
        if not wanted:
            return [b"" for _ in ranges]
        download = obstore.get_ranges_async(
            self._store,
            key,
            starts=[position for position, _ in wanted],
            lengths=[size_bytes for _, size_bytes in wanted],
        )
        try:
            found = await self._answer(
                download, f"reading object {key}", sum(size_bytes for _, size_bytes in wanted)
            )
        except _RangeError:
            await self._explain_short(key, wanted)
        views = [memoryview(part) for part in found]
        if [len(view) for view in views] != [size_bytes for _, size_bytes in wanted]:
            await self._explain_short(key, wanted)
        rest = iter(views)
        return [next(rest) if size_bytes else b"" for _, size_bytes in ranges]

    async def _explain_short(self, key: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Raises what it means that fewer bytes came than were asked for."""
        import obstore

        about = await self._answer(
            obstore.head_async(self._store, key), f"asking for the size of object {key}", 0
        )
        needed_bytes = max(position + size_bytes for position, size_bytes in ranges)
        if about["size"] < needed_bytes:
            raise DamagedError(f"object {key} has {about['size']} bytes, not {needed_bytes}")
        raise ObjectsUnavailableError(f"{self._name}: a part of object {key} arrived incomplete")

    async def delete(self, keys: Sequence[str]) -> None:
        import obstore

        for start in range(0, len(keys), _DELETED_AT_ONCE):
            some = list(keys[start : start + _DELETED_AT_ONCE])
            try:
                await self._answer(
                    obstore.delete_async(self._store, some), f"deleting {len(some)} objects", 0
                )
            except ObjectMissingError:
                # Stores without bulk deletion may say so of a single key.
                if len(some) > 1:
                    for key in some:
                        await self.delete([key])

    async def list(self, prefix: str) -> AsyncIterator[ListedObject]:
        import obstore

        # obstore takes folders only: within one, a listing can begin close to the prefix.
        folder, _, name = prefix.rpartition("/")
        offset = f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}~" if name else None
        pages = obstore.list(self._store, folder or None, offset=offset, chunk_size=_LISTED_AT_ONCE)
        held = deque([pages])
        del pages
        while True:
            page = await self._next_page(held, f"listing objects {prefix}*")
            if page is None:
                return
            for listed in page:
                key = listed["path"]
                if key.startswith(prefix):
                    modified_ms = int(listed["last_modified"].timestamp() * 1000)
                    yield ListedObject(key, listed["size"], modified_ms)
                elif key > prefix:
                    return

    async def _next_page(self, held: deque[Any], what: str) -> Sequence[Any] | None:
        """The next page of the listing that is alone in `held`, None after the last.

        A listing that is given up while its request is under way must not be released by this thread after its request:
        hyper would panic without its own runtime. So it goes first, and the request releases it.
        """
        request: asyncio.Future[Sequence[Any]] = held[0].__anext__()
        try:
            done, _ = await asyncio.wait({request}, timeout=self._options.timeout_seconds)
        except BaseException:
            held.clear()
            request.cancel()
            raise
        if not done:
            held.clear()
            request.cancel()
            raise self._timeout_error(what, self._options.timeout_seconds)
        try:
            return request.result()
        except StopAsyncIteration:
            return None
        except Exception as error:
            raise self._error(error, what) from None

    async def close(self) -> None:
        """The connections are closed with the last reference to the store."""

    @property
    def _name(self) -> str:
        return f"s3://{self._options.bucket}"

    async def _answer(self, call: Awaitable[T], what: str, size_bytes: int) -> T:
        limit_seconds = self._options.timeout_seconds + size_bytes / _BYTES_PER_SECOND
        try:
            async with asyncio.timeout(limit_seconds):
                return await call
        except TimeoutError:
            # The request may still arrive, or have arrived.
            raise self._timeout_error(what, limit_seconds) from None
        except Exception as error:
            # Without the cause, whose text has headers and credentials of the request.
            raise self._error(error, what) from None

    def _timeout_error(self, what: str, limit_seconds: float) -> StorageError:
        text = f"{self._name}: {what} took more than {limit_seconds:.1f} seconds"
        if not self._has_credentials:
            text += (
                f"; {_NO_CREDENTIALS}, and the machine or container may be asked for them in vain"
            )
        return ObjectsUnavailableError(text)

    def _error(self, error: Exception, what: str) -> StorageError:
        """The error of an operation in one line without secrets."""
        text = str(error)
        found = _CODE.search(text)
        code = found[1] if found else ""
        found = _STATUS.search(text)
        status = int(found[1]) if found else 0
        about = f"{self._name}: {what}"
        if code in _REFUSALS:
            return ObjectsRefusedError(f"{about}: {_REFUSALS[code]} ({code})")
        if isinstance(error, FileNotFoundError):
            return ObjectMissingError(f"{about}: there is none of this key")
        if status == 416:
            return _RangeError(f"{about}: it is shorter")
        if status in (401, 403):
            return ObjectsRefusedError(f"{about}: the credentials have no permission ({status})")
        if any(part in text for part in _CREDENTIAL_PATHS):
            # It may be a fault of the service that gives credentials, which ends by itself.
            return ObjectsUnavailableError(
                f"{about}: {_NO_CREDENTIALS}, and the service of the machine or container that gives"
                f" them does not: {self._shortened(_innermost(text))}"
            )
        if "certificate" in text.lower():
            return ObjectsRefusedError(
                f"{about}: the store's certificate is not trusted: give its CA with ca=FILE"
            )
        found = _MESSAGE.search(text)
        said = " ".join(
            part for part in (str(status or ""), code, found[1] if found else "") if part
        )
        said = self._shortened(said or _innermost(text))
        if 400 <= status < 500 and status not in (408, 409, 425, 429):
            return ObjectsRefusedError(f"{about}: the store refuses it: {said}")
        return ObjectsUnavailableError(f"{about}: {said}")

    def _shortened(self, text: str) -> str:
        """One line without credentials."""
        line = " ".join(text.split())
        options = self._options
        for secret in (options.secret_access_key, options.session_token, options.access_key_id):
            if len(secret) >= _SECRET_CHARACTERS:
                line = line.replace(secret, "***")
        return _KEY_ID.sub("***", line)[:_MESSAGE_CHARACTERS]


class _RangeError(StorageError):
    """The object ends before the range begins."""


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def _innermost(text: str) -> str:
    """What an error of the HTTP client says in the end: its chain of causes is long."""
    line = _first_line(text).rpartition(" - ")[2]
    causes = re.findall(r'(?:error: |message: |source: [A-Za-z]*\()"([^"]{1,200})"', text)
    timed_out = "timed out" in text or "TimedOut" in text
    detail = causes[-1] if causes else ("timed out" if timed_out else "")
    return f"{line} ({detail})" if detail and detail not in line else line


def _open(options: S3Options, environment: Mapping[str, str]) -> tuple[S3Store, bool]:
    """The store, and whether it is known where its credentials come from."""
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ConfigError("s3:// needs obstore: pip install 'ottla[shared]'") from None
    profile = AwsProfile(options.profile, environment)
    endpoint = options.endpoint or environment_endpoint(environment)
    region = options.region or environment_region(environment) or profile.region() or "us-east-1"
    config: dict[str, Any] = {"region": region}
    is_virtual = options.style == "virtual" or (not options.style and not endpoint)
    if endpoint:
        if is_virtual:
            # obstore wants the bucket in the host name of the endpoint then.
            scheme, _, rest = endpoint.partition("://")
            endpoint = f"{scheme}://{options.bucket}.{rest}"
        # The second one would be taken from the environment and win.
        config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
    config["virtual_hosted_style_request"] = is_virtual and (
        bool(endpoint) or "." not in options.bucket
    )
    provider = None
    if options.anonymous:
        config["skip_signature"] = True
    elif options.access_key_id:
        config["access_key_id"] = options.access_key_id
        config["secret_access_key"] = options.secret_access_key
        if options.session_token:
            config["session_token"] = options.session_token
    elif (options.profile or not environment_has_keys(environment)) and profile.keys() is not None:
        provider = profile.credential
    if options.checksum != "sha256":
        config["unsigned_payload"] = True
    if options.checksum == "crc64nvme":
        config["checksum_algorithm"] = "CRC64NVME"
    client: dict[str, Any] = {
        "allow_http": endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=min(5.0, options.timeout_seconds)),
        # Ours is by size, and shorter.
        "timeout": timedelta(hours=1),
    }
    ca = options.ca or environment.get("AWS_CA_BUNDLE", "")
    if ca:
        client["root_certificate"] = read_ca_file(ca)
    try:
        store = S3Store(
            options.bucket,
            prefix=options.prefix or None,
            config=config,  # type: ignore[arg-type]
            client_options=client,  # type: ignore[arg-type]
            retry_config={
                "max_retries": _RETRIES,
                "backoff": {
                    "init_backoff": _FIRST_BACKOFF,
                    "max_backoff": _LAST_BACKOFF,
                    "base": 2,
                },
                "retry_timeout": timedelta(seconds=options.timeout_seconds),
            },
            credential_provider=provider,  # type: ignore[arg-type]
        )
    except Exception as error:
        raise ConfigError(f"{options}: {_first_line(str(error))[:_MESSAGE_CHARACTERS]}") from None
    has_credentials = (
        options.anonymous
        or bool(options.access_key_id)
        or provider is not None
        or environment_has_keys(environment)
    )
    return store, has_credentials
