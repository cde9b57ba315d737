"""A training process imports PEFT only for LoRA, and never what fetches code from the Hub."""

import json
import subprocess
import sys

import pytest

from core.options.choices import Method

SCRIPT = """
import json, sys
from core.options.choices import Method, Task
from core.engine.environment import leave_aside
from core.options import ModelOptions, RunOptions
leave_aside(RunOptions(task=Task.TEXT_CLASSIFICATION, model=ModelOptions(method=Method(sys.argv[1]))))
from core.engine.environment import prepare_torchvision
prepare_torchvision()
from transformers import Trainer
from transformers.utils import is_kernels_available, is_peft_available
from accelerate.utils import is_peft_available as accelerate_sees_peft
from accelerate.utils import is_deepspeed_available
assert not is_deepspeed_available()
asked = [bool(found()) for found in (is_kernels_available, is_peft_available, accelerate_sees_peft)]
print(json.dumps([*asked, sys.modules.get("peft") is not None, "bitsandbytes" in sys.modules]))
"""


@pytest.mark.long
@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
def test_peft_is_there_for_lora_alone_and_kernels_never(method: Method) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, method], capture_output=True, text=True, check=True, timeout=120
    )
    is_lora = method is Method.LORA
    expected = [False, is_lora, is_lora, is_lora, is_lora and sys.platform != "darwin"]
    assert json.loads(done.stdout) == expected
    assert "kernels" not in done.stderr
