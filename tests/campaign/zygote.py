"""A process that has imported everything, and forks a command for each line of JSON that it reads.

A command then takes a few hundredths of a second instead of a second, so that a campaign can have thousands of faults.
It is run as a program: see :class:`tests.campaign.harness.Commands`.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback

#: Operations on files that Python tells its audit hooks of.
EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "shutil.copyfile"}


class Moments:
    """Counts the operations on files below a folder, and sends this process a signal before one of them."""

    def __init__(self, folder, number, at):
        self.folder, self.number, self.at, self.count = folder, number, at, 0

    def __call__(self, event, arguments):
        if event not in EVENTS or not arguments or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        if not os.path.abspath(os.fsdecode(arguments[0])).startswith(self.folder):  # noqa: PTH100 (no link is followed)
            return
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), self.number)


def command(run, request, report):
    """Be the command; never returns."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        handle = os.open(request.get(name) or os.devnull, flags)
        os.dup2(handle, descriptor)
        os.close(handle)
    os.chdir(request["cwd"])
    os.environ.update(request.get("environment", {}))
    sys.argv = ["giftrl", *request["arguments"]]
    if "largest_file" in request:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"], resource.RLIM_INFINITY))
    moments = Moments(request["cwd"], request.get("signal", 0), request.get("moment", -1))
    sys.addaudithook(moments)
    status = 1
    try:
        run()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os.write(report, str(moments.count).encode())
    os._exit(status)


def serve(run, requests, answers):
    # A signal that comes before a command takes signals ends it, and does not interrupt what is written here.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for line in requests:
        request = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            command(run, request, write)
        os.close(write)
        if "after" in request:
            time.sleep(request["after"])
            os.kill(child, request["signal"])
        _, status = os.waitpid(child, 0)
        with os.fdopen(read) as report:
            moments = int(report.read() or 0)
        answers.write(json.dumps({"status": os.waitstatus_to_exitcode(status), "moments": moments}) + "\n")
        answers.flush()


def prepare():
    """Import what commands import, and return ``giftrl``. No thread is started: a fork would not have it."""
    import giftrl
    from giftrl.cli import main

    for module in pkgutil.walk_packages(giftrl.__path__, "giftrl."):
        importlib.import_module(module.name)
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg",
                 "pyarrow.csv", "pyarrow.parquet", "rich.console", "rich.table", "scipy.sparse"):  # fmt: skip
        importlib.import_module(name)
    return main


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    requests = os.fdopen(os.dup(0))
    serve(prepare(), requests, answers)
