"""What a graph that torch.compile has traced computes: read before the back end gets it."""

from collections.abc import Iterator
from typing import Any

import torch

from core.choices import Attention
from core.engine.first_batch import SOFTMAX, FirstBatch


def look_at(traced: torch.fx.GraphModule, seen: FirstBatch, device_kind: str) -> None:
    """Add what is in a graph to what is known of the first batch.

    Autocast that begins outside the graph is on while it is traced; one that begins inside is a node of it.
    """
    if torch.is_autocast_enabled(device_kind):
        seen.saw_autocast(torch.get_autocast_dtype(device_kind))
    for node in _calls(traced):
        name = _name(node.target)
        if node.target is torch.nn.functional.scaled_dot_product_attention:
            seen.heard_attention(Attention.SDPA)
        elif "flash_attn_3" in name:
            seen.heard_attention(Attention.FLASH_3)
        elif "flash_attn" in name:
            seen.heard_attention(Attention.FLASH_2)
        elif node.target in SOFTMAX or name.endswith("softmax"):
            seen.heard_softmax()
        elif name.endswith("_enter_autocast") and node.args[2]:
            seen.saw_autocast(node.args[1])
        elif "activation_checkpoint" in name:
            seen.recomputed += 1


def _calls(traced: torch.fx.GraphModule) -> Iterator[Any]:
    """Every call, also in the graphs within: what is recomputed is one of its own."""
    for part in traced.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from (node for node in part.graph.nodes if node.op in ("call_function", "call_method"))


def _name(target: Any) -> str:
    """`package.module.function`, or a method's bare name."""
    if isinstance(target, str):
        return target
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"
