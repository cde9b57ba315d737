"""Compiles the translations when Hone is installed; everything else stands in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.append(str(Path(__file__).parent / "packaging"))

from translations import compile_, files


class WithTranslations(build_py):
    """Writes each language's hone.mo beside its hone.po before the files are gathered."""

    def run(self) -> None:
        for path in files():
            compile_(path)
        super().run()


setup(cmdclass={"build_py": WithTranslations})
