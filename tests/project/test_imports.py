"""What `import yaoki` costs: apsw, msgspec, and the light part of the standard library."""

from __future__ import annotations

import json
import subprocess
import sys

LATE = {
    "asyncio",
    "concurrent.futures",
    "dataclasses",
    "hashlib",
    "http",
    "logging",
    "multiprocessing",
    "pathlib",
    "rich",
    "ssl",
    "traceback",
    "typer",
    "urllib",
    "yaoki.journal",
}

# msgspec itself imports a third party where there is one (typing_extensions), so the floor is measured.
FLOOR = "import apsw, msgspec"
BARE = "import yaoki; assert yaoki.__file__, 'a package, not a folder that happens to be there'"
EVERY_NAME = "import yaoki; [getattr(yaoki, name) for name in yaoki.__all__]"

PROBE = """
import json, sys
before = set(sys.modules)
exec(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def _pulled(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter loads for the statement."""
    # -P: not the folder the tests run in; the environment, and with it PYTHONPATH, stays.
    command = [sys.executable, "-P", "-c", PROBE, statement]
    return set(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=30).stdout))


def _third_parties(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names


def test_importing_the_package_pulls_no_third_party_but_apsw_and_msgspec() -> None:
    assert _third_parties(_pulled(BARE)) - _third_parties(_pulled(FLOOR)) == {"yaoki"}


def test_importing_the_package_leaves_heavy_modules_for_whoever_uses_them() -> None:
    assert (_pulled(BARE) - _pulled(FLOOR)) & LATE == set()


def test_all_public_names_together_pull_no_third_party_but_apsw_and_msgspec() -> None:
    assert _third_parties(_pulled(EVERY_NAME)) - _third_parties(_pulled(FLOOR)) == {"yaoki"}
