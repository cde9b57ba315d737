"""Whether and how the engine is asked about a model before a run: only about models that need no network."""

from pathlib import Path

from core import hub
from core.model_report import ModelRequest, model_request
from core.options import DataOptions, MemoryOptions, RunOptions
from core.run_models import is_run, model_folder
from core.scratch_models import is_scratch, scratch_model
from core.sources import Scheme

WEIGHTS = ".safetensors"


def question_about(options: RunOptions, labels: int = 2) -> ModelRequest | None:
    """The question about the model of `options`; None where it isn't on this computer, or none is chosen.

    Options that change nothing about the answer are left at their defaults, so that equal questions compare equal.

    Args:
        options: What is asked.
        labels: How many labels the data has; 2 where that isn't known.
    """
    if not is_at_hand(options):
        return None
    checkpointing = options.memory.activation_checkpointing
    sight = options.data.max_length if is_scratch(options.model.source) else DataOptions().max_length
    plain = RunOptions(
        task=options.task,
        model=options.model,
        data=DataOptions(max_length=sight),
        memory=MemoryOptions(activation_checkpointing=checkpointing),
    )
    return model_request(plain, max(2, labels))


def is_at_hand(options: RunOptions) -> bool:
    """Whether the architecture of the model can be known without a network."""
    source = options.model.source
    if options.task.reads_images and Scheme.TORCHVISION.name_of(source):
        return True
    if is_scratch(source):
        return scratch_model(source) is not None
    if is_run(source):
        folder = model_folder(source)
        return folder is not None and folder.is_dir()
    return bool(source) and (is_in_hub_cache(source) or Path(source).is_dir())


def is_in_hub_cache(source: str) -> bool:
    """Whether a model of this id on the Hub has been fetched before, its config at least."""
    return hub.CONFIG in hub.cached_files(source)


def is_complete(options: RunOptions) -> bool:
    """Whether all a run needs of its model is on this computer, and not only what describes it.

    Of a model on the Hub, the names of the files in its cache tell. torchvision's weights are not looked for.
    """
    if not hub.may_be_there(options):
        return True
    files = hub.cached_files(options.model.source)
    if options.model.pretrained:
        return any(name.endswith(WEIGHTS) for name in files)
    return bool(files - {hub.CONFIG})  # its tokenizer
