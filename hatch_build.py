"""Compiles the kernels while dubio is installed; without a C compiler it is installed without."""

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

NATIVE = Path("src/dubio/native")


class KernelsHook(BuildHookInterface[Any]):
    """Puts the library beside the sources of an editable install, or into a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what became of it."""
        if self.target_name != "wheel":
            return
        building = self._building()
        source = Path(self.root) / NATIVE
        if version == "editable":
            folder = source
        else:
            self._temporary = tempfile.mkdtemp()
            folder = Path(self._temporary)
        word = building.build_or_explain(folder)
        if not (folder / building.LIBRARY).exists():
            print(f"dubio's kernels are {word}; torch does their work", file=sys.stderr)
        if version == "editable":
            return
        for name in (building.REPORT, building.LIBRARY):
            if (folder / name).exists():
                build_data["force_include"][str(folder / name)] = f"dubio/native/{name}"
        if (folder / building.LIBRARY).exists():
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{next(sys_tags()).platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        if temporary := getattr(self, "_temporary", None):
            shutil.rmtree(temporary, ignore_errors=True)

    def _building(self) -> Any:
        """Return the module that compiles, which is part of a package that is not installed yet."""
        path = Path(self.root) / NATIVE / "building.py"
        spec = importlib.util.spec_from_file_location("building", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
