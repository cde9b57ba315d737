"""Code for the trainer: Trainer itself or TRL's, and what keeps its losses right."""

from core.choices import Method, Optimizer, Precision, Task
from core.script.arguments import is_torchvision
from core.script.parts import Part, literal
from core.script.resolved import Resolved

DIVIDES = '''
def divides_its_loss(model, batch):
    """Whether more items make the loss smaller; a router's loss stays, however many there are."""
    was_training = model.training
    model.eval()
    with torch.no_grad(), torch.autocast({kind}, dtype={dtype}, enabled={enabled}):
        one, many = (model(**batch, num_items_in_batch=items)["loss"] for items in (1, 1 << 30))
    model.train(was_training)
    return not torch.isclose(many, one, rtol=1e-3)


# transformers 5.23 leaves it to every model whose forward takes **kwargs to divide an accumulated loss by the number
# of items, and many don't (issue #47688): loss and gradients come out as many times too large as batches are added up.
inner = model.get_base_model() if hasattr(model, "get_base_model") else model
takes_any = any(found.kind is found.VAR_KEYWORD for found in inspect.signature(inner.forward).parameters.values())
batch = {{name: value.to(arguments.device) for name, value in collate([train[0]]).items()}}
if takes_any and not divides_its_loss(model, batch):
    inner.accepts_loss_kwargs = False
    trainer.model_accepts_loss_kwargs = False  # Trainer divides itself{by_label}
for weight in ("router_aux_loss_coef", "aux_loss_coef"):  # a model that divides adds its router's loss whole each time
    if getattr(inner, weight, None) and trainer.model_accepts_loss_kwargs:

        def share(*_, weight=weight, whole=getattr(inner, weight)):
            setattr(inner, weight, whole / (trainer.current_gradient_accumulation_steps if inner.training else 1))

        model.register_forward_pre_hook(share)
'''
BY_LABEL = '''
def loss_by_label(outputs, labels, num_items_in_batch=None):
    """Cross entropy in which each label of a step counts alike, however many there are in a batch."""
    logits = outputs["logits"]
    summed = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(), labels.reshape(-1), ignore_index=-100, reduction="sum"
    )
    return summed / ((labels != -100).sum() if num_items_in_batch is None else num_items_in_batch)
'''
DECAY = '''
class NormsDontDecay(Trainer):
    """Trainer knows batch norms by their place's name only, and would pull torchvision's towards zero."""

    def get_decay_parameter_names(self, model):
        norms = {
            f"{place}.{name}"
            for place, layer in model.named_modules()
            if "norm" in type(layer).__name__.lower()
            for name, _ in layer.named_parameters(recurse=False)
        }
        return [name for name in super().get_decay_parameter_names(model) if name not in norms]
'''
PAIRS = '''
class Pairs(DPOTrainer):
    """TRL's trainer for preferences, with pairs that are tokens already."""

    def _prepare_dataset(self, dataset, *args, **kwargs):
        return dataset
'''


def trainer(run: Resolved) -> Part:
    """`trainer`, ready to train."""
    task = run.options.task
    name, helper, imports = _class_of(run)
    lines = [
        "model=model",
        "args=arguments",
        "train_dataset=train",
        "eval_dataset=evaluation or None",
        "data_collator=collate",
        *(["processing_class=tokenizer"] if task.reads_text else []),
        *(["compute_metrics=metrics"] if not task.writes_text else []),
        *(["ref_model=reference"] if task is Task.PREFERENCE and _is_full(run) else []),
        *(
            [f"optimizer_cls_and_kwargs={_optimizer(run)}"]
            if _optimizer(run) and task is not Task.PREFERENCE
            else []
        ),
    ]
    code = (
        helper
        + f"\n\n{_before(run)}trainer = {name}(\n"
        + "".join(f"    {line},\n" for line in lines)
        + ")\n"
    )
    if "CPUOffloadOptimizer" in _optimizer(run):
        imports = (*imports, "from torchao.optim import CPUOffloadOptimizer")
    return Part("", code + _after(run), imports)


def _is_full(run: Resolved) -> bool:
    return run.options.model.method is Method.FULL


def _class_of(run: Resolved) -> tuple[str, str, tuple[str, ...]]:
    """The trainer's class, what has to be defined for it, and its imports."""
    match run.options.task:
        case Task.CHAT:
            return "SFTTrainer", "", ("from trl import SFTTrainer",)
        case Task.PREFERENCE:
            return "Pairs", PAIRS, ("from trl import DPOTrainer", "import torch")
    if run.options.training.weight_decay and run.options.task.reads_images:
        return "NormsDontDecay", DECAY, ("from transformers import Trainer",)
    return "Trainer", "", ("from transformers import Trainer",)


def _before(run: Resolved) -> str:
    if run.options.task is Task.PREFERENCE and _is_full(run):
        return "reference = copy.deepcopy(model)  # what it is held to: the model as it was\n"
    return ""


def _after(run: Resolved) -> str:
    task = run.options.task
    if task is Task.CHAT:
        return (
            "# The loss of each learned token of a step counts alike, also where a model's forward takes no **kwargs.\n"
            "trainer.loss_is_scaled_for_ga = trainer.model_accepts_loss_kwargs = True\n"
        )
    if task is Task.PREFERENCE:
        return _after_preference(run)
    return ""


def _after_preference(run: Resolved) -> str:
    optimizer = _optimizer(run)
    taken = f"trainer.optimizer_cls_and_kwargs = {optimizer}\n" if optimizer else ""
    return f"""{taken}if "ref" in getattr(trainer.model, "peft_config", {{}}):
    trainer.model.delete_adapter("ref")  # a fresh adapter adds nothing: switched off, the model is the same
for name, part in trainer.model.named_modules():  # or the model and what it is held to would differ from the start
    if isinstance(part, torch.nn.Dropout) and "lora_dropout" not in name:
        part.p = 0.0
"""


def _optimizer(run: Resolved) -> str:
    """The optimizer that Trainer has no name for, as code; empty where it has."""
    training = run.options.training
    numbers = (
        f'"lr": {literal(training.learning_rate)}, "betas": ({literal(training.beta1)}, {literal(training.beta2)}), '
        f'"eps": {literal(training.epsilon)}, "fused": True'
    )
    if run.options.memory.offload_optimizer:
        return f'(CPUOffloadOptimizer, {{"optimizer_class": torch.optim.AdamW, {numbers}}})'
    if training.optimizer is Optimizer.ADAM:
        return f"(torch.optim.Adam, {{{numbers}}})"
    return ""


def accumulation(run: Resolved) -> Part:
    """Keeps accumulated losses right; nothing where a step is one batch, or TRL counts tokens itself."""
    task = run.options.task
    is_needed = run.options.memory.gradient_accumulation_steps > 1
    if not is_needed or task in (Task.CHAT, Task.PREFERENCE) or is_torchvision(run):
        return Part("", "")
    half = {Precision.BF16: "torch.bfloat16", Precision.FP16: "torch.float16"}
    dtype = half.get(run.options.device.precision)
    is_words = task is Task.TOKEN_CLASSIFICATION
    by_label = "\n    trainer.compute_loss_func = loss_by_label" if is_words else ""
    code = DIVIDES.format(
        kind=literal(run.kind), dtype=dtype or "None", enabled=dtype is not None, by_label=by_label
    )
    imports = ("import inspect", "import torch")
    return Part("Accumulated batches.", (BY_LABEL if is_words else "") + "\n" + code, imports)


def end(run: Resolved) -> Part:
    """Trains and saves."""
    code = """
if __name__ == "__main__":
    trainer.train()
    trainer.save_model("model")
"""
    return Part("", code)
