"""Which models mlx-lm can build."""

from collections.abc import Mapping
from typing import Any

from mlx_lm import utils


def has_architecture(config: Mapping[str, Any]) -> bool:
    """Returns whether mlx-lm has the architecture of a model's config.json, under this name or another one."""
    try:
        utils._get_classes(dict(config))  # it has no public way to ask
    except ValueError:
        return False
    return True
