"""How a store behaves that S3Objects asks, and what a broker is told of it."""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.storage.shared.faulty_s3 import FaultyS3, faulty_s3
from tests.storage.shared.s3_server import S3Server

from ottla.errors import ConfigError
from ottla.ports import DamagedError, StorageError
from ottla.storage.shared.errors import (
    ObjectMissingError,
    ObjectsRefusedError,
    ObjectsUnavailableError,
)
from ottla.storage.shared.objects.s3 import S3Objects
from ottla.storage.shared.objects.s3_options import PARAMETERS, S3Options, parse_s3_url

SECRETS = ("verysecret", "AKIATESTTESTTESTTEST")


@pytest.fixture
def server() -> Iterator[FaultyS3]:
    with faulty_s3() as state:
        yield state


async def put(store: S3Objects) -> None:
    await store.put("00/1-a", [b"0123456789"])


async def get(store: S3Objects) -> None:
    await store.get_ranges("00/1-a", [(0, 10)])


async def delete(store: S3Objects) -> None:
    await store.delete(["00/1-a"])


async def listing(store: S3Objects) -> None:
    async for _ in store.list("00/"):
        pass


Ask = Callable[[S3Objects], Awaitable[None]]
ASKS = [put, get, delete, listing]


def failure(url: str, ask: Ask, environment: dict[str, str] | None = None) -> StorageError:
    store = S3Objects.of_url(url, environment or {})
    with pytest.raises(StorageError) as caught:
        asyncio.run(ask(store))  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    for secret in SECRETS:
        assert secret not in text + repr(caught.value) + repr(store)
    # Nor in the traceback.
    assert caught.value.__cause__ is None
    return caught.value


def answer(url: str, ask: Ask, environment: dict[str, str] | None = None) -> None:
    asyncio.run(ask(S3Objects.of_url(url, environment or {})))  # type: ignore[arg-type]


@pytest.mark.parametrize("ask", ASKS)
def test_a_store_that_is_overloaded_is_unavailable(server: FaultyS3, ask: Ask) -> None:
    server.faults = ["503"] * 9
    assert isinstance(failure(server.url(), ask), ObjectsUnavailableError)


@pytest.mark.parametrize("ask", ASKS)
def test_a_store_that_cannot_be_reached_is_unavailable(ask: Ask) -> None:
    with faulty_s3() as gone:
        url = gone.url()
    assert isinstance(failure(url, ask), ObjectsUnavailableError)


@pytest.mark.parametrize("ask", [put, get])
def test_a_single_failure_is_tried_again(server: FaultyS3, ask: Ask) -> None:
    server.stored["/bucket/below/00/1-a"] = b"0123456789"
    server.faults = ["503"]
    answer(server.url(), ask)
    assert len(server.requests) == 2


@pytest.mark.parametrize("ask", ASKS)
def test_a_store_that_does_not_answer_is_unavailable_after_the_timeout(
    server: FaultyS3, ask: Ask
) -> None:
    server.faults = ["slow"] * 9
    before = time.monotonic()
    found = failure(server.url("&timeout=0.2"), ask)
    assert isinstance(found, ObjectsUnavailableError)
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("fault", ["stored-then-slow", "stored-then-drop"])
def test_an_object_may_be_stored_although_the_answer_is_lost(server: FaultyS3, fault: str) -> None:
    server.faults = [fault] * 9
    assert isinstance(failure(server.url("&timeout=0.2"), put), ObjectsUnavailableError)
    assert server.stored == {"/bucket/below/00/1-a": b"0123456789"}


def test_a_truncated_answer_is_never_given_to_the_reader(server: FaultyS3) -> None:
    server.stored["/bucket/below/00/1-a"] = b"0123456789"
    server.faults = ["truncated"] * 99
    assert isinstance(failure(server.url("&timeout=0.5"), get), ObjectsUnavailableError)
    server.faults = ["short"]
    assert isinstance(failure(server.url(), get), ObjectsUnavailableError)


def test_an_object_that_is_too_short_in_the_store_is_damaged(server: FaultyS3) -> None:
    server.stored["/bucket/below/00/1-a"] = b"01234"
    assert isinstance(failure(server.url(), get), DamagedError)


def test_a_missing_object_is_missing(server: FaultyS3) -> None:
    assert isinstance(failure(server.url(), get), ObjectMissingError)
    answer(server.url(), delete)


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("403:AccessDenied", "no permission"),
        ("403:SignatureDoesNotMatch", "secret key is wrong"),
        ("404:NoSuchBucket", "no such bucket"),
        ("400:AuthorizationHeaderMalformed", "region="),
        ("403:SomethingElse", "no permission"),
        ("400:Unheard", "refuses it: 400 Unheard As the test says."),
    ],
)
def test_what_an_operator_has_to_change_is_said_in_one_line(
    server: FaultyS3, ask: Ask, fault: str, said: str
) -> None:
    server.faults = [fault] * 9
    found = failure(server.url(), ask)
    assert isinstance(found, ObjectsRefusedError)
    assert said in str(found)
    assert "s3://bucket" in str(found)


def test_a_cancelled_upload_ends_its_connection(server: FaultyS3) -> None:
    async def run() -> None:
        store = S3Objects.of_url(server.url(), {})
        server.faults = ["slow"]
        upload = asyncio.create_task(put(store))
        while not server.requests:
            await asyncio.sleep(0.01)
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        await put(store)

    asyncio.run(run())


def test_an_upload_is_signed_with_the_checksum_of_its_bytes(server: FaultyS3) -> None:
    answer(server.url(), put)
    assert server.headers[-1]["x-amz-content-sha256"] == (
        "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"
    )
    answer(server.url("&checksum=crc64nvme"), put)
    assert "x-amz-checksum-crc64nvme" in server.headers[-1]
    answer(server.url("&checksum=none"), put)
    assert server.headers[-1]["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
    assert "x-amz-checksum-crc64nvme" not in server.headers[-1]


def test_a_listing_that_is_given_up_can_be_released(server: FaultyS3) -> None:
    # obstore would panic: "there is no reactor running".
    async def run() -> None:
        store = S3Objects.of_url(server.url("&timeout=0.2"), {})
        for is_cancelled in (False, True):
            server.faults = ["slow"]
            asked = len(server.requests)
            task = asyncio.create_task(listing(store))
            while len(server.requests) == asked:
                await asyncio.sleep(0.01)
            if is_cancelled:
                task.cancel()
            with pytest.raises(asyncio.CancelledError if is_cancelled else StorageError):
                await task
            del task
            gc.collect()
            await asyncio.sleep(0.02)

    asyncio.run(run())
    gc.collect()


# TLS.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"


def test_a_certificate_of_an_own_authority_is_trusted_only_with_its_file(
    certificate: tuple[Path, Path],
) -> None:
    with faulty_s3(*certificate) as server:
        answer(server.url(f"&ca={certificate[0]}"), put)
        answer(server.url(), put, {"AWS_CA_BUNDLE": str(certificate[0])})
        found = failure(server.url("&timeout=3"), put)
        assert isinstance(found, StorageError)
        assert "ca=" in str(found)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), ("no certificate", "no certificate")]
)
def test_a_wrong_ca_file_is_refused(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(ConfigError, match=said):
        S3Objects.of_url(f"s3://bucket?ca={tmp_path / 'ca.pem'}", {})


# Credentials.


def signed_by(server: FaultyS3) -> str:
    return server.headers[-1]["authorization"].partition("Credential=")[2].partition("/")[0]


def test_credentials_come_from_url_environment_or_files_in_this_order(
    server: FaultyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / ".aws"
    files.mkdir()
    (files / "credentials").write_text(
        "[default]\naws_access_key_id = FILE\naws_secret_access_key = a%b\n"
        "[other]\naws_access_key_id = OTHER\naws_secret_access_key = x\naws_session_token = tok\n"
    )
    (files / "config").write_text(
        "[default]\nregion = eu-north-1\n[profile inconfig]\naws_access_key_id = INCONFIG\n"
        "aws_secret_access_key = x\nregion = eu-west-3\n[profile sso]\nsso_session = x\n[profile none]\n"
    )
    url = f"s3://bucket/below?endpoint={server.endpoint}"
    home = {"HOME": str(tmp_path)}
    answer(url, put, home)
    assert signed_by(server) == "FILE"
    assert "/eu-north-1/s3/" in server.headers[-1]["authorization"]
    for chosen in ({**home, "AWS_PROFILE": "other"}, home):
        answer(url + ("" if "AWS_PROFILE" in chosen else "&profile=other"), put, chosen)
        assert signed_by(server) == "OTHER"
        assert server.headers[-1]["x-amz-security-token"] == "tok"
    answer(url + "&profile=inconfig", put, home)
    assert signed_by(server) == "INCONFIG"
    # Variables of AWS are read by the HTTP client itself.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "VARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    variables = {**home, "AWS_ACCESS_KEY_ID": "VARIABLE", "AWS_SECRET_ACCESS_KEY": "x"}
    answer(url, put, variables)
    assert signed_by(server) == "VARIABLE"
    answer(url + "&profile=other", put, variables)
    assert signed_by(server) == "OTHER"
    answer(url + "&access_key_id=URL&secret_access_key=a+b", put, variables)
    assert signed_by(server) == "URL"
    answer(url + "&anonymous=true", put, variables)
    assert "authorization" not in server.headers[-1]
    for profile, said in (("sso", "uses sso_session"), ("none", "no keys"), ("gone", "no keys")):
        with pytest.raises(ConfigError, match=said):
            S3Objects.of_url(f"{url}&profile={profile}", home)


def test_a_file_that_is_not_aws_format_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("verysecret")
    with pytest.raises(ConfigError) as caught:
        S3Objects.of_url(
            "s3://bucket", {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
        )
    assert "verysecret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(("fault", "timeout"), [("404", "5"), ("slow", "0.3")])
def test_missing_credentials_are_said(
    server: FaultyS3, monkeypatch: pytest.MonkeyPatch, fault: str, timeout: str
) -> None:
    # The last link of AWS's chain, asked in vain.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.endpoint)
    server.faults = [fault] * 9
    url = f"s3://bucket/below?endpoint={server.endpoint}&timeout={timeout}"
    found = failure(url, put, {"HOME": "/nonexistent"})
    assert "no credentials in the URL" in str(found)
    assert server.requests[0][1] == "/latest/api/token"


def test_the_endpoint_of_the_environment_is_used(server: FaultyS3) -> None:
    keys = "access_key_id=AKIATESTTESTTESTTEST&secret_access_key=verysecret"
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        answer(f"s3://bucket/below?{keys}", put, {name: server.endpoint})
        assert server.requests.pop()[1] == "/bucket/below/00/1-a"


def test_the_bucket_is_in_the_host_name_with_virtual_style(
    server: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.endpoint)  # so that no name has to be resolved
    url = server.url().replace(server.endpoint, "http://s3.test")
    for style, host, path in (
        ("virtual", "bucket.s3.test", "/below/00/1-a"),
        ("path", "s3.test", "/bucket/below/00/1-a"),
    ):
        answer(f"{url}&style={style}", put)
        assert server.requests[-1] == ("PUT", path)
        assert server.headers[-1]["host"] == host


# URLs.


def test_parts_of_a_url() -> None:
    assert parse_s3_url(
        "s3://bucket-1/a/b=/?region=eu-north-1&endpoint=https://s3.example.com/&timeout=2.5&style=path"
    ) == S3Options(
        bucket="bucket-1",
        prefix="a/b=",
        region="eu-north-1",
        endpoint="https://s3.example.com",
        style="path",
        timeout_seconds=2.5,
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gs://bucket", "begins with s3://"),
        ("s3://", "no name of a bucket"),
        ("s3:///x", "no name of a bucket"),
        ("s3://key:verysecret@bucket", "credentials come from"),
        ("s3://bucket?regoin=x", "no parameter 'regoin'"),
        ("s3://bucket?region=a&region=b", "twice"),
        ("s3://bucket?region=", "no value"),
        ("s3://bucket?endpoint=host:1", "http:// or https://"),
        ("s3://bucket?endpoint=http:///", "http:// or"),
        ("s3://bucket?endpoint=http://:80", "names no host"),
        ("s3://bucket?endpoint=http://key:verysecret@host", "cannot have a user"),
        ("s3://bucket?style=other", "path or virtual"),
        ("s3://bucket?timeout=soon", "number of seconds"),
        ("s3://bucket?timeout=0", "more than 0"),
        ("s3://bucket?timeout=nan", "more than 0"),
        ("s3://bucket?checksum=md5", "sha256, crc64nvme or none"),
        ("s3://bucket?anonymous=yes", "true or false"),
        ("s3://bucket?anonymous=true&access_key_id=a&secret_access_key=verysecret", "neither"),
        ("s3://bucket?secret_access_key=verysecret", "together"),
        ("s3://bucket?session_token=verysecret", "needs"),
        ("s3://bucket?access_key_id=a&secret_access_key=verysecret&profile=p", "either"),
        ("s3://bucket/a b", "letters, digits"),
        ("s3://bucket/a/../b", "letters, digits"),
        ("s3://bucket/a//b", "letters, digits"),
        ("s3://bucket#x", "write s3://BUCKET"),
    ],
)
def test_a_wrong_url_is_refused_with_what_to_change(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_s3_url(url)
    assert said in str(caught.value)
    assert "verysecret" not in str(caught.value)


def test_secrets_are_nowhere_in_what_is_shown() -> None:
    url = "s3://bucket/p?access_key_id=AKIATESTTESTTESTTEST&secret_access_key=verysecret&session_token=verysecret"
    options = parse_s3_url(url)
    assert options.secret_access_key == "verysecret"
    shown = str(options) + repr(options) + repr(S3Objects(options, {}))
    for secret in SECRETS:
        assert secret not in shown
    assert "session_token=***" in str(options)


# SeaweedFS.


def test_a_real_store_refuses_wrong_keys_in_one_line(shared_s3: S3Server) -> None:
    url = shared_s3.url("x")
    for wrong, said in (
        (url.replace("secret_access_key=", "secret_access_key=verysecret"), "secret key is wrong"),
        (url.replace("access_key_id=", "access_key_id=no", 1), "access key is unknown"),
    ):
        for ask in ASKS:
            found = failure(wrong, ask)
            assert isinstance(found, ObjectsRefusedError)
            assert said in str(found)


def test_the_guide_has_every_parameter() -> None:
    guide = (Path(__file__).parents[4] / "docs/guides/object-stores.md").read_text()
    rows = [line.split("|")[1] for line in guide.splitlines() if line.startswith("| `")]
    found = {name for row in rows for name in re.findall("`([a-z_]+)`", row)}
    assert found == set(PARAMETERS)
