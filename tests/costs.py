"""``pytest --costs``: at the end of a run, CPU seconds by test file and the loops that Numba compiled for each.

CPU seconds include those of subprocesses and do not grow when the machine is busy. A loop is compiled once for each
combination of argument types and then kept on disk, so the file that needs it first pays: start from an empty folder
(``GIFTRL_CACHE_DIR=$(mktemp -d)``) and count distinct loops rather than compare files.
"""

import collections
import os
import time

import pytest

from giftrl.compiled.compiler import CompiledLoop

#: File of a test -> its cost.
costs: collections.defaultdict[str, "Cost"]


class Cost:
    """What the tests of one file cost."""

    def __init__(self, tests=0, seconds=0.0, loading=0.0, loops=()):
        self.tests, self.seconds, self.loading = tests, seconds, loading
        self.loops = dict(loops)

    def add(self, other):
        self.tests += other.tests
        self.seconds += other.seconds
        self.loading += other.loading
        self.loops |= other.loops

    def packed(self):
        return self.tests, self.seconds, self.loading, list(self.loops.items())


costs = collections.defaultdict(Cost)
_now = Cost()


def _cpu():
    return sum(os.times()[:4])


def pytest_addoption(parser):
    parser.addoption("--costs", action="store_true", help="CPU seconds and compiled loops by test file")


def pytest_configure(config):
    if config.getoption("--costs"):
        config.pluginmanager.register(Recorder(config), "giftrl-costs")


class Recorder:
    """Measures every test, in each worker; the controller adds up and prints."""

    def __init__(self, config):
        self.config = config
        self.place, self.compile, self.compiled = CompiledLoop._place, CompiledLoop._compiled, False
        CompiledLoop._place = lambda *args: self.timed(*args)
        CompiledLoop._compiled = lambda *args: self.noted(*args)

    def noted(self, loop, args, symbol):
        self.compiled = True
        return self.compile(loop, args, symbol)

    def timed(self, loop, args):
        begun = time.process_time()
        self.compiled = False
        try:
            return self.place(loop, args)
        finally:
            seconds = time.process_time() - begun
            if self.compiled:
                _now.loops[f"{loop.loop.__name__} {_kinds(args)}"] = seconds
            else:
                _now.loading += seconds

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        _now.__init__()
        begun = _cpu()
        yield
        _now.tests, _now.seconds = 1, _cpu() - begun
        costs[item.nodeid.partition("::")[0]].add(_now)

    def pytest_sessionfinish(self):
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["costs"] = {name: cost.packed() for name, cost in costs.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        for name, cost in getattr(node, "workeroutput", {}).get("costs", {}).items():
            costs[name].add(Cost(*cost))

    def pytest_terminal_summary(self, terminalreporter):
        write = terminalreporter.write_line
        together = Cost()
        for cost in costs.values():
            together.add(cost)
        terminalreporter.section("costs")
        write("CPU seconds: all, compiling, loading what was compiled; loops compiled; tests")
        files = sorted(costs.items(), key=lambda item: -item[1].seconds)
        for name, cost in [*files, ("all of them (without what subprocesses compiled)", together)]:
            compiling = sum(cost.loops.values())
            write(
                f"{cost.seconds:6.1f} {compiling:6.1f} {cost.loading:6.1f} {len(cost.loops):4} {cost.tests:5}  {name}"
            )
        for loop, seconds in sorted(together.loops.items()):
            where = ", ".join(sorted(name for name, cost in costs.items() if loop in cost.loops))
            write(f"{seconds:6.1f} {loop}: {where}")


def _kinds(value):
    """The types of arguments, in short."""
    if isinstance(value, tuple):
        name = type(value).__name__
        return ("" if name == "tuple" else name) + "(" + " ".join(_kinds(part) for part in value) + ")"
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else f"{dtype}{'' if not value.ndim else f'[{value.ndim}]'}"
