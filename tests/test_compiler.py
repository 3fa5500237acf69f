"""What a compiled loop is made from: losses of users, the digest, and what is used of Numba."""

import importlib
import operator
import os
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from giftrl import losses
from giftrl.compiled import digest as digest_module
from giftrl.compiled.compiler import ready
from giftrl.compiled.digest import digest
from giftrl.compiled.registry import formula
from giftrl.ops.loss import conjugate, prox, slope, value
from tests.loops import LOSS


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "user_loss.py").write_text(LOSS.replace("FACTOR", "1.0"))
    return tmp_path


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
        digest_module._digest.cache_clear()
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
