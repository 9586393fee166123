"""ssl.principal.mapping.rules, by the examples of Kafka's own tests."""

from __future__ import annotations

import pytest

from ottla.core.security.principal_mapping import PrincipalMapping
from ottla.errors import ConfigError

KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_makes_the_name(name: str, mapped: str) -> None:
    assert PrincipalMapping(KAFKAS).name_of(name) == mapped


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("", "CN=a", None),
        (",  , RULE:^CN=(.*)$/$1/ ,,  DEFAULT, ", "CN=a", "a"),
        ("RULE:^CN=(.*)$/$1/", "O=a", None),
        ("RULE:CN=(.*)/$1/", "O=b,CN=a", None),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ", r"Tkac\, Adam"),
        (r"RULE:^CN=(\w+)$/a\/$1\$/", "CN=b", "a/b$"),
        ("RULE:^CN=(.*)$/$1@$4/", "CN=b", "b@$4"),
        ("RULE:^CN=(.*)$/$12-$0/", "CN=b", "b2-CN=b"),
        ("RULE:^CN=(?<who>.*)$/$1/", "CN=b", "b"),
        ("RULE:^(CN=a)?(.*)$/$1|$2/", "O=b", "|O=b"),
    ],
)
def test_rules_are_read_and_applied_as_in_java(rules: str, name: str, mapped: str | None) -> None:
    assert PrincipalMapping(rules).name_of(name) == mapped


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(.*$/$1/",
        "RULE:^CN=.*$/$1/",
    ],
)
def test_rules_that_are_none_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
