"""Why somebody cannot log in, or is logged in no longer."""

from __future__ import annotations

from ottla.errors import OttlaError


class LoginRefusedError(OttlaError):
    """The name, the password or the token is wrong; the text does not say which."""


class NoRightsError(LoginRefusedError):
    """The user is the one it says it is, and may not use the console."""


class LoginUnavailableError(OttlaError):
    """Nobody can say now whether the login is right: the cluster does not answer."""
