"""A storage that brokers cannot use: each start ends with one line that says why, and changes nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.postgres_server import find_newest_binaries, started_server
from tests.shared_brokers.broker_processes import make_storage
from tests.storage.shared.s3_server import S3Server, shared_s3

import ottla
from ottla.cli.main import main
from ottla.errors import KafkaError

__all__ = ["shared_s3"]

LISTEN = ["--listen", "127.0.0.1:0"]
Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Iterator[Refused]:
    """Runs a command that fails, and returns its only line."""
    log = logging.getLogger()
    handlers, level = list(log.handlers), log.level

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) in (1, 2)
        lines = capsys.readouterr().err.splitlines()
        # A secret among the words is warned of, and not told.
        (text,) = (each for each in lines if "where others on this machine can see it" not in each)
        assert text.startswith("ottla: ")
        assert "bug" not in text
        return text

    yield run
    # `ottla serve` in this process logs to a stream that ends with the test.
    log.handlers[:] = handlers
    log.setLevel(level)


def serve(storage: str, objects: str | None = None) -> list[str]:
    bucket = [] if objects is None else ["--objects", objects]
    return ["serve", "--storage", storage, *bucket, *LISTEN]


def schema_of(storage_url: str) -> str:
    return storage_url.partition("schema=")[2]


def execute(storage_url: str, sql: str) -> None:
    with psycopg.connect(storage_url.partition("?")[0], autocommit=True) as connection:
        connection.execute(sql.replace("@", schema_of(storage_url)))


@contextmanager
def unchanged(storage_url: str) -> Iterator[None]:
    """Nothing in the schema is different afterwards."""
    before = content(storage_url)
    yield
    assert content(storage_url) == before


def content(storage_url: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables of the schema."""
    with psycopg.connect(storage_url.partition("?")[0]) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema_of(storage_url)]
        ).fetchall()
        return {
            name: connection.execute(
                f"SELECT * FROM {schema_of(storage_url)}.{name} ORDER BY 1".encode()
            ).fetchall()
            for (name,) in tables
        }


def test_a_wrong_address_or_login_is_named_without_the_password(
    shared_postgres: str, refused: Refused
) -> None:
    assert "begins with postgresql://" in refused(*serve("mysql://db/ottla"))
    assert "Connection refused" in refused(*serve("postgresql://ottla@127.0.0.1:1/postgres"))
    found = refused(*serve("postgresql://ottla:secret@no-such-host.invalid/postgres"))
    assert "no-such-host.invalid" in found
    assert "secret" not in found
    other = shared_postgres.replace("/postgres", "/nowhere")
    assert 'database "nowhere" does not exist' in refused(*serve(other))
    nobody = shared_postgres.replace("ottla@", "nobody:secret@")
    found = refused(*serve(nobody))
    assert 'role "nobody" does not exist' in found
    assert "secret" not in found


def test_a_wrong_password_is_named(refused: Refused) -> None:
    with started_server(find_newest_binaries(), {"fsync": "on"}) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            rows = connection.execute("SHOW hba_file").fetchall()
            rules = Path(str(rows[0][0]))
            connection.execute("CREATE ROLE broker LOGIN PASSWORD 'right'")
            rules.write_text(
                "host all broker 127.0.0.1/32 scram-sha-256\n" + rules.read_text(encoding="utf-8"),
                encoding="utf-8",
            )
            connection.execute("SELECT pg_reload_conf()")
        url = server.url.replace("ottla@", "broker:wrong@")
        deadline = time.monotonic() + 10
        while "password authentication failed" not in (found := refused(*serve(url))):
            assert time.monotonic() < deadline, found
        assert "wrong" not in found


def test_a_server_without_fsync_is_refused(refused: Refused) -> None:
    with started_server(find_newest_binaries(), {"fsync": "off"}) as server:
        for words in (serve(server.url), ["storage", "init", "--storage", server.url]):
            assert "fsync=off" in refused(*words)
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT to_regnamespace('ottla')").fetchone() == (None,)


def test_a_schema_that_is_missing_foreign_older_or_newer_is_refused(
    storage_url: str, refused: Refused
) -> None:
    assert "run `ottla storage init`" in refused(*serve(storage_url))
    execute(storage_url, "CREATE SCHEMA @; CREATE TABLE @.own (id integer)")
    with unchanged(storage_url):
        assert "is no schema of Ottla" in refused(*serve(storage_url))
        assert "already; nothing was changed" in refused(
            "storage", "init", "--storage", storage_url
        )
    execute(storage_url, "DROP SCHEMA @ CASCADE")
    make_storage(storage_url)
    execute(storage_url, "UPDATE @.schema_version SET version = 99")
    with unchanged(storage_url):
        for words in (serve(storage_url), ["storage", "upgrade", "--storage", storage_url]):
            assert "use a later Ottla" in refused(*words)
    execute(storage_url, "UPDATE @.schema_version SET version = 0")
    with unchanged(storage_url):
        assert "run `ottla storage upgrade`" in refused(*serve(storage_url))


def test_a_role_without_rights_is_refused(storage_url: str, refused: Refused) -> None:
    make_storage(storage_url)
    execute(storage_url, f"CREATE ROLE {schema_of(storage_url)}_stranger LOGIN")
    stranger = storage_url.replace("ottla@", f"{schema_of(storage_url)}_stranger@")
    with unchanged(storage_url):
        assert "permission denied for schema" in refused(*serve(stranger))
        assert "permission denied" in refused("storage", "check", "--storage", stranger)


def test_the_bucket_must_be_that_of_the_storage(
    shared_postgres: str,
    storage_url: str,
    shared_s3: S3Server,
    refused: Refused,
    tmp_path: Path,
) -> None:
    # Looks like a data folder, and is never opened.
    (tmp_path / "meta.properties").touch()
    with_bucket, without = storage_url, f"{storage_url}_b"
    bucket, other = shared_s3.url("mine"), shared_s3.url("other")
    make_storage(with_bucket, bucket)
    make_storage(without)
    with unchanged(with_bucket), unchanged(without):
        assert "was made with a bucket" in refused(*serve(with_bucket))
        assert "was made without a bucket" in refused(*serve(without, other))
        assert "belong to cluster" in refused(*serve(without, bucket))
        assert "bucket or prefix is not that" in refused(*serve(with_bucket, other))
        for words in (["check"], ["import", str(tmp_path)]):
            assert refused("storage", *words, "--storage", with_bucket)
    third = f"{storage_url}_c"
    assert "belong to cluster" in refused(
        "storage", "init", "--storage", third, "--objects", bucket
    )
    with psycopg.connect(shared_postgres) as connection:
        found = connection.execute("SELECT to_regnamespace(%s)", [schema_of(third)]).fetchone()
        assert found == (None,)


def test_an_object_store_that_refuses_or_is_not_there_is_named(
    storage_url: str, shared_s3: S3Server, refused: Refused
) -> None:
    bucket = shared_s3.url("refused")
    make_storage(storage_url, bucket)
    with unchanged(storage_url):
        wrong_key = bucket.replace("access_key_id=O", "access_key_id=X")
        assert "key" in refused(*serve(storage_url, wrong_key))
        wrong_secret = bucket.replace("secret_access_key=s", "secret_access_key=x")
        found = refused(*serve(storage_url, wrong_secret))
        assert "the secret key is wrong" in found
        assert "ecret+of" not in found
        nowhere = bucket.replace(shared_s3.endpoint, "http://127.0.0.1:99999")
        assert "the port of the endpoint" in refused(*serve(storage_url, nowhere))


def test_a_full_database_refuses_records_and_takes_them_again(storage_url: str) -> None:
    """The function that appends fails as PostgreSQL does when it cannot extend a file."""
    urls = make_storage(storage_url)
    with ottla.Broker(storage=urls.storage) as broker:
        options = {"bootstrap.servers": broker.bootstrap_servers}
        with ottla.Producer(options) as producer:
            first = producer.send("orders", b"one").result(30)
        with ottla.Producer({**options, "retries": 0, "enable.idempotence": False}) as producer:
            execute(storage_url, _RENAME.format("append", "append_with_room"))
            execute(storage_url, _FULL)
            with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
                producer.send("orders", b"two").result(30)
            execute(storage_url, "DROP FUNCTION @.append")
            execute(storage_url, _RENAME.format("append_with_room", "append"))
        with ottla.Producer(options) as producer:
            second = producer.send("orders", b"three").result(30)
    assert second.offset == first.offset + 1


def test_a_full_database_ends_a_start_in_one_line(storage_url: str, refused: Refused) -> None:
    make_storage(storage_url)
    execute(storage_url, _FULL_TABLE)
    with unchanged(storage_url):
        assert "No space left on device" in refused(*serve(storage_url))


_RENAME = "ALTER FUNCTION @.{} RENAME TO {}"
_RAISE = """RAISE EXCEPTION USING ERRCODE = '53100',
    MESSAGE = 'could not extend file "base/5/1": No space left on device';"""
_FULL = f"""CREATE FUNCTION @.append(
    uuid, bigint[], bigint[], bigint[], integer[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[],
    bytea[], bytea[], bytea[]) RETURNS integer[] LANGUAGE plpgsql AS $$ BEGIN {_RAISE} END $$"""
_FULL_TABLE = f"""
CREATE FUNCTION @.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {_RAISE} END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON @.brokers FOR EACH ROW EXECUTE FUNCTION @.refuse()"""
