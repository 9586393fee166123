"""`--command-config`: who we are and whom we trust, as in the files of Kafka's tools."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.cli.conftest import Ottla, Result
from tests.client.network.fake_broker import running
from tests.client.security.certificates import Certificates, make_certificates
from tests.client.security.sasl_broker import PASSWORD, USER, SaslBroker

LIST = ("topics", "list", "--names", "--command-config", "client.properties")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def write_config(folder: Path, password: str, *trust: str) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=SCRAM-SHA-256",
        f'sasl.jaas.config={module} required username="{USER}" password="{password}";',
        *trust,
        "# Of producers: it is for others, and no error.",
        "linger.ms=5",
    ]
    (folder / "client.properties").write_text("\n".join(lines), encoding="utf-8")


def trusting(certificates: Certificates) -> tuple[str, str]:
    return "ssl.truststore.type=PEM", f"ssl.truststore.location={certificates.ca}"


def against(broker: SaslBroker, run: Ottla, *arguments: str) -> Result:
    async def main() -> Result:
        async with running(broker):
            return await asyncio.to_thread(run, *arguments, "-b", str(broker.address))

    return asyncio.run(main())


def test_a_file_of_kafkas_tools_opens_the_door(
    ottla: Ottla, tmp_path: Path, certificates: Certificates
) -> None:
    write_config(tmp_path, PASSWORD, *trusting(certificates))
    broker = SaslBroker("SCRAM-SHA-256", tls=certificates.server_context())
    done = against(broker, ottla, *LIST)
    assert done.code == 0, done.err
    assert broker.authentications


def test_a_wrong_password_is_told_in_one_line_that_says_where_to_look(
    inside: Ottla, tmp_path: Path, certificates: Certificates
) -> None:
    write_config(tmp_path, "guessed", *trusting(certificates))
    broker = SaslBroker("SCRAM-SHA-256", tls=certificates.server_context())
    done = against(broker, inside, *LIST)
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert "--command-config" in line


def test_a_certificate_that_nobody_trusts_is_told_in_one_line(
    inside: Ottla, tmp_path: Path, certificates: Certificates
) -> None:
    write_config(tmp_path, PASSWORD)
    broker = SaslBroker("SCRAM-SHA-256", tls=certificates.server_context())
    done = against(broker, inside, *LIST)
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert "certificate" in line


def test_a_file_that_is_not_there_or_knows_an_option_that_nobody_knows_is_told(
    inside: Ottla, tmp_path: Path
) -> None:
    missing = inside(*LIST)
    assert missing.code in (1, 2)
    (line,) = missing.err.splitlines()
    assert "client.properties" in line
    (tmp_path / "client.properties").write_text("securty.protocol=SSL\n", encoding="utf-8")
    wrong = inside(*LIST)
    assert wrong.code == 2
    assert "security.protocol" in wrong.err
