"""Model files: what is saved comes back bit for bit, and nothing else ever does."""

import errno
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from giftrl.errors import InvalidInput, ModelFileError
from giftrl.files import write
from giftrl.models import load, save
from tests.fixtures.models.make import V1, V2, kinds
from tests.model_files import arrays_strategy, deep, headers, same


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def temporaries(folder):
    return [path.name for path in Path(folder).iterdir() if path.name.startswith(".giftrl-")]


# What is saved comes back ---------------------------------------------------------------------------------------------


@given(arrays=arrays_strategy, header=headers)
@example(arrays={}, header={})
def test_round_trip(folder, arrays, header):
    path = folder / "round-trip.giftrl"
    save(path, arrays, header)
    back, settled = load(str(path))
    assert same(dict(sorted(arrays.items())), back) and same(header, settled)
    assert list(back) == sorted(arrays)
    assert all(a.flags.writeable and a.flags.aligned and a.flags.c_contiguous for a in back.values())


@given(arrays=arrays_strategy, header=headers)
def test_files_are_safetensors_to_others(folder, arrays, header):
    path = folder / "theirs.giftrl"
    save(path, arrays, header)
    assert same(arrays, safetensors.numpy.load_file(path))
    with safetensors.safe_open(path, "np") as file:
        told = json.loads(file.metadata()["giftrl"])
    assert (told["format"], told["version"]) == ("giftrl-model", 2)


@settings(max_examples=30)
@given(arrays=arrays_strategy, header=headers, data=st.data())
def test_same_contents_same_bytes(folder, arrays, header, data):
    paths = folder / "a.giftrl", folder / "b.giftrl"
    save(paths[0], arrays, header)
    shuffled = dict(data.draw(st.permutations(list(arrays.items()))))
    save(paths[1], shuffled, dict(data.draw(st.permutations(list(header.items())))))
    assert paths[0].read_bytes() == paths[1].read_bytes()
    save(paths[1], *load(paths[0]))
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_same_contents_same_bytes_in_another_process(folder):
    code = "import sys; from tests.fixtures.models.make import kinds, save; save(sys.argv[1], *kinds())"
    for seed in "12":
        path = folder / f"{seed}.giftrl"
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", code, str(path)], check=True, env=environment, cwd=Path(__file__).parents[1]
        )
        assert path.read_bytes() == V2.read_bytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4)[:, ::2, 1:],
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(5, dtype=">i4"),
        np.arange(5.0)[::-1],
        np.ma.masked_array([1.0, 2.0], [True, False]),
        [1.0, 2.0],
        np.float32(3.0),
    ],
    ids=["strided", "fortran", "big-endian", "reversed", "masked", "list", "scalar"],
)
def test_any_layout_is_saved_by_its_values(folder, array):
    save(folder / "layout.giftrl", {"x": array}, {})
    back = load(folder / "layout.giftrl")[0]["x"]
    np.testing.assert_array_equal(back, np.asarray(array))
    assert back.shape == np.shape(array) and back.dtype.isnative


def test_loaded_arrays_share_nothing_with_the_file_or_each_other(folder):
    path = folder / "own.giftrl"
    save(path, {"a": np.zeros(4), "b": np.zeros(4)}, {})
    before = path.read_bytes()
    arrays, _ = load(path)
    arrays["a"][:] = 1.0
    assert (arrays["b"] == 0.0).all() and path.read_bytes() == before
    path.write_bytes(b"")
    assert (arrays["a"] == 1.0).all()


@pytest.mark.parametrize("path", [V1, V2], ids=["version 1", "version 2"])
def test_the_fixtures_load_for_ever(path):
    arrays, header = load(path)
    expected, settings = kinds()
    assert same(dict(sorted(expected.items())), arrays) and same(settings, header)


# What cannot be saved -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "header", "argument"),
    [
        ({"x": np.array([object()])}, {}, "arrays['x']"),
        ({"x": np.array(["a"])}, {}, "arrays['x']"),
        ({"x": np.array([1j])}, {}, "arrays['x']"),
        ({"x": np.array([True])}, {}, "arrays['x']"),
        ({"x": np.zeros(2, "f4,i4")}, {}, "arrays['x']"),
        ({"x": np.array(["2020-01-01"], "M8[D]")}, {}, "arrays['x']"),
        ({"x": np.zeros((1,) * 33)}, {}, "arrays['x']"),
        ({"__metadata__": np.zeros(1)}, {}, "arrays"),
        ({"\ud800": np.zeros(1)}, {}, "arrays"),
        ({3: np.zeros(1)}, {}, "arrays"),
        ([np.zeros(1)], {}, "arrays"),
        ({}, [], "header"),
        ({}, {"a": (1, 2)}, "header['a']"),
        ({}, {"a": [1, {2}]}, "header['a'][1]"),
        ({}, {"a": np.zeros(2)}, "header['a']"),
        ({}, {"a": b"bytes"}, "header['a']"),
        ({}, {1: 2}, "header"),
        ({}, {"$float": "inf"}, "header"),
        ({}, {"a": 2**2048}, "header['a']"),
        ({}, {"a": "x" * (1 << 23)}, "header"),
        ({}, deep(70), "header" + "['x']" * 65),
    ],
)
def test_what_a_file_cannot_hold_is_refused_and_nothing_is_written(tmp_path, arrays, header, argument):
    with pytest.raises(InvalidInput) as caught:
        save(tmp_path / "a.giftrl", arrays, header)
    assert caught.value.argument == argument and caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_settings_up_to_the_limits_are_kept(folder):
    header = {"deep": deep(60), "long": -(2**2047), "text": "x" * (1 << 22), "number": np.float64(0.1)}
    save(folder / "limits.giftrl", {}, header)
    assert load(folder / "limits.giftrl")[1] == header


# A save that fails ----------------------------------------------------------------------------------------------------

OLD, NEW = {"x": np.arange(10.0)}, {"x": np.arange(100_000.0)}


@pytest.fixture
def earlier(tmp_path):
    """A file that a failing save must leave as it is."""
    path = tmp_path / "model.giftrl"
    save(path, OLD, {"which": "old"})
    yield path
    arrays, header = load(path)
    assert same(arrays, OLD) and header == {"which": "old"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.giftrl"]


def failing(number):
    """A call that fails like the system does."""

    def call(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize(
    ("where", "number", "says"),
    [
        ("os.fsync", errno.EIO, "Input/output error"),
        ("os.fsync", errno.ENOSPC, "disk is full"),
        ("pathlib.Path.chmod", errno.EPERM, "permissions"),
        ("pathlib.Path.open", errno.EROFS, "cannot be written to"),
        ("pathlib.Path.open", errno.EMFILE, "Too many open files"),
        ("pathlib.Path.replace", errno.EBUSY, "busy"),
    ],
)
def test_a_failing_system_leaves_the_earlier_file(earlier, monkeypatch, where, number, says):
    with monkeypatch.context() as patch:
        patch.setattr(where, failing(number))
        with pytest.raises(ModelFileError, match=says) as caught:
            save(earlier, NEW, {"which": "new"})
    assert caught.value.path == str(earlier) and isinstance(caught.value.__cause__, OSError)


def test_a_file_larger_than_the_system_allows(earlier):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(ModelFileError, match="larger than this system lets a file be"):
            save(earlier, NEW, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interruption_leaves_the_earlier_file(earlier, monkeypatch, stop):
    def interrupted(*args):
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(stop):
            save(earlier, NEW, {})


WRITER = (
    "import sys, time; from giftrl.files import Output\n"
    "with Output(sys.argv[1]) as output:\n"
    "    output.write(b'half'); print('writing', flush=True); time.sleep(600)\n"
)


def test_leftovers_of_killed_processes_are_removed_and_those_of_living_ones_stay(tmp_path):
    path, other = tmp_path / "model.giftrl", tmp_path / "model.giftrl.checkpoint"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, target], stdout=subprocess.PIPE, text=True)
        for target in (path, path, other)
    ]
    try:
        for writer in writers:
            assert writer.stdout.readline() == "writing\n"
        assert len(temporaries(tmp_path)) == 3
        save(path, OLD, {})
        assert len(temporaries(tmp_path)) == 3  # all of them live
        for writer in writers[1:]:
            writer.kill()
            writer.wait()
        assert len(temporaries(tmp_path)) == 3
        save(path, NEW, {})
        assert same(load(path)[0], NEW) and len(temporaries(tmp_path)) == 2  # one lives, one is of another target
        write(other, [b"whole"])
        assert len(temporaries(tmp_path)) == 1
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    save(path, OLD, {})
    assert temporaries(tmp_path) == []


def test_long_names_and_names_that_look_like_leftovers(tmp_path):
    for name in ("x" * 255, "é" * 127, "a", "a-b"):
        write(tmp_path / name, [b"1"])
    (tmp_path / f".giftrl-a-b-{'0' * 16}.tmp").touch()
    (tmp_path / ".giftrl-a-notes.tmp").touch()
    write(tmp_path / "a", [b"2"])
    assert sorted(temporaries(tmp_path)) == [f".giftrl-a-b-{'0' * 16}.tmp", ".giftrl-a-notes.tmp"]


def test_a_folder_that_cannot_be_flushed(tmp_path, monkeypatch):
    real = os.fsync
    for number, known in ((errno.EINVAL, True), (errno.EIO, False)):

        def fsync(handle, number=number):
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError(number, os.strerror(number))
            return real(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            if known:
                save(tmp_path / "a", NEW, {})
            else:
                with pytest.raises(ModelFileError, match="is written, but a power cut may undo that"):
                    save(tmp_path / "a", NEW, {})
        assert same(load(tmp_path / "a")[0], NEW) and temporaries(tmp_path) == []


def test_the_file_is_on_the_disk_before_it_has_its_name_and_the_folder_after(tmp_path, monkeypatch):
    seen = []
    real, replace = os.fsync, Path.replace

    def fsync(handle):
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else os.fstat(handle).st_size)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", lambda self, target: (seen.append("name"), replace(self, target))[1])
    save(tmp_path / "a", OLD, {})
    assert seen == [(tmp_path / "a").stat().st_size, "name", "folder"]


def test_places_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, says in {
        "missing/a.giftrl": "missing, which does not exist; create it",
        "folder": "is a folder; give the name of a file in it",
        "file/a.giftrl": "below something that is not a folder",
        "pipe": "is a device or a pipe",
        "x" * 300: "has too long a name",
        "a\0b": "is not the name of a file",
        "\ud800": "is not the name of a file",
        "loop": "leads back to itself",
    }.items():
        with pytest.raises(ModelFileError) as caught:
            save(f"{tmp_path}/{name}", OLD, {})
        assert says in str(caught.value)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "loop", "pipe"]
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.fixture
def plain_user():
    """A folder of a user whom permissions bind; root is made one for the while."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, -1)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_permissions(plain_user):
    path = plain_user / "a.giftrl"
    save(path, OLD, {})
    path.chmod(0o444)
    with pytest.raises(ModelFileError, match="is read-only"):
        save(path, NEW, {})
    path.chmod(0o640)
    plain_user.chmod(0o500)
    for name in ("a.giftrl", "b.giftrl"):
        with pytest.raises(ModelFileError, match="which may not be written to"):
            save(plain_user / name, NEW, {})
    plain_user.chmod(0o300)  # a folder that can be written to and not listed
    save(path, NEW, {})
    plain_user.chmod(0o700)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert same(load(path)[0], NEW) and temporaries(plain_user) == []
    path.chmod(0)
    with pytest.raises(ModelFileError, match="may not be opened"):
        load(path)


def test_a_new_file_has_the_permissions_of_new_files(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    save(tmp_path / "a", OLD, {})
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/model")
    for arrays in (OLD, NEW):
        save(tmp_path / "link", arrays, {})
        assert (tmp_path / "link").is_symlink() and same(load(tmp_path / "there" / "model")[0], arrays)


def test_readers_and_writers_at_once_see_whole_files(tmp_path):
    path = tmp_path / "busy"
    contents = [{"x": np.full(1000, float(i))} for i in range(3)]
    save(path, contents[0], {"i": 0})
    problems = []

    def work(i):
        try:
            for _ in range(30):
                save(path, contents[i], {"i": i})
                arrays, header = load(path)
                assert same(arrays, contents[header["i"]])
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == [] and temporaries(tmp_path) == []
