"""The processor that loops are compiled for."""

import functools
import platform
from typing import Any

import numpy as np

#: Most processors made since 2013. Loops are compiled for this level wherever the processor has it, and not for the
#: very processor: results then have the same bits on all these machines, and measured speed was the same or better.
LEVEL = "x86-64-v3"
FEATURES = "+cx16,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"

#: What NumPy calls the parts of the level that tell it from lower ones; recent versions also name the level itself.
TELLING = ("AVX2", "FMA3", "F16C")


@functools.cache
def target() -> tuple[str, str]:
    """The name and the features of the processor to compile for."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        core: Any = np._core if hasattr(np, "_core") else np.core
        known = core._multiarray_umath.__cpu_features__
        if known.get("X86_V3") or all(known.get(feature) for feature in TELLING):
            return LEVEL, FEATURES
    if platform.machine().lower() in ("aarch64", "arm64"):
        return "generic", "+fp-armv8,+neon"  # every processor of that kind has these
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


@functools.cache
def machine() -> Any:
    """LLVM's description of the processor, which writes code that may lie anywhere in memory."""
    from llvmlite import binding

    start()
    name, features = target()
    kind = binding.Target.from_triple(binding.get_process_triple())
    return kind.create_target_machine(cpu=name, features=features, opt=3, reloc="pic", codemodel="default")


def start() -> None:
    """Tell LLVM which processor it is to write for."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
