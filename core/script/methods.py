"""Code for which weights learn: all, the last layer, or LoRA matrices beside a frozen model."""

from core.choices import Method, Task
from core.scratch_models import starts_random
from core.script.arguments import is_torchvision
from core.script.parts import Part, literal
from core.script.resolved import Resolved

HEADS_OF_TEXT = """
# What turns what the model has seen into labels: everything beside its body.
heads = [
    name for name, part in model.named_children()
    if name != model.base_model_prefix and any(True for _ in part.parameters())
]
"""
HEADS_OF_IMAGES = """
# What turns what the model has seen into labels.
body = getattr(model, "base_model_prefix", "")
heads = [
    name for name, part in model.named_children()
    if name != body and any(True for _ in part.parameters())
] if body else [
    name for name, part in model.named_modules() if isinstance(part, (torch.nn.Linear, torch.nn.Conv2d))
][-1:]
"""
HOLD_STILL = """
# Frozen batch norms keep their running statistics; Trainer would set them to training mode at each step.
for part in model.modules():
    if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and not part.weight.requires_grad:
        part.eval()
        part.train = lambda mode=True, part=part: part
"""
FREEZE = """
for name, weight in model.named_parameters():
    weight.requires_grad_(any(name.startswith(f"{head}.") for head in heads))
"""
TARGETS = """
def takes_lora(layer):
    \"\"\"Linear layers, GPT-2's included, and convolutions that aren't grouped.\"\"\"
    if isinstance(layer, torch.nn.Conv2d):
        return layer.groups == 1
    return isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"


targets = [
    name for name, layer in model.named_modules()
    if takes_lora(layer) and not any(name == head or name.startswith(f"{head}.") for head in heads){ends}
]
"""
KBIT = """
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
for part in model.modules():  # on some CPUs, packing anew for evaluation leaves no way to compute gradients
    if hasattr(part, "support_avx512bf16_for_cpu"):
        part.support_avx512bf16_for_cpu = False
"""


def method(run: Resolved) -> Part:
    """Makes `model` learn as was asked."""
    task = run.options.task
    heads = HEADS_OF_IMAGES if task.reads_images else HEADS_OF_TEXT
    if not starts_random(run.options) and not is_torchvision(run):
        heads += "heads += fresh\n"
    still = HOLD_STILL if task.reads_images else ""
    match run.options.model.method:
        case Method.FULL:
            return Part("", "")
        case Method.HEAD:
            return Part("Only the last layer learns.", heads + FREEZE + still, ("import torch",))
    return _lora(run, heads, still)


def _lora(run: Resolved, heads: str, still: str) -> Part:
    model, task = run.options.model, run.options.task
    kinds = {
        Task.TEXT_CLASSIFICATION: "SEQ_CLS",
        Task.TEXT_REGRESSION: "SEQ_CLS",
        Task.TOKEN_CLASSIFICATION: "TOKEN_CLS",
        Task.IMAGE_CLASSIFICATION: None,
    }
    alpha = int(model.lora_alpha) if model.lora_alpha.is_integer() else model.lora_alpha
    ends = ""
    if model.lora_targets:
        ends = f'\n    and any(name == end or name.endswith(f".{{end}}") for end in {literal(model.lora_targets)})'
    whole = "heads"
    if task.writes_text:  # a model that writes says tokens as before: that layer stays frozen
        whole = "None" if starts_random(run.options) else "fresh or None"
    packed, imports = "", ["import torch", "from peft import LoraConfig", "from peft import get_peft_model"]
    if model.method is Method.QLORA:
        packed = KBIT
        imports += ["import warnings", "from peft import prepare_model_for_kbit_training"]
    code = f"""{packed}{heads}
{TARGETS.replace("{ends}", ends)}
model = get_peft_model(
    model,
    LoraConfig(
        task_type={literal(kinds.get(task, "CAUSAL_LM"))},
        r={model.lora_rank},
        lora_alpha={alpha},
        lora_dropout={literal(model.lora_dropout)},
        target_modules=targets,
        modules_to_save={whole},
    ),
)
{still}"""
    return Part(
        "LoRA: the model is frozen, and small matrices beside its layers learn.", code, tuple(imports)
    )
