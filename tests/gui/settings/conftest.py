"""The page for a new run, which tests of Settings open beside it."""

from tests.gui.new_run.conftest import engine, memory, own_home, page, shared

__all__ = ["engine", "memory", "own_home", "page", "shared"]
