"""Which installed libraries a training process leaves aside.

transformers and accelerate import whatever they find installed, needed or not.
"""

import logging
import sys

from core.choices import DeepSpeed, Method
from core.options import RunOptions

RUNS_CODE_FROM_THE_HUB = "kernels"
"""Where it is installed, transformers and bitsandbytes fetch compiled code from the Hub with it, and run that."""


def leave_aside(options: RunOptions) -> None:
    """Make libraries this run doesn't need look absent; call before torch and transformers are imported.

    Without PEFT, which brings bitsandbytes along, the process starts a second sooner. `None` in `sys.modules` is
    Python's own way to say that a module can't be had: `import` and `find_spec` both heed it. What is imported
    already stays.
    """
    absent = [RUNS_CODE_FROM_THE_HUB]
    if options.model.method not in (Method.LORA, Method.QLORA):
        absent.append("peft")
    if options.memory.deepspeed is DeepSpeed.OFF:
        absent.append("deepspeed")
    for name in absent:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # the import system documents None here
    # or bitsandbytes warns at each start that "kernels" is missing
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
