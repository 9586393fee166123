"""`python -m tests.hostile [--divisor N] [attack ...]`: runs attacks, or all of them, and prints a table.

With --divisor 10 there is a tenth of everything. The exit code is 1 if something was wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.attacks import ATTACKS
from tests.hostile.run import run_attacks


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile")
    parser.add_argument("attacks", nargs="*", metavar="attack", help=", ".join(ATTACKS))
    parser.add_argument("--divisor", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.attacks:
        if name not in ATTACKS:
            parser.error(f"there is no attack {name}: {', '.join(ATTACKS)}")
    with tempfile.TemporaryDirectory(prefix="ottla-hostile-") as folder:
        results = run_attacks(Path(folder), arguments.attacks or list(ATTACKS), arguments.divisor)
    wrong = [f"{result.name}: {', '.join(result.wrong)}" for result in results if result.wrong]
    for line in wrong:
        print(line)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
