"""Learn to answer as in conversations or instructions, by TRL's SFTTrainer."""

from typing import Any

from trl import SFTConfig, pack_dataset

from core.engine.data.conversation_batches import PadConversations
from core.engine.data.conversations.rendering import Renderer
from core.engine.data.conversations.samples import Conversations, load_conversations
from core.engine.data.encoding import row_length
from core.engine.data.random_conversations import random_conversations
from core.engine.models.adapters import apply_method
from core.engine.models.neighbours import warn_if_neighbours_show
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared, TrainedBy
from core.engine.tasks.writers import ReadyTokenizer, load_writer, ready_tokenizer, tell
from core.engine.trl_trainers import ChatTrainer
from core.events import Phase
from core.options import RunOptions

ARGUMENTS = {
    "dataset_kwargs": {"skip_prepare_dataset": True},  # samples are tokens already, those of the preview
    "max_length": None,
    "activation_offloading": False,
}
"""What TRL's `SFTConfig` is told beside Trainer's arguments."""


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load conversations and model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained, or doesn't write.
    """
    ready = ready_tokenizer(options, reporter)
    found = _samples(options, ready, reporter)
    loaded = load_writer(options, ready, reporter, found.turn_end)
    model = apply_method(loaded, options)
    train = found.train
    if options.data.packing:
        train = _packed(train, ready.length, reporter)
        warn_if_neighbours_show(model, reporter)
    return Prepared(
        model=model,
        train=train,
        eval=found.eval,
        collator=PadConversations(
            pad_id=ready.tokenizer.pad_token_id, length=row_length(options, ready.longest)
        ),
        labels=(),
        save_extras=loaded.generation_config.save_pretrained,
        processing_class=ready.tokenizer,
        trained_by=TrainedBy(ChatTrainer, SFTConfig, ARGUMENTS),
    )


def _samples(options: RunOptions, ready: ReadyTokenizer, reporter: Reporter) -> Conversations:
    random = random_conversations(options, ready.vocabulary, ready.longest)
    if random is not None:
        return random
    found = load_conversations(options, Renderer(ready.tokenizer, options.data.loss_on), ready.length)
    tell(found, ready, reporter)
    return found


def _packed(samples: Any, length: int, reporter: Reporter) -> Any:
    """Several conversations in each row, by TRL's best fit."""
    reporter.phase(Phase.TOKENIZING)
    packed = pack_dataset(samples, length, "bfd")
    reporter.note(
        "packed",
        f"{len(samples):,} conversations are packed into {len(packed):,} rows of {length:,} tokens at most",
        "An epoch has fewer steps by that.",
    )
    return packed
