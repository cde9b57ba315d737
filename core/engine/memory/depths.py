"""Deep models traced at two depths: every further block of the same kind adds the same."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from core.engine.memory.rehearsal import Rehearsed
from core.memory.model import Parts

SHALLOW, DEEPER = 6, 12
"""Tensors could be extended from two and three blocks exactly. What an allocator holds unused grows evenly only from
about six on: extended from 6 and 12 to BERT-large's 24, it came within 4 % of the whole memory of a trace of all."""

DEPTHS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")
"""What configs call the number of blocks; those of them that say the same are cut together."""


def depth_of(config: Any) -> int:
    """How many blocks a config asks for; 0 where it doesn't say."""
    found = getattr(config, "num_hidden_layers", None)
    return found if isinstance(found, int) else 0


def cut(config: Any, depth: int) -> Any:
    """The same config with fewer blocks; lists with an entry a block are cut too."""
    whole, shorter = depth_of(config), copy.deepcopy(config)
    for name in DEPTHS:
        if getattr(shorter, name, None) == whole:
            setattr(shorter, name, depth)
    for name, value in list(vars(shorter).items()):
        if isinstance(value, list | tuple) and len(value) == whole:
            setattr(shorter, name, value[:depth])
    return shorter


def can_be_cut(config: Any) -> bool:
    """Whether a model is deep, and all its blocks have as many weights, so that extending is no guess."""
    depth = depth_of(config)
    if depth <= DEEPER:
        return False
    shallow, deeper, whole = (_weights(cut(config, blocks)) for blocks in (SHALLOW, DEEPER, depth))
    return (whole - deeper) * (DEEPER - SHALLOW) == (depth - DEEPER) * (deeper - shallow)


def blocks_of(model: Any, depth: int) -> list[torch.nn.Module]:
    """The repeated blocks in order; none where they don't stand in a single row."""
    rows = [part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == depth]
    return list(rows[0]) if len(rows) == 1 else []


def extended(trace: Callable[[Any], Rehearsed], config: Any) -> Rehearsed:
    """What a deep model holds, from traces of two shallow ones.

    Args:
        trace: Traces the model of a config.
        config: The whole model's, which `can_be_cut`.
    """
    shallow, deeper = trace(cut(config, SHALLOW)), trace(cut(config, DEEPER))
    further = (depth_of(config) - DEEPER) / (DEEPER - SHALLOW)
    phases = {
        phase: _extend(shallow.phases[phase], parts, further)
        for phase, parts in deeper.phases.items()
        if phase in shallow.phases
    }
    unused = _further(shallow.unused, deeper.unused, further)
    return Rehearsed(phases, _renamed(shallow.kept, deeper.kept, depth_of(config)), unused)


def _extend(shallow: Parts, deeper: Parts, further: float) -> Parts:
    return Parts(
        **{
            name: _further(getattr(shallow, name), getattr(deeper, name), further)
            for name in Parts.__struct_fields__
        }
    )


def _further(before: int, after: int, further: float) -> int:
    return max(0, round(after + further * (after - before)))


def _renamed(shallow: dict[str, int], deeper: dict[str, int], depth: int) -> dict[str, int]:
    """What each module keeps in the deep model: the blocks that only it has are like the last of the trace."""
    kept = dict(deeper)
    for name, size in deeper.items():
        row, _, number = name.rpartition(".")
        if name not in shallow and number.isdecimal():
            kept |= {f"{row}.{block}": size for block in range(DEEPER, depth)}
    return kept


def _weights(config: Any) -> int:
    from transformers import AutoModel

    with torch.device("meta"):
        body = AutoModel.from_config(copy.deepcopy(config), trust_remote_code=False)  # heads are of one size
        return sum(weight.numel() for weight in body.parameters())
