"""Compiled loops: shared by processes as object files, never stale; and the private names of Numba that they use."""

import hashlib
import importlib
import json
import operator
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
import types
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from giftrl import losses
from giftrl.compiled import compiler, object_files
from giftrl.compiled.compiler import digest, ready, spell
from giftrl.compiled.registry import formula
from giftrl.mixtures.round import learn_mixture
from giftrl.ops.loss import conjugate, prox, slope, value
from tests.commands import giftrl

SCRIPT = """
import json, sys, warnings
import numpy as np

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from giftrl.compiled.compiler import ready
    from user_loss import Scaled, both

    # before
    out = np.zeros(2)
    for _ in range(2):
        ready(both)(Scaled(), 3.0, 0.0, out)
    found = {"out": out.tolist(), "warnings": [str(w.message) for w in caught], "numba": "numba" in sys.modules}
print(json.dumps(found))
"""


def start(folder: Path, cache: Path, before: str = "", **extra: str) -> subprocess.Popen:
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "GIFTRL_CACHE_DIR": str(cache), "PYTHONPATH": paths, **extra}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.replace("# before", before)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "user_loss.py").write_text(LOSS.replace("FACTOR", "1.0"))
    return tmp_path


def test_processes_share_compiled_loops_and_an_edited_loss_is_not_stale(folder):
    cache = folder / "cache"
    # Three at once on an empty cache: one compiles, and the others wait for it.
    together = [finish(process) for process in [start(folder, cache) for _ in range(3)]]
    assert sum(run.pop("numba") for run in together) == 1
    assert together == [{"out": [3.0, 1.0], "warnings": []}] * 3
    (kept,) = cache.glob("*.loop")
    written = kept.stat().st_mtime_ns
    assert finish(start(folder, cache)) == {"out": [3.0, 1.0], "warnings": [], "numba": False}
    assert [path.stat().st_mtime_ns for path in cache.glob("*.loop")] == [written]
    # Python takes a file of the same second and size for one that it knows: the edit changes the size.
    (folder / "user_loss.py").write_text(LOSS.replace("FACTOR", "2.00"))
    assert finish(start(folder, cache)) == {"out": [6.0, 2.0], "warnings": [], "numba": True}


def test_a_line_says_what_is_compiled_and_how_long_it_takes(folder):
    said = []
    for _ in range(2):
        speak = "from giftrl.compiled import compiler; compiler.speaking[0] = True"
        process = start(folder, folder / "cache", speak)
        said.append(process.communicate(timeout=300)[1])
    assert said == ["giftrl: compiling both for Scaled (about 4 s, once)\n", ""]


def test_a_quiet_command_keeps_the_compiler_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "speaking", [True])
    (tmp_path / "a.svm").write_text("1 1:1\n")
    giftrl("convert", tmp_path / "a.svm", tmp_path / "a.arrow")
    assert compiler.speaking == [True]
    giftrl("convert", tmp_path / "a.svm", tmp_path / "b.arrow", "--quiet")
    assert compiler.speaking == [False]


def test_another_compiler_keeps_files_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("GIFTRL_CACHE_DIR", str(tmp_path))
    ours = object_files.path_of("loop_0")
    monkeypatch.setattr(object_files, "_compiler", lambda: "another")
    assert object_files.path_of("loop_0") != ours


def test_a_file_edited_since_this_process_began_is_compiled_for_this_process_only(folder):
    """It may have been edited since it was imported, and the next process would take the old code for the new."""
    cache = folder / "cache"
    late = "import user_loss, pathlib; pathlib.Path(user_loss.__file__).touch()"
    run = finish(start(folder, cache, late))
    assert run == {"out": [3.0, 1.0], "warnings": [], "numba": True}
    assert not list(cache.glob("*.loop"))
    assert finish(start(folder, cache))["numba"]
    assert len(list(cache.glob("*.loop"))) == 1


def test_functions_without_a_file_are_compiled_for_this_process_only(tmp_path, monkeypatch):
    monkeypatch.setenv("GIFTRL_CACHE_DIR", str(tmp_path))
    module = types.ModuleType("generated")
    monkeypatch.setitem(sys.modules, "generated", module)
    results = []
    for factor in (2.0, 3.0):
        source = LOSS.replace("FACTOR", str(factor))
        exec(compile(source, "<generated>", "exec"), vars(module))
        out = np.zeros(2)
        ready(module.both)(module.Scaled(), 3.0, 1.0, out)
        results.append(out.tolist())
    assert results == [[4.0, 2.0], [6.0, 3.0]] and not list(tmp_path.glob("*.loop"))


def test_the_digest_is_the_same_in_every_python_and_numpy():
    """A wheel is built with one Python and one NumPy, and used with others."""
    loop, args = learn_mixture, (losses.Logistic(),)
    expected = compiler.digest(loop, args)
    compiler._digest.cache_clear()
    with np.printoptions(legacy="1.25"):
        assert compiler.digest(loop, args) == expected
    walk = compiler._Walk()
    walk.function(loop)
    package = Path(object_files.__file__).parents[1]
    assert walk.files and all(Path(file).is_relative_to(package) for file in walk.files)


def test_a_link_in_the_folder_is_replaced_and_what_it_leads_to_stays(folder):
    cache = folder / "cache"
    finish(start(folder, cache))
    (kept,) = cache.glob("*.loop")
    mine = folder / "mine.txt"
    mine.write_text("not a loop")
    good = kept.rename(folder / "good.loop")
    for target in (mine, good):
        kept.unlink(missing_ok=True)
        kept.symlink_to(target)
        run = finish(start(folder, cache))
        assert run["out"] == [3.0, 1.0] and run["numba"] and str(kept) in run["warnings"][0]
        assert mine.read_text() == "not a loop" and not kept.is_symlink()
    assert finish(start(folder, cache)) == {"out": [3.0, 1.0], "warnings": [], "numba": False}


def test_a_file_that_others_can_write_to_is_not_run(folder):
    cache = folder / "cache"
    finish(start(folder, cache))
    (kept,) = cache.glob("*.loop")
    kept.chmod(0o666)
    run = finish(start(folder, cache))
    assert run["numba"] and "others can write to it" in run["warnings"][0]
    assert not kept.stat().st_mode & 0o022


def unlinkable(content: bytes) -> bytes:
    """A file whose checksum is right and whose code is not."""
    head = json.loads(content.partition(b"\n")[0])
    return json.dumps(head | {"sha256": hashlib.sha256(b"no code").hexdigest()}).encode() + b"\nno code"


DAMAGES = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "of another loop": lambda content: content.replace(b"user_loss.both", b"user_loss.two", 1),
    "no loop": lambda content: b"[1, 2]\nwhatever",
    "cannot be linked": unlinkable,
}


def test_a_damaged_file_is_compiled_again_and_replaced(folder):
    cache = folder / "cache"
    finish(start(folder, cache))
    (kept,) = cache.glob("*.loop")
    good = kept.read_bytes()
    for name, damage in DAMAGES.items():
        kept.write_bytes(damage(good))
        run = finish(start(folder, cache))
        assert run["out"] == [3.0, 1.0], name
        (message,) = run["warnings"]
        assert str(kept) in message and "damaged" in message, name
        assert finish(start(folder, cache)) == {"out": [3.0, 1.0], "warnings": [], "numba": False}, name


def test_without_a_place_to_write_every_process_compiles_and_says_so(folder):
    (folder / "file").write_text("not a folder")
    run = finish(start(folder, folder / "file" / "cache"))
    assert run["out"] == [3.0, 1.0]
    (message,) = run["warnings"]
    assert "GIFTRL_CACHE_DIR" in message


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")
def test_code_of_another_user_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("GIFTRL_CACHE_DIR", str(tmp_path))
    object_files.keep("loop_1", "key", object_files.Code(b"code", "d"))
    assert object_files.read("loop_1", "key") == (b"code", "d")
    monkeypatch.setattr(object_files, "trusted_users", lambda: (12345,))
    with pytest.warns(UserWarning, match="another user"):
        assert object_files.read("loop_1", "key") is None


def test_a_user_without_a_home_is_told(monkeypatch):
    for name in ("GIFTRL_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert object_files.read("loop_1", "key") is None
    with pytest.warns(UserWarning, match="no home.*GIFTRL_CACHE_DIR"):
        object_files.keep("loop_1", "key", object_files.Code(b"code", "d"))


class Logistic(NamedTuple):
    """Has the name of our loss, and is another one."""

    def value(self, p, y):
        return 7.0


@formula
def value_of(loss, x):
    return value(loss, x[0], x[1])


def test_a_class_of_the_same_name_in_another_module_is_another_kind():
    x = np.array([0.0, 1.0])
    assert ready(value_of)(losses.Logistic(), x) == pytest.approx(np.log(2.0))
    assert ready(value_of)(Logistic(), x) == 7.0
    assert spell(Logistic()) != spell(losses.Logistic())


@formula
def one_of(which, x):
    return x[which]


@formula
def several(x):
    return len(x), x[0] > 0.0, x[0]


@formula
def nothing(x):
    x[0] += 1.0


def test_results_are_the_numbers_of_plain_python():
    for kind in (np.int32, np.uint8, np.uint64, np.int64, np.float32, np.float64, np.bool_):
        x = np.array([0, 1, 0]).astype(kind)
        wide = (x[::2] if kind is not np.bool_ else x)[:2]  # strides
        for array in (x, wide):
            got, expected = ready(one_of)(1, array), one_of(1, array).item()
            assert (got, type(got)) == (expected, type(expected)), kind
    assert ready(one_of)(0, np.array([2**64 - 1], np.uint64)) == 2**64 - 1
    x = np.array([2.5, 1.0])
    assert ready(several)(x) == (2, True, 2.5)
    assert ready(nothing)(x) is None and x[0] == 3.5
    x.setflags(write=False)
    assert ready(several)(x) == (2, True, 3.5)


@formula
def spin(n, out):
    s = 0.0
    for i in range(n):
        s = s * 0.999 + out[i % 3]
    out[0] = s


def test_other_threads_run_while_a_loop_runs():
    out = np.ones(3)
    run = ready(spin)
    run(3, out)
    thread = threading.Thread(target=run, args=(300_000_000, out))
    thread.start()
    ticks = 0
    while thread.is_alive() and ticks < 20:
        time.sleep(0.001)
        ticks += 1
    assert ticks == 20
    thread.join()


@formula
def fails(x):
    if x[0] > 0.0:
        raise ValueError("too large")
    return 1.0


def test_a_loop_that_raises_says_how_to_see_the_error():
    assert ready(fails)(np.zeros(1)) == 1.0
    with pytest.raises(RuntimeError, match="fails.*GIFTRL_PLAIN"):
        ready(fails)(np.ones(1))


@formula
def flat(x):
    return x.reshape(-1)[3]


def test_what_only_numba_can_run_is_run_by_numba(tmp_path, monkeypatch):
    monkeypatch.setenv("GIFTRL_CACHE_DIR", str(tmp_path))
    assert ready(flat)(np.arange(6.0).reshape(2, 3)) == 3.0  # reshape calls a function of Numba's
    assert not any(tmp_path.glob("*.loop"))


@formula
def first(x):
    """The first number of a matrix."""
    return x[0, 0]


def test_kinds_that_differ_in_nothing_that_matters_have_one_entry(tmp_path, monkeypatch):
    monkeypatch.setenv("GIFTRL_CACHE_DIR", str(tmp_path))
    loop, before = ready(first), len(object_files.LINKED)
    column, both = np.ones((4, 4)), np.ones((1, 4))  # contiguous in C's order, and in both orders
    assert [loop(column), loop(both), loop(column)] == [1.0] * 3
    assert len(object_files.LINKED) == before + 1 and len(list(tmp_path.glob("*.loop"))) == 1


LOSS = '''
from typing import NamedTuple

from giftrl.compiled.registry import formula
from giftrl.ops.loss import slope, value


class Scaled(NamedTuple):
    """A loss of the user's own: value and slope, nothing else."""

    def value(self, p, y):
        return FACTOR * abs(p - y)

    def slope(self, p, y):
        return FACTOR * ((p > y) - (p < y))


@formula
def both(loss, p, y, out):
    """Three lines compile in a second, where a loop over rows takes ten."""
    out[0] = value(loss, p, y)
    out[1] = slope(loss, p, y)
'''


@formula
def every_operation(loss, p, y, c, out):
    for i in range(len(p)):
        out[i, 0] = value(loss, p[i], y[i])
        out[i, 1] = slope(loss, p[i], y[i])
        out[i, 2] = prox(loss, p[i], y[i], c[i])
        out[i, 3] = conjugate(loss, out[i, 2], y[i])


def test_a_loss_of_the_users_own_runs_compiled_as_in_plain_python():
    class Half(losses.Squared):
        """Not importable by name from another process: compiled for this one."""

        def value(self, p, y):
            return 0.25 * (p - y) * (p - y)

        def slope(self, p, y):
            return 0.5 * (p - y)

        def conjugate(self, a, y):
            return a * (a + y)

        def prox(self, p, y, c):
            return 0.5 * (p - y) / (1.0 + 0.5 * c)

    p, y, c = np.random.default_rng(0).normal(size=(3, 50))
    found = [np.zeros((50, 4)) for _ in range(2)]
    for out, compiled in zip(found, (True, False), strict=True):
        ready(every_operation, compiled)(Half(), p, y, np.abs(c), out)
    np.testing.assert_allclose(*found, atol=1e-14)
    assert found[0][:, 0] == pytest.approx(0.25 * (p - y) ** 2)
    assert digest(every_operation, (Half(),))[1] is False


def test_the_digest_sees_the_file_of_a_users_loss(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    os.utime(folder / "user_loss.py", (1e9, 1e9))  # long before this process began
    import user_loss

    before = digest(every_operation, (user_loss.Scaled(),))
    assert before[1] is True
    (folder / "user_loss.py").write_text(LOSS.replace("FACTOR", "3.0"))
    importlib.reload(user_loss)
    after = digest(every_operation, (user_loss.Scaled(),))
    assert after[0] != before[0] and after[1] is False


def test_the_digest_sees_constants_and_functions_of_other_modules(tmp_path, monkeypatch):
    (tmp_path / "far_module.py").write_text("STEP = 1.0\n\ndef grow(x):\n    return x + STEP\n")
    (tmp_path / "near_module.py").write_text(
        "import far_module\nfrom far_module import STEP\n\ndef loop(x):\n    return far_module.grow(x) * STEP\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import far_module
    import near_module

    def seen():
        compiler._digest.cache_clear()
        return digest(near_module.loop)[0]

    before = seen()
    assert seen() == before
    monkeypatch.setattr(near_module, "STEP", 2.0)
    assert seen() != before
    monkeypatch.setattr(near_module, "STEP", 1.0)
    assert seen() == before
    monkeypatch.setattr(far_module, "STEP", 2.0)
    assert seen() != before
    monkeypatch.setattr(far_module, "STEP", 1.0)
    (tmp_path / "far_module.py").write_text("STEP = 1.0\n\ndef grow(x):\n    return x - STEP\n")
    assert seen() != before


# What is used of Numba though Numba does not promise it ---------------------------------------------------------------

#: Names that Numba does not document, by module: pyproject.toml allows only versions in which they were seen to work.
PRIVATE = {
    "numba.core.compiler": ["Flags.no_compile", "Flags.nrt", "compile_extra"],
    "numba.core.compiler_lock": ["global_compiler_lock"],
    "numba.core.registry": ["cpu_target.options.parse_as_flags", "cpu_target.target_context"],
    "numba.core.codegen": ["CPUCodeLibrary.finalize", "CPUCodeLibrary.get_llvm_str"],
    "numba.core.options": ["DefaultOptions._nrt", "DefaultOptions.forceinline"],
    "numba.core.cgutils": [
        *("get_item_pointer", "get_null_value", "get_or_insert_function", "if_likely", "normalize_ir_text"),
        "pack_array",
    ],
    "numba.core.datamodel.models": ["PrimitiveModel"],
    "numba.core.base": [
        *("BaseContext.create_module", "BaseContext.declare_function", "BaseContext.make_tuple"),
        *("BaseContext.get_abi_sizeof", "BaseContext.get_data_type"),
        *("BaseContext.cast", "BaseContext.get_dummy_value", "BaseContext.get_value_type", "BaseContext.make_array"),
    ],
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in PRIVATE.items() for name in names])
def test_the_private_names_of_numba_are_there(module, name):
    assert operator.attrgetter(name)(importlib.import_module(module)) is not None


def test_the_private_attributes_of_numba_are_there():
    from numba import typeof
    from numba.core.registry import cpu_target

    assert typeof(losses.Logistic()).instance_class is losses.Logistic  # how operations find the class of a member
    assert cpu_target.target_context.codegen()._tm is not None  # for which Numba optimizes


def test_the_versions_of_numba_that_are_allowed_have_an_end():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (rule,) = [rule for rule in project["dependencies"] if rule.startswith("numba")]
    assert re.fullmatch(r"numba>=0\.\d+,<0\.\d+", rule)
