"""The URL of a database, as libpq reads it, with the schema as a parameter more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from ottla.errors import ConfigError

DEFAULT_SCHEMA: Final = "ottla"
DEFAULT_CONNECT_TIMEOUT_SECONDS: Final = 5.0
# It names the channel of notifications too, and PostgreSQL's names have 63 bytes.
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_SCHEMES: Final = ("postgresql", "postgres")
_OWN: Final = ("schema", "connect_timeout")
_SECRET: Final = ("password", "sslpassword")
_ENCODE: Final = (
    "the URL of the database is ambiguous: percent-encode the password, as in %2F for /, %3F for ?, %23 for # and"
    " %40 for @; the same holds for other parts with such characters"
)
_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
# What asyncpg knows of libpq's parameters, and what it hands to the server.
_KNOWN: Final = frozenset(
    (
        *_OWN,
        *_SECRET,
        "application_name",
        "database",
        "dbname",
        "gsslib",
        "host",
        "krbsrvname",
        "options",
        "passfile",
        "port",
        "service",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslrootcert",
        "target_session_attrs",
        "user",
    )
)


@dataclass(frozen=True, repr=False)
class DatabaseUrl:
    """`dsn` is for asyncpg and has the password; the text of the object has none."""

    dsn: str
    schema: str
    connect_timeout_seconds: float
    masked: str
    has_session_attributes: bool  # whether it says which of several servers will do
    files: tuple[tuple[str, str], ...]  # that it names, by parameter
    has_password: bool  # of the user, or of a key

    def __str__(self) -> str:
        return self.masked

    def __repr__(self) -> str:
        return f"DatabaseUrl({self.masked!r})"

    @property
    def quoted_schema(self) -> str:
        return f'"{self.schema}"'


def parse_database_url(text: str) -> DatabaseUrl:
    """Messages of the ConfigError contain nothing of the URL but names of parameters: it may have a password."""
    try:
        parts = urlsplit(text)
        is_ambiguous = parts.scheme in _SCHEMES and _is_ambiguous(parts)
    except ValueError:
        raise ConfigError("the URL of the database is malformed") from None
    if is_ambiguous:
        raise ConfigError(_ENCODE)
    try:
        parameters = parse_qsl(
            parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)
        )
    except ValueError:
        raise ConfigError("the URL of the database is malformed") from None
    if parts.scheme not in _SCHEMES:
        raise ConfigError("the URL of a database begins with postgresql://")
    unknown = sorted({name for name, _ in parameters if name not in _KNOWN})
    if unknown and "@" in parts.query:
        raise ConfigError(_ENCODE)  # a password may end there
    if unknown:
        raise ConfigError(f"the URL of the database has an unknown parameter: {unknown[0]!r}")
    own = dict(parameters)
    schema = own.get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigError(
            "the schema in the URL of the database has to be up to 50 lower-case letters, digits and underscores"
        )
    passed_on = [(name, value) for name, value in parameters if name not in _OWN]
    return DatabaseUrl(
        dsn=_joined(parts, parts.netloc, urlencode(passed_on)),
        schema=schema,
        connect_timeout_seconds=_timeout(own.get("connect_timeout")),
        masked=_joined(parts, _masked_netloc(parts.netloc), _masked_query(parameters)),
        has_session_attributes="target_session_attrs" in own,
        files=tuple((name, own[name]) for name in _FILES if own.get(name)),
        has_password=":" in parts.netloc.rpartition("@")[0] or any(map(own.get, _SECRET)),
    )


def _is_ambiguous(parts: SplitResult) -> bool:
    """Whether a password may have ended the part that has it, by one of the characters / ? and #."""
    _, at, hosts = parts.netloc.rpartition("@")
    if "@" in parts.path or parts.fragment or (not at and "@" in parts.query):
        return True
    # After [::1] as after a name; a port may be left out.
    ports = (host.rpartition("]")[2].partition(":")[2] for host in hosts.split(","))
    return any(port and not port.isdecimal() for port in ports)


def _joined(parts: SplitResult, netloc: str, query: str) -> str:
    """With the two slashes also where there is no host; urlunsplit leaves them out."""
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def _timeout(value: str | None) -> float:
    if value is None:
        return DEFAULT_CONNECT_TIMEOUT_SECONDS
    if not value.isdecimal() or int(value) == 0:
        raise ConfigError(
            "connect_timeout in the URL of the database has to be a number of seconds"
        )
    return float(value)


def _masked_netloc(netloc: str) -> str:
    credentials, at, hosts = netloc.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return user + (":***" if colon else "") + at + hosts


def _masked_query(parameters: list[tuple[str, str]]) -> str:
    return "&".join(
        f"{name}={'***' if name in _SECRET else quote(value, safe='/,:.-_')}"
        for name, value in parameters
    )
