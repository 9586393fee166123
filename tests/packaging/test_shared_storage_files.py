"""compose.yaml and the manifests for Kubernetes: valid, and their commands are those that Ottla has."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.cli.commands.root import parse
from ottla.cli.serve import settings_of
from ottla.storage.shared.objects.s3_options import parse_s3_url
from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url

PACKAGING = Path(__file__).parents[2] / "packaging"
COMPOSE = PACKAGING / "compose.yaml"
MANIFESTS = sorted((PACKAGING / "kubernetes").glob("*.yaml"))
# The oldest that is still supported by most providers, and the newest that the package knows.
OLDEST = "1.32"


def manifests() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests() if each["kind"] == kind]


@pytest.fixture
def composed() -> dict[str, Any]:
    found = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def check_command(words: list[str], storage: str = "postgresql://ottla@db/ottla") -> Any:
    """Parses it as the program does."""
    name, *rest = words
    assert name == "ottla"
    return parse([*rest, "--storage", storage])


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
@pytest.mark.parametrize("version", [OLDEST, "latest"])
def test_manifests_are_what_kubernetes_knows(path: Path, version: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validator = pytest.importorskip(
            "kubernetes_validate", reason="pip install kubernetes-validate"
        )
    known = validator.latest_version() if version == "latest" else version
    for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        try:
            validator.validate(each, known, strict=True)
        except validator.SchemaNotFoundError:
            pytest.skip(f"the package has no schema of Kubernetes {known}")


def test_a_wrong_manifest_is_found() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validator = pytest.importorskip(
            "kubernetes_validate", reason="pip install kubernetes-validate"
        )
    (wrong,) = of_kind("StatefulSet")
    wrong["spec"]["replica"] = 3
    with pytest.raises(validator.ValidationError):
        validator.validate(wrong, validator.latest_version(), strict=True)


def test_selectors_and_ports_of_services_are_those_of_the_brokers() -> None:
    (brokers,) = of_kind("StatefulSet")
    template = brokers["spec"]["template"]
    labels = dict(template["metadata"]["labels"])
    (container,) = template["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    own = {f"ottla-{number}" for number in range(brokers["spec"]["replicas"])}
    services = of_kind("Service")
    assert own | {"ottla", brokers["spec"]["serviceName"]} == {
        each["metadata"]["name"] for each in services
    }
    for each in services:
        name, spec = each["metadata"]["name"], each["spec"]
        expected = dict(labels)
        if name in own:
            expected["statefulset.kubernetes.io/pod-name"] = name
        assert spec["selector"] == expected
        assert {port["targetPort"] for port in spec["ports"]} <= ports
    (budget,) = of_kind("PodDisruptionBudget")
    assert budget["spec"]["selector"] == brokers["spec"]["selector"]
    assert brokers["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "metrics"}


def test_commands_in_kubernetes_are_those_of_ottla() -> None:
    (brokers,) = of_kind("StatefulSet")
    (container,) = brokers["spec"]["template"]["spec"]["containers"]
    words = [
        word.replace("$(POD_NAME)", "ottla-0").replace("$(POD_NAMESPACE)", "default")
        for word in [*container["command"], *container["args"]]
    ]
    config = settings_of(check_command(words).arguments).config
    assert config.ottla_peer_listener == "0.0.0.0:9095"
    assert config.ottla_peer_advertised_listener == "ottla-0.default.svc:9095"
    (job,) = of_kind("Job")
    (init,) = job["spec"]["template"]["spec"]["containers"]
    assert check_command(init["command"]).arguments.broker_role == "ottla_broker"


def test_commands_of_compose_are_those_of_ottla(composed: dict[str, Any]) -> None:
    services = composed["services"]
    brokers = {name: each for name, each in services.items() if name.startswith("broker-")}
    assert len(brokers) == 3
    for name, each in brokers.items():
        config = settings_of(
            check_command([*each["entrypoint"], *each["command"]]).arguments
        ).config
        advertised = {str(listener.advertised) for listener in config.all_listeners}
        (published,) = each["ports"]
        port = published.rpartition(":")[2]
        assert advertised == {f"{name}:19092", f"localhost:{port}"}
    assert services["init"]["command"] == ["ottla storage check || ottla storage init"]


def test_files_that_compose_names_exist_and_agree(composed: dict[str, Any]) -> None:
    texts = {
        name: (PACKAGING / each["file"]).read_text(encoding="utf-8").strip()
        for name, each in composed["secrets"].items()
    }
    database = parse_database_url(texts["storage"])
    assert composed["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"] in database.dsn
    bucket = parse_s3_url(texts["objects"])
    (user,) = json.loads(texts["users"])["identities"]
    (keys,) = user["credentials"]
    assert (bucket.access_key_id, bucket.secret_access_key) == (
        keys["accessKey"],
        keys["secretKey"],
    )
    build = composed["services"]["broker-1"]["build"]
    assert (PACKAGING / build["context"] / build["dockerfile"]).exists()
