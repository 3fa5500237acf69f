"""What Windows lacks, taken away here: every module imports, and commands do the same work."""

import errno
import os
import socket
import subprocess
import sys
import tracemalloc
import types
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from giftrl import files, system
from giftrl.cli.commands import main
from giftrl.compiled import object_files
from giftrl.config import Recipe, make
from giftrl.errors import InvalidInput, ModelFileError
from tests.commands import giftrl, write_rows

pytestmark = pytest.mark.plain

#: Run first: imports of giftrl's modules, not those of other libraries, find no module that Windows has not.
LIKE_WINDOWS = """
import builtins, os, pathlib, pkgutil, importlib, sys, types
MODULES = {"fcntl", "resource", "termios", "tty", "pwd", "grp", "syslog", "posix"}
real = builtins.__import__

def without(name, globals=None, *rest, **more):
    if not (globals or {}).get("__name__", "").startswith("giftrl"):
        return real(name, globals, *rest, **more)
    if name.partition(".")[0] in MODULES:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return theirs if name == "os" else real(name, globals, *rest, **more)

builtins.__import__ = without

# A file that is open cannot be renamed.
replace = os.replace
def closed(source, target, **more):
    for each in os.listdir("/proc/self/fd"):
        try:
            if os.path.samefile(f"/proc/self/fd/{each}", source):
                raise PermissionError(13, "The process cannot access the file because it is being used", str(source))
        except FileNotFoundError:
            pass
    return replace(source, target, **more)
os.replace = closed

# The os that giftrl's modules import; Python's own modules need what it lacks.
LACKS = {"O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_SYNC", "O_DSYNC", "WNOHANG", "sched_getaffinity",
    "getuid", "geteuid", "getgid", "getegid", "sysconf", "sync", "fdatasync", "fork", "forkpty", "killpg", "setsid",
    "getpgid", "getpgrp", "nice", "chown", "fchown", "mkfifo", "mknod", "statvfs", "fstatvfs", "pread",
    "pwrite", "preadv", "pwritev", "posix_fallocate", "posix_fadvise", "sendfile", "memfd_create", "uname",
    "getloadavg", "wait", "openpty", "ttyname"}
theirs = types.ModuleType("os")
vars(theirs).update({name: value for name, value in vars(os).items() if name not in LACKS})
"""

IMPORT_ALL = """
import giftrl
OPTIONAL = {"ray", "fsspec", "river", "starlette", "uvicorn", "httpx", "sklearn", "matplotlib"}
count = 0
for found in pkgutil.walk_packages(giftrl.__path__, "giftrl."):
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in OPTIONAL:
            raise
    count += 1
from giftrl import system
assert system.fcntl is None and not system.can_lock() and system.physical_memory() == 1 << 62
print(count)
"""

COMMANDS = """
from giftrl.cli.commands import main
for arguments in (
    ["train", "rows.svm", "--model", "m.giftrl", "--checkpoint-every", "20", "-p", "p.txt",
     "--on-error", "skip", "--rejects", "r.jsonl"],
    ["train", "rows.svm", "--model", "m2.giftrl", "--from", "m.giftrl", "-p", "p2.txt", "--on-error", "skip"],
    ["predict", "m.giftrl", "rows.svm", "-o", "out.txt", "--on-error", "skip"],
    ["inspect", "m.giftrl", "--json"],
):
    main(arguments, standalone_mode=False)
"""


def run(text, folder):
    environment = os.environ | {"GIFTRL_PLAIN": "1"}
    command = [sys.executable, "-c", LIKE_WINDOWS + text]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="takes away what Linux has, to be like Windows")


@linux_only
def test_every_module_imports_without_what_windows_lacks(tmp_path):
    done = run(IMPORT_ALL, tmp_path)
    assert done.returncode == 0, done.stderr
    source = Path(system.__file__).parent
    assert int(done.stdout) == len([each for each in source.rglob("*.py") if each != source / "__init__.py"])


@linux_only
def test_commands_work_without_it(tmp_path):
    """Models, checkpoints, predictions and skipped rows are the same, and no open file is renamed."""
    for name in ("like", "here"):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "rows.svm", n=60, line="1 x:y")
    done = run(COMMANDS, tmp_path / "like")
    assert done.returncode == 0, done.stderr
    plain = COMMANDS.replace("from giftrl", "import sys\nfrom giftrl", 1)
    command = [sys.executable, "-c", plain]
    here = subprocess.run(
        command, cwd=tmp_path / "here", env=os.environ | {"GIFTRL_PLAIN": "1"}, capture_output=True, text=True
    )
    assert here.returncode == 0, here.stderr
    names = {each.name for each in (tmp_path / "here").iterdir()}
    assert {each.name for each in (tmp_path / "like").iterdir()} == names and "r.jsonl" in names
    for name in names:
        assert (tmp_path / "like" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name


def test_without_locks(monkeypatch, tmp_path):
    monkeypatch.setattr(system, "fcntl", None)
    with (tmp_path / "a").open("wb") as file:
        assert system.lock(file) is None and not system.can_lock()
    leftover = tmp_path / f"{files._prefix(tmp_path / 'b')}{'0' * 16}.tmp"
    leftover.touch()
    files.write(tmp_path / "b", [b"content"])
    assert (tmp_path / "b").read_bytes() == b"content"
    assert leftover.exists()  # it may be in use, and nobody can tell


def test_a_lock_is_kept_until_the_file_is_closed(tmp_path):
    pytest.importorskip("fcntl", reason="this system locks no files")
    with (tmp_path / "a").open("wb") as one, (tmp_path / "a").open("wb") as two:
        assert system.lock(one) is True and system.lock(two) is False
        one.close()
        assert system.lock(two) is True


def test_a_disk_that_cannot_lock(monkeypatch, tmp_path):
    fcntl = pytest.importorskip("fcntl", reason="this system locks no files")

    def fail(*arguments):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", fail)
    with (tmp_path / "a").open("wb") as file:
        assert system.lock(file) is None


def test_without_the_flags_and_questions_of_posix(monkeypatch, tmp_path):
    for name in ("O_NONBLOCK", "O_DIRECTORY", "sched_getaffinity", "sysconf"):
        monkeypatch.delattr(os, name, raising=False)
    (tmp_path / "a").write_bytes(b"content")
    handle = system.open_at_once(tmp_path / "a", os.O_RDONLY)
    assert os.read(handle, 7) == b"content"
    os.close(handle)
    system.sync_folder(tmp_path / "not there")  # nothing is opened
    assert system.cores() == os.cpu_count() and system.physical_memory() == 1 << 62
    assert system.zeros((2, 1)).tolist() == [[0.0], [0.0]]


def test_bytes_are_read_as_they_are(monkeypatch, tmp_path):
    """Loops from the cache, whose files hold any bytes, are opened with the flag that Windows wants."""
    binary, opened, real = 1 << 30, [], os.open
    monkeypatch.setattr(os, "O_BINARY", binary, raising=False)

    def recorded(path, flags, *more, **named):
        opened.append((str(path), flags & binary))
        return real(path, flags & ~binary, *more, **named)

    monkeypatch.setattr(os, "open", recorded)
    monkeypatch.setenv("GIFTRL_CACHE_DIR", str(tmp_path))
    content = b"\r\n\x1a\n" * 3
    object_files.keep("loop_0", "key", object_files.Code(content, "f8"))
    assert object_files.read("loop_0", "key") == object_files.Code(content, "f8")
    assert opened[-1] == (str(object_files.path_of("loop_0")), binary)


@pytest.mark.parametrize(("refusals", "locks"), [(3, False), (1, True), (10**9, False)])
def test_a_file_that_is_open_for_a_moment_is_replaced(monkeypatch, tmp_path, refusals, locks):
    """Windows is asked again for a while, and other systems are not: there it is a matter of permissions."""
    if not locks:
        monkeypatch.setattr(system, "fcntl", None)
    monkeypatch.setattr(system, "REPLACE_SECONDS", 0.3)
    real, asked = os.replace, []

    def refused(source, target, **more):
        asked.append(source)
        if len(asked) <= refusals:
            raise PermissionError(13, "The process cannot access the file because it is being used", str(source))
        return real(source, target, **more)

    (tmp_path / "model").write_bytes(b"earlier")
    monkeypatch.setattr(os, "replace", refused)
    if refusals == 3:
        files.write(tmp_path / "model", [b"content"])
        assert len(asked) == 4
    else:
        with pytest.raises(ModelFileError, match="may not be opened"):
            files.write(tmp_path / "model", [b"content"])
        assert len(asked) == 1 if locks else len(asked) > 3
    assert (tmp_path / "model").read_bytes() == (b"content" if refusals == 3 else b"earlier")


def test_an_address_is_not_shared(monkeypatch):
    """What Windows calls SO_REUSEADDR would let two services listen at one port."""
    monkeypatch.delattr(socket, "SO_EXCLUSIVEADDRUSE", raising=False)
    asked = []
    found = types.SimpleNamespace(setsockopt=lambda *arguments: asked.append(arguments))
    system.claim_address(found)
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    system.claim_address(found)
    assert asked == [(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1), (socket.SOL_SOCKET, -5, 1)]


def test_a_reader_that_ends_first_is_no_trouble(monkeypatch):
    """On Windows, writing to a pipe without a reader is an invalid argument, and so is no message of ours."""
    ended = OSError(errno.EINVAL, "Invalid argument")
    assert not system.nobody_reads(ended)
    monkeypatch.setattr(system, "fcntl", None)
    assert system.nobody_reads(ended)
    assert not system.nobody_reads(OSError(errno.EINVAL, "Invalid argument", "a:b"))

    def fail():
        raise ended

    monkeypatch.setattr("giftrl.cli.commands.settle_output", fail)
    done = CliRunner().invoke(main, ["datasets", "list"])
    assert done.exit_code == 1 and "standard output" not in done.output


# Memory is counted before it is asked for: that of a learner, and that of what is made of it.

KINDS = [
    {"beta": 1.0, "regularizer": name, "dtype": dtype}
    for name in ("squared_norm", "adagrad", "elastic_net", "centred", "curvature")
    for dtype in ("float32", "float64")
] + [{}, {"preset": "light"}, {"loss": "softmax"}, {"loss": "softmax", "beta": 1.0, "regularizer": "curvature"}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_was_counted_is_enough(kind, monkeypatch):
    """The weights, their norm, the certificate, and whether all of it is finite."""
    dimension = 50_000
    recipe = Recipe(**({"loss": "squared"} | kind))
    small = make(recipe, 8, 4)
    assert small.sound and small.x.size == small.certificate.theta.size  # compiled now, which takes memory too
    monkeypatch.setattr(system, "physical_memory", lambda: 0)
    with pytest.raises(InvalidInput, match="GiB"):
        make(recipe, dimension, 4)
    most = 1
    while True:  # the least memory with which the learner is made
        monkeypatch.setattr(system, "physical_memory", lambda most=most: most)
        try:
            learner = make(recipe, dimension, 4)
            break
        except InvalidInput:
            most = int(most * 1.02) + 1
    del learner
    tracemalloc.start()
    learner = make(recipe, dimension, 4)
    made = np.linalg.norm(learner.x) + np.linalg.norm(learner.certificate.theta) + learner.sound
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made == 1.0 and peak <= 1.05 * most + 1e5


def test_thirty_bits_of_curvature_are_refused_with_the_number(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "physical_memory", lambda: 20 << 30)
    rows = write_rows(tmp_path / "rows.svm", n=10)
    done = giftrl("train", rows, "--beta", "1", "--regularizer", "curvature", "--bits", "30", check=False)
    assert done.returncode == 1 and b"needs 36 GiB of memory, and this machine has 20 GiB" in done.stderr, done.stderr
