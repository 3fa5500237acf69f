"""What all tests share: Hypothesis profiles, markers, and the folder of compiled loops.

``make test`` leaves out what is marked ``verify`` and runs what is marked ``plain`` without compiling loops. ``make
verify`` runs the former, and the latter once more with compiled loops.
"""

import collections
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Loops are compiled once for all test processes, and for later runs.
os.environ.setdefault("GIFTRL_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "loops"))

# Commands look for a certificate where a test is about that; it takes plain Python seconds.
os.environ.setdefault("GIFTRL_CERTIFICATE_SECONDS", "0")

# The examples of the service's help end by themselves, and do not get into each other's way.
os.environ.setdefault("GIFTRL_SERVE_SECONDS", "0.5")
os.environ.setdefault("GIFTRL_SERVE_PORT", "0")

pytest_plugins = ["tests.browser"]

common = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
settings.register_profile("default", max_examples=50, derandomize=True, **common)
settings.register_profile("verify", max_examples=60, derandomize=True, **common)
settings.register_profile("long", max_examples=5000, **common)
settings.load_profile("default")


#: Pages whose examples train on so many rows that plain Python takes longer than compiling.
LONG_PAGES = ("user-guide.md", "how-to/calibration.md", "how-to/certificates.md", "how-to/imbalance.md")
GOLDEN = 0.5 * (5.0**0.5 - 1.0)


def pytest_addoption(parser):
    parser.addoption("--compiled", action="store_true", help="compile the loops of tests that are marked plain, too")


def pytest_configure(config):
    for line in (
        "verify: a slow test, left to `make verify`",
        "sample(n): one in n cases of this test is run by `make test`, the others by `make verify`",
        "plain(yes=True): not about compiled code; loops run as plain Python, unless it is slow or --compiled is given",
    ):
        config.addinivalue_line("markers", line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark examples in docstrings as plain, and the cases that are not in a sample as slow."""
    seen = collections.Counter()
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker("verify" if item.path.as_posix().endswith(LONG_PAGES) else "plain")
        sample = item.get_closest_marker("sample")
        if sample is not None:
            test = item.nodeid.partition("[")[0]
            # Multiples of the golden ratio spread evenly, over the values of every parameter too.
            if (seen[test] * GOLDEN) % 1.0 >= 1.0 / sample.args[0]:
                item.add_marker("verify")
            seen[test] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Run a test that is marked plain without compiled loops, in its fixtures and subprocesses too."""
    marker = item.get_closest_marker("plain")
    compiled = marker is None or marker.args == (False,) or item.get_closest_marker("verify") is not None
    with pytest.MonkeyPatch.context() as patch:
        if not compiled and not item.config.getoption("--compiled"):
            patch.setenv("GIFTRL_PLAIN", "1")
        return (yield)
