"""URLs of databases: what they may say, and that no message tells the password."""

from __future__ import annotations

import pytest

from ottla.errors import ConfigError
from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url


def test_the_schema_is_a_parameter_of_ours() -> None:
    url = parse_database_url(
        "postgresql://me@db1:5433,db2/orders?schema=ottla_2&sslmode=verify-full&connect_timeout=3"
    )
    assert url.dsn == "postgresql://me@db1:5433,db2/orders?sslmode=verify-full"
    assert (url.schema, url.quoted_schema, url.connect_timeout_seconds) == (
        "ottla_2",
        '"ottla_2"',
        3,
    )
    assert parse_database_url("postgresql:///orders").schema == "ottla"
    folder = parse_database_url("postgres:///orders?host=/run/postgresql")
    assert folder.dsn == "postgres:///orders?host=%2Frun%2Fpostgresql"
    assert not folder.has_session_attributes
    assert parse_database_url("postgresql://h/d?target_session_attrs=any").has_session_attributes


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:geheim@db/orders",
        "postgresql://me:geh%65im:geheim@db1,db2/orders?schema=x",
        "postgresql://me@db/orders?password=geheim&sslmode=require",
        "postgresql://me@db/orders?sslpassword=geheim",
        "postgresql://me:geheim@geheim@db/orders",
    ],
)
def test_the_password_is_in_no_text(text: str) -> None:
    url = parse_database_url(text)
    assert "geheim" in url.dsn
    for shown in (str(url), repr(url), f"{url}", url.masked):
        assert "geheim" not in shown.replace("geheim@db/", "")
        assert "***" in shown


@pytest.mark.parametrize(
    ("text", "has_password"),
    [
        ("postgresql://me:a%2Fb%40@[::1]:5433,db2,[::2]/orders", True),
        ("postgresql://me@db:/orders?password=a@b", True),
        ("postgresql://me@db/orders?sslpassword=x", True),
        ("postgresql://me@db:5432/orders?passfile=x", False),
        ("postgresql:///orders?user=me%40home", False),
    ],
)
def test_it_is_known_whether_there_is_a_password(text: str, has_password: bool) -> None:
    assert parse_database_url(text).has_password == has_password


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mysql://me:geheim@db/orders", "begins with postgresql://"),
        ("geheim", "begins with postgresql://"),
        ("postgresql://me:geheim@[db/orders", "malformed"),
        ("postgresql://me:geheim@db/orders?sslmode", "malformed"),
        ("postgresql://me:geheim@db/orders?sslmod=require", "unknown parameter: 'sslmod'"),
        ("postgresql://db/orders?schema=Geheim", "up to 50 lower-case letters"),
        ("postgresql://db/orders?schema=pg_geheim", "up to 50 lower-case letters"),
        ("postgresql://db/orders?schema=", "up to 50 lower-case letters"),
        ("postgresql://db/orders?connect_timeout=0", "a number of seconds"),
        ("postgresql://me:geheim/x@db/orders", "percent-encode the password"),
        ("postgresql://me:geheim?x@db/orders", "percent-encode the password"),
        ("postgresql://me:123?geheim=x@db/orders", "percent-encode the password"),
        ("postgresql://me:x@1?geheim=x@db/orders", "percent-encode the password"),
        ("postgresql://me:geheim#x@db/orders", "percent-encode the password"),
        ("postgresql://me:123#geheim@db/orders", "percent-encode the password"),
        ("postgresql://me:x@y/geheim@db/orders", "percent-encode the password"),
        ("postgresql://me:geheim/orders", "percent-encode the password"),
        ("postgresql://db/orders?connect_timeout=x", "a number of seconds"),
    ],
)
def test_what_is_wrong_is_said_without_the_url(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_database_url(text)
    assert said in str(refused.value)
    assert "geheim" not in str(refused.value).lower()
    assert "\n" not in str(refused.value)
