"""Build hook: a wheel for this platform brings the usual loops as a library, so that nobody waits for a compiler.

It is asked for with ``GIFTRL_WHEEL_LOOPS=1``, as ``make wheel`` does, and takes some minutes; the names of some losses
in place of 1 stand for those losses only. Without that, without a C compiler to link with, or for an editable install,
the wheel is pure Python and loops are compiled when first used.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "giftrl/compiled/library"


class UsualLoops(BuildHookInterface):
    """Compiles the usual loops by using them, and links the object files into one library."""

    folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        asked = os.environ.get("GIFTRL_WHEEL_LOOPS", "")
        compiler = [*shlex.split(os.environ.get("CC", "")), "cc"][0]
        if version == "editable" or asked in ("", "0") or shutil.which(compiler) is None:
            return
        self.folder = folder = Path(tempfile.mkdtemp())
        source = str(Path(self.root, "src"))
        wanted = [] if asked == "1" else asked.split()  # all losses, or those of these names
        command = [sys.executable, str(Path(self.root, "usual_loops.py")), *wanted, "--to", str(folder)]
        try:
            subprocess.run(command, env=os.environ | {"PYTHONPATH": source, "GIFTRL_PLAIN": "0"}, check=True)
            self.link(compiler, folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
        for name in ("loops.so", "index.json"):
            build_data["force_include"][str(folder / name)] = f"{PLACE}/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel now holds."""
        if self.folder is not None:
            shutil.rmtree(self.folder)

    def link(self, compiler: str, folder: Path) -> None:
        """Link the loops in a folder: the first line of each file describes it, and the object file follows."""
        index = {}
        for path in sorted(folder.glob("*.loop")):
            head, _, content = path.read_bytes().partition(b"\n")
            path.with_suffix(".o").write_bytes(content)
            said = json.loads(head)
            index[said["symbol"]] = said
        if not index:
            raise RuntimeError(
                "no loop was compiled: the folder of compiled loops cannot be written to, or NUMBA_DISABLE_JIT is set"
            )
        objects = [str(path) for path in sorted(folder.glob("*.o"))]
        options = ["-shared", "-nostartfiles", "-Wl,-s,-z,noexecstack"] if sys.platform == "linux" else ["-shared"]
        subprocess.run([compiler, *options, "-o", str(folder / "loops.so"), *objects, "-lm"], check=True)
        (folder / "index.json").write_text(json.dumps(index, indent=1, sort_keys=True), encoding="utf-8")
