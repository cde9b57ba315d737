"""Learn to prefer the better of two answers, by TRL's DPOTrainer.

What the model is held to is the model as it was: with LoRA, the adapter switched off, which takes no memory; where all
weights move, a copy of them.
"""

import copy
from typing import Any

from trl import DPOConfig

from core.choices import Method
from core.engine.data.conversation_batches import PadPairs
from core.engine.data.conversations.rendering import Renderer
from core.engine.data.conversations.samples import Conversations, load_conversations
from core.engine.data.encoding import row_length
from core.engine.data.random_conversations import random_pairs
from core.engine.models.adapters import apply_method
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared, TrainedBy
from core.engine.tasks.writers import ReadyTokenizer, load_writer, ready_tokenizer, tell
from core.engine.trl_trainers import PreferenceTrainer
from core.options import RunOptions


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load pairs and model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained, or doesn't write.
    """
    ready = ready_tokenizer(options, reporter)
    found = _samples(options, ready, reporter)
    model = load_writer(options, ready, reporter, found.turn_end)
    more: dict[str, Any] = {}
    if options.model.method is Method.FULL:
        more["ref_model"] = copy.deepcopy(model)
        reporter.note(
            "reference-copy",
            "A copy of the model is kept beside it",
            "It is held to what it was. With LoRA, that takes no memory.",
        )
    return Prepared(
        model=apply_method(model, options),
        train=found.train,
        eval=found.eval,
        collator=PadPairs(pad_id=ready.tokenizer.pad_token_id, length=row_length(options, ready.longest)),
        labels=(),
        save_extras=model.generation_config.save_pretrained,
        processing_class=ready.tokenizer,
        trained_by=TrainedBy(
            PreferenceTrainer,
            DPOConfig,
            {"beta": options.training.beta, "max_length": None, "disable_dropout": False},
            more,
        ),
    )


def _samples(options: RunOptions, ready: ReadyTokenizer, reporter: Reporter) -> Conversations:
    random = random_pairs(options, ready.vocabulary, ready.longest)
    if random is not None:
        return random
    found = load_conversations(options, Renderer(ready.tokenizer), ready.length)
    tell(found, ready, reporter)
    return found
