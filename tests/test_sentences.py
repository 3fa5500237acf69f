"""Faults of the surroundings end in one sentence, and not in a traceback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from giftrl import files
from tests.commands import GIFTRL, environment, giftrl, write_rows
from tests.test_nothing_lost import refused

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    rows = write_rows(folder / "rows.svm", n=60)
    (folder / "new.vw").write_text("1 |ä ö:3\n-1 |ä ü:4\n")
    giftrl("train", rows, "--beta", "1", "--bits", "6", "--model", folder / "m", "--quiet")
    giftrl("train", folder / "new.vw", "--beta", "1", "--dictionary", "--model", folder / "words", "--quiet")
    return folder


def shell(script, folder, **more):
    """Run a line of bash in which ``giftrl`` is the real command."""
    script = f'giftrl() {{ "{GIFTRL}" "$@"; }}; {script}'
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, env=environment(**more), check=False, timeout=120
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("giftrl predict m rows.svm >&-", "standard output is closed"),
        ("giftrl inspect m >&-", "standard output is closed"),
        ("giftrl inspect m --json >&-", "standard output is closed"),
        ("giftrl train - --format libsvm --beta 1 --bits 6 --quiet <&-", "standard input is closed"),
        ("giftrl predict m rows.svm > /dev/full", "No space left on device"),
        ("giftrl inspect m > /dev/full", "No space left on device"),
        ("giftrl inspect m --json > /dev/full", "No space left on device"),
        ("giftrl train rows.svm --beta 1 --bits 6 --json > /dev/full", "No space left on device"),
        ("giftrl predict m rows.svm -o /dev/full", "the disk is full"),
        ("giftrl train rows.svm --beta 1 --bits 6 --quiet --summary /dev/full", "the disk is full"),
        ("(ulimit -f 1; trap '' XFSZ; giftrl convert rows.svm big.arrow)", "larger than this system lets a file be"),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_streams_that_are_closed_or_full(script, words, unbuffered, folder):
    if "/dev/full" in script and not Path("/dev/full").is_char_device():
        pytest.skip("there is no /dev/full here")
    before = sorted(folder.iterdir())
    done = shell(script, folder, PYTHONUNBUFFERED=unbuffered)
    said = done.stderr.decode()
    assert done.returncode == 1, said
    assert words in said and "Traceback" not in said and said.strip().count("\n") == 0, said
    assert sorted(folder.iterdir()) == before


def test_nothing_goes_to_a_file_that_takes_the_place_of_a_closed_stream(folder):
    done = shell("giftrl train rows.svm --beta 1 --bits 6 --summary s.json 2>&- && cat s.json; rm s.json", folder)
    assert json.loads(done.stdout)["examples"] == 60


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_of_a_narrow_encoding(encoding, folder):
    done = shell("giftrl inspect words && giftrl predict words new.vw", folder, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr.decode()
    assert "largest weights" in done.stdout.decode(encoding)


def test_json_has_no_infinity(folder):
    (folder / "big.svm").write_text("1 1:1e200\n-1 1:1e200\n")
    done = shell("giftrl train big.svm --loss squared --beta 1 --bits 4 --json", folder)
    json.loads(done.stdout or b"{}", parse_constant=lambda name: pytest.fail(name))
    (folder / "big.svm").unlink()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("train rows.svm --bits 30", "GiB"),
        ("train rows.svm --bits 30 --beta 1 --dtype float64 --loss softmax --labels 0..9", "GiB"),
        ("train rows.svm --loss softmax --labels 0..99999", "GiB"),
        ("train rows.svm --loss softmax --labels 0..999999999", "1000000000 labels"),
        ("sweep rows.svm --betas 1:2:1000000000", "must have at most 10000"),
    ],
)
def test_memory_is_refused_before_it_is_asked_for(arguments, words, folder):
    done = giftrl(*(folder / each if each == "rows.svm" else each for each in arguments.split()), check=False)
    said = done.stderr.decode()
    assert done.returncode in (1, 2) and words in said and "Traceback" not in said, said


def test_a_small_file_that_claims_much_memory(folder, tmp_path):
    from giftrl.models import load, save

    giftrl("train", folder / "rows.svm", "--bits", "6", "--model", tmp_path / "m", "--quiet")
    arrays, header = load(tmp_path / "m")
    header["settings"]["bits"] = 30
    header["features"]["bits"] = 30
    save(tmp_path / "m", arrays, header)
    assert "GiB" in refused(tmp_path, "inspect", tmp_path / "m")


def test_a_sweep_without_matplotlib_says_so_first(folder):
    script = (
        "import sys; sys.modules['matplotlib'] = None; sys.meta_path.insert(0, type('No', (), {'find_spec': "
        "staticmethod(lambda name, *_: None)})); from giftrl.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "sweep", str(folder / "rows.svm"), "--out", str(folder / "out")],
        capture_output=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 1 and b"figures need Matplotlib" in done.stderr and not (folder / "out").exists()


def inspect_by(script, folder):
    """Run a script of Python with the arguments of ``giftrl inspect``."""
    command = [sys.executable, "-c", script, "inspect", str(folder / "m")]
    return subprocess.run(command, capture_output=True, env=environment(), check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_options_are_parsed_is_one_too(number, folder):
    script = (
        "import os, sys; from giftrl.cli import main; import click; parse = click.Group.make_context\n"
        f"def stop(*given, **more): os.kill(os.getpid(), {int(number)}); return parse(*given, **more)\n"
        "click.Group.make_context = stop; main()"
    )
    done = inspect_by(script, folder)
    assert done.returncode == 128 + number and b"Abort" not in done.stderr and b"Traceback" not in done.stderr, done


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_objects_that_a_signal_leaves_half_made_do_not_complain(number, folder):
    """A library's __del__ may fail on an object whose __init__ the exception of a signal ended."""
    script = (
        "import os, sys; from giftrl.cli import main; import click; parse = click.Group.make_context\n"
        "class Half:\n"
        f"    def __init__(self): os.kill(os.getpid(), {int(number)}); self.rest = 1\n"
        "    def __del__(self): self.rest\n"
        "click.Group.make_context = lambda *given, **more: (Half(), parse(*given, **more))[1]; main()"
    )
    done = inspect_by(script, folder)
    assert (done.returncode, done.stderr) == (128 + number, b""), done


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [1.0, 2.0])
def test_an_interrupted_command_leaves_nothing_behind(number, seconds, folder, tmp_path):
    (tmp_path / "m").write_bytes(b"yesterday")
    command = [GIFTRL, "train", "-", "--format", "libsvm", "--beta", "1", "--on-error", "skip"]
    command += ["--model", tmp_path / "m", "--summary", tmp_path / "s", "--rejects", tmp_path / "r", "--quiet"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(list(map(str, command)), **pipes, env=environment(), start_new_session=True)
    time.sleep(seconds)
    os.kill(process.pid, number)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode in (130, 143, -number) and "Traceback" not in said, said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"m": b"yesterday"}


def test_nothing_is_put_in_place_after_a_signal_whose_exception_was_lost(tmp_path, monkeypatch):
    """C code may clear the exception of a signal handler, and the command goes on."""
    write_rows(tmp_path / "rows.svm", n=20)
    (tmp_path / "m").write_bytes(b"yesterday")
    monkeypatch.setattr(files, "EXIT_REQUESTS", [143])
    options = "--beta", "1", "--model", tmp_path / "m", "-p", tmp_path / "p", "--quiet"
    assert giftrl("train", tmp_path / "rows.svm", *options, check=False).returncode == 143
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "rows.svm"]
    assert (tmp_path / "m").read_bytes() == b"yesterday"
