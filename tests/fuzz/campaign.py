"""The long runs, which `make campaign` starts; a failure prints the command that repeats it.

CAMPAIGN_SEED       the seed; random, and printed, unless given
CAMPAIGN_PARTS      which parts to run: examples,wire,plain,plain-groups,logins,handshakes,batches,disk,torn,sim,scale,
                    groups,faults,spark,kafka,packaging,shared,history,hostile
CAMPAIGN_ROUNDS     rounds of all tests that Hypothesis makes examples for (10), each with examples that no other has
CAMPAIGN_FRAMES     mutated frames (1,000,000)
CAMPAIGN_RECEIVES   receives of Produce frames by two brokers that must not differ (500,000)
CAMPAIGN_GROUP_RECEIVES  receives of group requests by two brokers that must not differ (200,000)
CAMPAIGN_LOGINS     mutated logins (50,000)
CAMPAIGN_HANDSHAKES  mutated handshakes of TLS (5,000)
CAMPAIGN_BATCHES    mutated record batches (200,000)
CAMPAIGN_FOLDERS    damaged data folders (1,000)
CAMPAIGN_FIRST      the first damaged folder, to repeat one (0)
CAMPAIGN_WORLDS     simulated worlds of each scenario (5,000); their seeds follow the campaign's
CAMPAIGN_SEGMENTS   segments of 1 GB in the large log (100)
CAMPAIGN_TOPICS     topics of 100 partitions each in the run at scale (100)
CAMPAIGN_MINUTES    minutes of the history checker with real clients (30)
CAMPAIGN_ATTACKS    attacks of hostile clients, by name, as in tests/hostile/attacks.py (all)
"""

from __future__ import annotations

import logging
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.batches import run_batches
from tests.fuzz.disk import run_disk
from tests.fuzz.handshakes import run_handshakes
from tests.fuzz.logins import run_logins
from tests.fuzz.plain import run_plain
from tests.fuzz.plain_groups import run_plain_groups
from tests.fuzz.torn import TEARS, run_torn
from tests.fuzz.wire import run_wire
from tests.history.round import SETTINGS
from tests.history.run import run_for
from tests.hostile.attacks import ATTACKS
from tests.hostile.run import run_hostile
from tests.scale.large_log import run_large_log
from tests.scale.partitions import run_scale
from tests.sim.run import SCENARIOS, play_seeds

from ottla.records.compression import Codec

CHECK_EVERY = 10_000
# A restart now and then tries what mutated frames left in the catalog.
FRAMES_PER_BROKER = 250_000
RECEIVES_PER_BROKER = 20_000
RECEIVES_PER_CHECK = 2_000


def number(name: str, default: int) -> int:
    return int(os.environ.get(name) or default)


def examples(folder: Path, seed: int) -> str:
    """Tests with generated examples: `make test` has the same ones always, here each round has others."""
    rounds = number("CAMPAIGN_ROUNDS", 10)
    for number_of_round in range(rounds):
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-m", "hypothesis and not campaign", "-n", "2"),
            "tests",
            *("-p", "no:cacheprovider", f"--basetemp={folder / 'examples'}"),
            f"--hypothesis-seed={seed + number_of_round}",
        ]
        done = subprocess.run(command, env={**os.environ, "OTTLA_EXAMPLES": "search"}, check=False)
        assert done.returncode == 0, f"pytest ended with {done.returncode}: {' '.join(command)}"
    return f"{rounds} rounds of examples"


def wire(folder: Path, seed: int) -> str:
    left, results, run = number("CAMPAIGN_FRAMES", 1_000_000), [], 0
    while left > 0:
        count = min(left, FRAMES_PER_BROKER)
        (folder / str(run)).mkdir()
        tally = run_wire(folder / str(run), seed + run, count, CHECK_EVERY)
        results.append(f"{tally}")
        print(f"  seed {seed + run}: {tally}", flush=True)
        left -= tally.frames
        run += 1
    return f"{len(results)} brokers, {number('CAMPAIGN_FRAMES', 1_000_000) - left} frames"


def plain(folder: Path, seed: int) -> str:
    left, results, run = number("CAMPAIGN_RECEIVES", 500_000), [], 0
    while left > 0:
        count = min(left, RECEIVES_PER_BROKER)
        (folder / str(run)).mkdir()
        results.append(f"{run_plain(folder / str(run), seed + run, count, RECEIVES_PER_CHECK)}")
        print(f"  seed {seed + run}: {results[-1]}", flush=True)
        left, run = left - count, run + 1
    return f"{run} pairs of brokers, the last: {results[-1]}"


def plain_groups(folder: Path, seed: int) -> str:
    left, run, tally = number("CAMPAIGN_GROUP_RECEIVES", 200_000), 0, None
    while left > 0:
        count = min(left, RECEIVES_PER_BROKER)
        tally = run_plain_groups(folder / str(run), seed + run, count)
        print(f"  seed {seed + run}: {tally}", flush=True)
        left, run = left - count, run + 1
    return f"{run} pairs of brokers, the last: {tally}"


def logins(folder: Path, seed: int) -> str:
    return str(run_logins(folder, seed, number("CAMPAIGN_LOGINS", 50_000), CHECK_EVERY))


def handshakes(folder: Path, seed: int) -> str:
    count = number("CAMPAIGN_HANDSHAKES", 5_000)
    return str(run_handshakes(folder, seed, count, CHECK_EVERY))


def batches(folder: Path, seed: int) -> str:
    return str(run_batches(folder, seed, number("CAMPAIGN_BATCHES", 200_000)))


def disk(folder: Path, seed: int) -> str:
    first = number("CAMPAIGN_FIRST", 0)
    return str(run_disk(folder, seed, first, number("CAMPAIGN_FOLDERS", 1_000)))


def torn(folder: Path, seed: int) -> str:
    return str(run_torn(folder, Codec, list(TEARS)))


def sim(folder: Path, seed: int) -> str:
    """A failure names the command that plays it alone."""
    count, results = number("CAMPAIGN_WORLDS", 5_000), []
    for name in SCENARIOS:
        played = play_seeds(name, range(seed, seed + count))
        played.check(name)
        results.append(f"{count} worlds of {name}, {played.steps} steps")
        print(f"  {results[-1]}", flush=True)
    return ", ".join(results)


def scale(folder: Path, seed: int) -> str:
    found = run_large_log(folder / "large", number("CAMPAIGN_SEGMENTS", 100), 2_000)
    print(f"  {found}", flush=True)
    return str(run_scale(folder, number("CAMPAIGN_TOPICS", 100), 100))


def marked(tests: str, folder: Path, seed: int) -> str:
    """The tests of a folder that have the marker `campaign`."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-m", "campaign", "-n", "2"),
        *("-p", "no:cacheprovider", f"--basetemp={folder / 'marked'}", tests),
    ]
    done = subprocess.run(command, env={**os.environ, "OTTLA_FAULT_SEED": str(seed)}, check=False)
    assert done.returncode == 0, f"pytest ended with {done.returncode}"
    return "every test passed"


def groups(folder: Path, seed: int) -> str:
    """What the tests of groups do not do in `make test`: every client on three nodes, a minute of fifty members."""
    return marked("tests/groups", folder, seed)


def faults(folder: Path, seed: int) -> str:
    """Every crash point with every client, and 100,000 records copied while copiers and the broker are killed."""
    return marked("tests/faults", folder, seed)


def assignors(folder: Path, seed: int) -> str:
    """The group coordinator's assignors beside Kafka's, 100,000 rebalances each."""
    return marked("tests/core/assignors", folder, seed)


def spark(folder: Path, seed: int) -> str:
    """Exactly-once pipelines under Spark while drivers, brokers, tasks and other instances die or wake late."""
    return marked("tests/spark", folder, seed)


def kafka(folder: Path, seed: int) -> str:
    """Our client with old releases of Apache Kafka, and with three brokers of the newest."""
    return marked("tests/client/apache_kafka", folder, seed)


def packaging(folder: Path, seed: int) -> str:
    """The wheel, built and installed alone in a fresh environment."""
    return marked("tests/packaging", folder, seed)


def shared(folder: Path, seed: int) -> str:
    """Three brokers on one storage: other clients, and 100,000 records copied while copiers and brokers are killed."""
    marked("tests/clients", folder, seed)
    return marked("tests/shared_brokers", folder, seed)


def history(folder: Path, seed: int) -> str:
    # Histories of failures stay where they are, for whoever looks into them.
    keep = Path(tempfile.mkdtemp(prefix="ottla-history-"))
    rounds, failed = run_for(number("CAMPAIGN_MINUTES", 30), seed, keep, list(SETTINGS))
    assert not failed, f"{failed} of {rounds} rounds failed"
    return f"{rounds} rounds with real clients"


def hostile(folder: Path, seed: int) -> str:
    """Every attack in full against a broker of its own, with a table of what it did."""
    return run_hostile(folder, (os.environ.get("CAMPAIGN_ATTACKS") or ",".join(ATTACKS)).split(","))


PARTS: dict[str, Callable[[Path, int], str]] = {
    "examples": examples,
    "wire": wire,
    "plain": plain,
    "plain-groups": plain_groups,
    "logins": logins,
    "handshakes": handshakes,
    "batches": batches,
    "disk": disk,
    "torn": torn,
    "sim": sim,
    "scale": scale,
    "groups": groups,
    "faults": faults,
    "assignors": assignors,
    "spark": spark,
    "kafka": kafka,
    "packaging": packaging,
    "shared": shared,
    "history": history,
    "hostile": hostile,
}


def repetition(name: str, seed: int, error: Exception) -> str:
    """The variables that run what failed, and little else, once more."""
    text = f"CAMPAIGN_PARTS={name} CAMPAIGN_SEED={seed}"
    case = re.match(r"case (\d+):", str(error))
    return text if case is None else f"{text} CAMPAIGN_FIRST={case[1]} CAMPAIGN_FOLDERS=1"


def main() -> int:
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    seed = number("CAMPAIGN_SEED", random.SystemRandom().randrange(1, 1 << 31))
    names = (os.environ.get("CAMPAIGN_PARTS") or ",".join(PARTS)).split(",")
    failed = []
    for name in names:
        print(f"{name}: CAMPAIGN_SEED={seed}", flush=True)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="ottla-campaign-") as folder:
            try:
                result = PARTS[name](Path(folder), seed)
            except Exception as error:
                failed.append(name)
                print(f"{name}: FAILED after {time.monotonic() - began:.0f} s: {error}")
                print(f"repeat it: {repetition(name, seed, error)} make campaign", flush=True)
                continue
        print(f"{name}: {result}", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all parts passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
