"""Looks at a GPU pack from inside: `python -P -s check.py LIBRARIES OWN_SOURCE MODULE…`, answering with JSON.

Imports PyTorch and the modules named, calls what is named as MODULE:FUNCTION, and computes a little on the card.
Standard library only, but for what it checks.
"""

import importlib
import json
import os
import sys
from typing import Any


def check(modules: list[str]) -> dict[str, str | None]:
    """What is found, as `core.gpu_pack.pack.Checked` reads it; what can't be imported ends the process."""
    torch = importlib.import_module("torch")
    for name in modules:
        module, _, function = name.partition(":")
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()
    device, problem = _computed(torch) if torch.cuda.is_available() else ("", "")
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "device": device, "problem": problem}


def _computed(torch: Any) -> tuple[str, str]:
    """The name of the card that eight ones were added up on, and what went wrong."""
    try:
        total = torch.ones(8, device="cuda").sum().item()
    except RuntimeError as error:
        return "", str(error)
    return (torch.cuda.get_device_name(0), "") if total == 8 else ("", f"eight ones came to {total}")


if __name__ == "__main__":
    answer_to = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    sys.path[:0] = sys.argv[1:3]
    found = json.dumps(check(sys.argv[3:]))
    os.write(answer_to, found.encode())
