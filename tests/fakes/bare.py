"""A Python that has nothing but given packages and what they need, as in a new environment after `pip install`."""

import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def link_packages(into: Path, wanted: Iterable[str]) -> Path:
    """Link the files of the installed packages `wanted`, and of those they require, into the folder `into`."""
    into.mkdir(exist_ok=True)
    left, known = [Requirement(text) for text in wanted], set()
    while left:
        package = left.pop()
        name = canonicalize_name(package.name)
        if name in known:
            continue
        known.add(name)
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (into / top).is_symlink():
                (into / top).symlink_to(found.locate_file(top))
        extras = ["", *package.extras]
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                left.append(needed)
    return into


def run_bare(site: Path, script: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in its folder where only Python's own modules and the packages in `site` can be imported."""
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-S", "-s", "-P", script.name],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=script.parent,
        env={**os.environ, **quiet, "PYTHONPATH": str(site)},
    )
