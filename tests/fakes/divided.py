"""The engine as a program that takes FSDP2 on a CPU: `python -m tests.fakes.divided train RUN`.

accelerate 1.15 uses FSDP2 on GPUs only, where Hone offers it; PyTorch's own works over gloo. So accelerate is told that
several processes on CPUs are what several GPUs are to it, and the CPU no longer refuses the option. All else is Hone's.
"""

import sys
from typing import Any

from core.engine import __main__ as engine
from core.engine import launch
from core.engine.devices import choose

COMMAND = (sys.executable, "-m", "tests.fakes.divided")


def divide_on_cpus() -> None:
    from accelerate import state
    from accelerate.utils import DistributedType

    init = state.AcceleratorState.__init__

    def divided(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        init(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = state.PartialState._shared_state["distributed_type"] = (
                DistributedType.FSDP
            )
            self.fsdp_plugin = fsdp_plugin
            if self.mixed_precision != "no":
                fsdp_plugin.set_mixed_precision(self.mixed_precision)

    state.AcceleratorState.__init__ = divided


def main() -> int:
    refusals, prepare = choose.refusals, engine.prepare

    def prepared(*args: Any, **kwargs: Any) -> None:
        prepare(*args, **kwargs)
        divide_on_cpus()

    def without_fsdp(*args: Any) -> dict[str, dict[str, str]]:
        return {path: by_value for path, by_value in refusals(*args).items() if path != "memory.fsdp"}

    engine.prepare, choose.refusals = prepared, without_fsdp
    launch.engine_command = lambda *arguments: [*COMMAND, *arguments]
    return engine.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
