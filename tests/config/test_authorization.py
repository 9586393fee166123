"""The options of authorization."""

from __future__ import annotations

import pytest

from ottla.config.authorization import STANDARD_AUTHORIZER, super_user_principals
from ottla.config.broker import BrokerConfig
from ottla.errors import ConfigError

AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("User:admin", ("User:admin",)),
        (" User:a ;; User:b;", ("User:a", "User:b")),
        ("User:CN=ops,OU=x;User:a:b", ("User:CN=ops,OU=x", "User:a:b")),
    ],
)
def test_super_users_are_separated_by_semicolons(text: str, expected: tuple[str, ...]) -> None:
    assert super_user_principals(text) == expected
    assert BrokerConfig.read({**AUTHORIZER, "super.users": text}).super_users == text.strip()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
            ["former", STANDARD_AUTHORIZER],
        ),
        ({"authorizer.class.name": "com.example.Ranger"}, ["Java", STANDARD_AUTHORIZER]),
        ({**AUTHORIZER, "super.users": "User:a;admin"}, ["'admin'", "User:admin"]),
        ({**AUTHORIZER, "super.users": "User:a, User:b"}, ["one principal", "semicolons"]),
        ({"super.users": "User:a"}, ["super.users", "authorizer.class.name="]),
        ({"allow.everyone.if.no.acl.found": "true"}, ["authorizer.class.name="]),
    ],
)
def test_what_would_not_do_what_it_says_is_refused(
    options: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.read(options)
    for word in words:
        assert word in str(refused.value)
