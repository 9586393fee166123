"""Profiles in the files that AWS's tools share: ~/.aws/credentials and ~/.aws/config.

The HTTP client knows the other links of AWS's chain itself: variables, web identity, containers, instances.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from ottla.errors import ConfigError

# Files are read again after this time, so that keys can be replaced while a broker runs.
_REREAD: Final = timedelta(minutes=5)
# What a profile may get its keys by that is not supported here.
_OTHER_SOURCES: Final = (
    "credential_process",
    "credential_source",
    "login_session",
    "role_arn",
    "sso_account_id",
    "sso_session",
    "web_identity_token_file",
)


class ProfileKeys(NamedTuple):
    access_key_id: str
    secret_access_key: str
    session_token: str | None

    def __repr__(self) -> str:
        return "ProfileKeys(***)"


class AwsProfile:
    """A profile by name; its files are read when something is asked of it."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        home = Path(environment.get("HOME") or Path.home()) / ".aws"
        self.name = name or environment.get("AWS_PROFILE") or "default"
        self._is_chosen = bool(name or environment.get("AWS_PROFILE"))
        self._credentials_file = Path(
            environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"
        ).expanduser()
        self._config_file = Path(environment.get("AWS_CONFIG_FILE") or home / "config").expanduser()

    def region(self) -> str | None:
        return self._settings().get("region")

    def keys(self) -> ProfileKeys | None:
        """The keys of the profile, None if it has none and was not asked for by name."""
        settings = self._settings()
        access, secret = settings.get("aws_access_key_id"), settings.get("aws_secret_access_key")
        if access and secret:
            return ProfileKeys(access, secret, settings.get("aws_session_token"))
        if not self._is_chosen:
            return None
        other = next((name for name in _OTHER_SOURCES if name in settings), None)
        if other is not None:
            raise ConfigError(
                f"the AWS profile {self.name} uses {other}, which is not supported: give the keys in"
                " AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
            )
        raise ConfigError(
            f"the AWS profile {self.name} has no keys in {self._credentials_file} or"
            f" {self._config_file}"
        )

    def _settings(self) -> Mapping[str, str]:
        in_config = self.name if self.name == "default" else f"profile {self.name}"
        return {
            **_section(self._config_file, in_config),
            **_section(self._credentials_file, self.name),
        }

    def credential(self) -> dict[str, str | datetime | None]:
        """The keys as obstore asks for them, and again when they may have changed."""
        keys = self.keys()
        if keys is None:
            raise ConfigError(f"the AWS profile {self.name} has no keys any more")
        return {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "token": keys.session_token,
            "expires_at": datetime.now(UTC) + _REREAD,
        }


def _section(path: Path, name: str) -> Mapping[str, str]:
    parser = configparser.RawConfigParser(strict=False, default_section="")
    try:
        with path.open(encoding="utf-8") as lines:
            parser.read_file(lines)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (configparser.Error, UnicodeDecodeError):
        # Their messages quote lines of the file, which may be secrets.
        raise ConfigError(f"{path} is not a file of AWS's format") from None
    return dict(parser.items(name)) if parser.has_section(name) else {}


def environment_has_keys(environment: Mapping[str, str]) -> bool:
    """Whether variables say where credentials come from, which AWS's tools ask before the files."""
    return bool(
        environment.get("AWS_ACCESS_KEY_ID")
        or (environment.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environment.get("AWS_ROLE_ARN"))
    )


def environment_endpoint(environment: Mapping[str, str]) -> str:
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return next((environment[name] for name in names if environment.get(name)), "").rstrip("/")


def environment_region(environment: Mapping[str, str]) -> str:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""


def read_ca_file(path: str) -> bytes:
    try:
        data = Path(os.path.expanduser(path)).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the CA file {path}: {error.strerror}") from error
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise ConfigError(f"the CA file {path} has no certificate in PEM")
    return data
