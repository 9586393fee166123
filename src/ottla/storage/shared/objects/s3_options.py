"""Where an S3-compatible store is: the URL of `--objects`, and what the usual variables and files of AWS add.

`s3://BUCKET/PREFIX?region=…&endpoint=…`; `PARAMETERS` has all parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from ottla.errors import ConfigError

PARAMETERS: Final = {
    "region": "the region; default: AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1",
    "endpoint": "http:// or https:// address of a store that is not AWS's; default: AWS_ENDPOINT_URL_S3,"
    " AWS_ENDPOINT_URL",
    "style": "path or virtual: whether the bucket is in the path or in the host name; default: path with an"
    " endpoint, else virtual",
    "profile": "the profile in AWS's files; default: AWS_PROFILE, default",
    "access_key_id": "instead of AWS's usual chain of credentials; with secret_access_key",
    "secret_access_key": "as above",
    "session_token": "with temporary credentials",
    "anonymous": "true: requests are not signed",
    "ca": "a PEM file of certificate authorities to be trusted besides the system's; default: AWS_CA_BUNDLE",
    "timeout": "seconds for a request, plus one for each MiB; default 10",
    "checksum": "sha256 (of the signature, default), crc64nvme, or none: what the store verifies an upload by",
}
SECRETS: Final = ("access_key_id", "secret_access_key", "session_token")
DEFAULT_TIMEOUT_SECONDS: Final = 10.0
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
# obstore would escape others in its own way, and list them differently.
_PREFIX: Final = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*")


@dataclass(frozen=True)
class S3Options:
    """The parts of the URL; "" is what it does not say. Secrets are not in `repr`."""

    bucket: str
    prefix: str = ""
    region: str = ""
    endpoint: str = ""
    style: str = ""
    profile: str = ""
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    anonymous: bool = False
    ca: str = ""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    checksum: str = "sha256"

    def validate(self) -> None:
        if _BUCKET.fullmatch(self.bucket) is None:
            raise ConfigError(f"{self.bucket!r} is no name of a bucket: write s3://BUCKET/PREFIX")
        if self.prefix and (
            _PREFIX.fullmatch(self.prefix) is None or {".", ".."} & set(self.prefix.split("/"))
        ):
            raise ConfigError(
                f"the prefix {self.prefix!r} may have letters, digits, . _ = - and / between them"
            )
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError("the endpoint has to begin with http:// or https://")
        if self.endpoint and not urlsplit(self.endpoint).hostname:
            raise ConfigError("the endpoint names no host")
        try:
            _ = urlsplit(self.endpoint).port
        except ValueError:
            raise ConfigError("the port of the endpoint is not one of 0 to 65535") from None
        if "@" in urlsplit(self.endpoint).netloc:
            raise ConfigError("the endpoint cannot have a user: use access_key_id, or AWS's files")
        if self.style not in ("", "path", "virtual"):
            raise ConfigError(f"style is path or virtual, not {self.style!r}")
        if self.checksum not in ("sha256", "crc64nvme", "none"):
            raise ConfigError(f"the checksum is sha256, crc64nvme or none, not {self.checksum!r}")
        if bool(self.access_key_id) != bool(self.secret_access_key):
            raise ConfigError("access_key_id and secret_access_key are given together")
        if self.session_token and not self.access_key_id:
            raise ConfigError("session_token needs access_key_id and secret_access_key")
        if self.anonymous and (self.access_key_id or self.profile):
            raise ConfigError("anonymous=true takes neither credentials nor a profile")
        if self.access_key_id and self.profile:
            raise ConfigError("give either access_key_id or a profile")
        if not 0 < self.timeout_seconds <= 3600:
            raise ConfigError("the timeout is more than 0 and at most 3600 seconds")

    @property
    def has_secrets(self) -> bool:
        return bool(self.secret_access_key or self.session_token)

    def __str__(self) -> str:
        """The URL without secrets, for logs and messages."""
        url = f"s3://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")
        given = {
            "region": self.region,
            "endpoint": self.endpoint,
            "style": self.style,
            "profile": self.profile,
            **{name: "***" for name in SECRETS if getattr(self, name)},
        }
        query = "&".join(
            f"{name}={quote(value, safe='*:/')}" for name, value in given.items() if value
        )
        return f"{url}?{query}" if query else url


def parse_s3_url(url: str) -> S3Options:
    """The options in a URL; ConfigError says what is wrong, without repeating secrets."""
    parts = urlsplit(url)
    if parts.scheme != "s3":
        raise ConfigError("the URL of an object store begins with s3://")
    if "@" in parts.netloc or parts.fragment:
        raise ConfigError(
            "write s3://BUCKET/PREFIX?NAME=VALUE; credentials come from AWS's variables and files"
        )
    given = _parameters(parts.query)
    options = S3Options(
        bucket=parts.netloc,
        prefix=parts.path.strip("/"),
        region=given.get("region", ""),
        endpoint=given.get("endpoint", "").rstrip("/"),
        style=given.get("style", ""),
        profile=given.get("profile", ""),
        access_key_id=given.get("access_key_id", ""),
        secret_access_key=given.get("secret_access_key", ""),
        session_token=given.get("session_token", ""),
        anonymous=_boolean("anonymous", given.get("anonymous", "false")),
        ca=given.get("ca", ""),
        timeout_seconds=_seconds(given.get("timeout", str(DEFAULT_TIMEOUT_SECONDS))),
        checksum=given.get("checksum", "sha256"),
    )
    options.validate()
    return options


def _parameters(query: str) -> Mapping[str, str]:
    # A + is a plus: secrets have them, and people forget to escape them.
    pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    given: dict[str, str] = {}
    for name, value in pairs:
        if name not in PARAMETERS:
            raise ConfigError(
                f"an s3:// URL has no parameter {name!r}; it has {', '.join(PARAMETERS)}"
            )
        if name in given:
            raise ConfigError(f"the parameter {name} is there twice")
        if not value:
            raise ConfigError(f"the parameter {name} has no value")
        given[name] = value
    return given


def _boolean(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is true or false, not {text!r}")
    return text == "true"


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"the timeout is a number of seconds, not {text!r}") from None
