"""The page about tests in any language: its commands do what it shows, and it has every route."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.guides.console import steps_of
from tests.testing.test_broker_command import started

from ottla.testing.control.json_shapes import FAULT, Field
from ottla.testing.control.routes import ROUTES

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "testing-any-language.md"
RUN_SECONDS = 60
MASKS = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00"), "TIME"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "MILLISECONDS"),
)


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text.strip()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    script = tmp_path / "ottla"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n', encoding="ascii")
    script.chmod(0o755)
    steps = list(steps_of(PAGE.read_text(encoding="utf-8")))
    assert len(steps) > 10
    with started() as (_, servers, url):
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "SERVERS": servers,
            "CONTROL": url,
        }
        for step in steps:
            done = subprocess.run(
                ["bash", "-c", step.command],
                capture_output=True,
                text=True,
                env=environment,
                timeout=RUN_SECONDS,
                check=False,
            )
            assert done.returncode == 0, step.command
            assert masked(done.stdout) == masked(step.printed), step.command


def test_the_page_has_every_route_and_field() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if re.match(r"\| `(GET|POST|DEL)", line)]
    documented = {
        path: row[2]
        for row in rows
        for path in re.findall(r"`((?:GET|POST|DELETE) [^`]+)`", row[1])
    }
    assert documented.keys() == {f"{route.method} {route.path}" for route in ROUTES}
    for route in ROUTES:
        if route.path == "/faults/script":
            continue  # it names the fields of the target by the first and the last
        wanted: dict[str, Field | str] = {**(route.fields or {}), **dict.fromkeys(route.query, "")}
        missing = [
            name for name in wanted if name not in documented[f"{route.method} {route.path}"]
        ]
        assert not missing, route
    assert set(FAULT) <= set(re.findall(r"\w+", documented["POST /faults"]))
