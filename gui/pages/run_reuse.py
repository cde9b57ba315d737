"""What becomes of a run's options when a new run is to be made of it."""

from core.errors import Fix
from core.options import Tree
from core.run_folder import RunFolder
from core.sources import Scheme


def with_changes(tree: Tree, fix: Fix) -> Tree:
    """A copy of a run's options in which a fix has been applied."""
    changed: Tree = {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}
    for path, value in fix.changes.items():
        section, _, name = path.rpartition(".")
        target = changed.setdefault(section, {}) if section else changed
        target[name] = value
    return changed


def from_its_model(tree: Tree, run: RunFolder) -> Tree:
    """The options of a new run that goes on from what this one has learned, on the same data."""
    source = Scheme.RUN.of(str(run.path.absolute()))
    return with_changes(tree, Fix("", {"model.source": source}))
