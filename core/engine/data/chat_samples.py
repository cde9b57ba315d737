"""The pass over conversations or preference pairs: each row is read, checked, tokenized, cut and counted.

A run trains on the resulting rows and stops on the first problem; the preview shows all findings.
"""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.base.formats import paragraph, titled
from core.base.language import _
from core.engine.data import CHOSEN, COMPLETION, LIKED, PROMPT, REJECTED
from core.engine.data.chat_tokens import Rendered, Renderer, TemplateRefused, set_template
from core.engine.data.checks import DUPLICATES, IN_BOTH, refuse_problems, repeats, tally_of
from core.engine.data.conversations import ChatRow, ConversationReader, Shape, find_shape
from core.engine.data.findings import FindingKind, Tally
from core.engine.data.splits import NOTHING_HELD_OUT, held_out_of, random_split
from core.engine.data.tables import Table, lengths_of, read_held_out, read_training
from core.engine.data.text_files import is_text
from core.jobs.inspect import DataFinding, FindingLevel
from core.options import RunOptions
from core.options.choices import ChatTemplate, PreferenceLoss
from core.runs.models import trained_length

if TYPE_CHECKING:
    from datasets import Dataset

_PROBLEM, _WARNING = FindingLevel.PROBLEM, FindingLevel.WARNING

TEMPLATE_REFUSES = FindingKind(
    "template-refuses", _PROBLEM, _("{rows}: refused by the chat template. {detail}")
)
ANSWER_LOST = FindingKind(
    "answer-lost", _PROBLEM, _("{rows}: an answer or a tool call that the chat template leaves out.")
)
ANSWERS_CUT = FindingKind(
    "answers-cut", _WARNING, _("{rows}: an answer that is truncated at {detail} tokens.")
)
ANSWERS_GONE = FindingKind(
    "answers-gone", _WARNING, _("{rows}: skipped, because the first answer starts after token {detail}.")
)
EARLIER_UNTRAINED = FindingKind(
    "earlier-untrained",
    _WARNING,
    _("{rows}: loss on the last answer only, because the chat template rewrites earlier ones."),
)
ONE_RATING = FindingKind(
    "one-rating", _WARNING, _("All answers have the same rating. KTO learns from liked ones and from others.")
)
USE_CHATML = (Fix(_("Use ChatML"), {"data.chat_template": str(ChatTemplate.CHATML)}),)
"""ChatML can write all conversations; the model has to learn it, which takes more rows."""

ROWS_AT_ONCE = 1000
REASON_CHARACTERS = 200
LENGTH_STEP = 64
"""A suggested length is a multiple of it."""


@dataclass
class TokenizedTable:
    """The result of a pass over a table.

    Attributes:
        shape: The column of each role.
        length: Tokens at which rows are cut.
        repeated: Rows equal to an earlier one; of evaluation data, rows that the training data has, too.
        usable: The number of rows that could be read.
        rendered: The number of those that were tokenized.
        lengths: Tokens of each tokenized row before it is cut, or characters without a tokenizer.
        too_long: Tokens of the rows that are left out because no answer begins within `length`.
        of_samples: The fingerprint of each sample.
        liked: How many usable rows have each rating, if they have one.
        samples: A `datasets.Dataset` with `Rendered.columns`.
    """

    table: Table
    shape: Shape
    length: int
    tally: Tally
    repeated: Tally
    usable: int = 0
    rendered: int = 0
    first: list[ChatRow] = field(default_factory=list)
    lengths: "array[int]" = field(default_factory=lambda: array("q"))
    too_long: "array[int]" = field(default_factory=lambda: array("q"))
    fingerprints: set[int] = field(default_factory=set)
    of_samples: "array[int]" = field(default_factory=lambda: array("q"))
    last_tokens: Counter[int] = field(default_factory=Counter)
    liked: Counter[bool] = field(default_factory=Counter)
    samples: Any = None

    @property
    def turn_end(self) -> int | None:
        """The token that most answers end with, if there is one."""
        most_common = self.last_tokens.most_common(1)
        return next((token for token, count in most_common if 2 * count > self.last_tokens.total()), None)

    def findings(self) -> tuple[DataFinding, ...]:
        one_rating = (ONE_RATING.finding(self.usable, self.table.row_word),) if len(self.liked) == 1 else ()
        return (*self.tally.findings(), *one_rating)

    def check(self, options: RunOptions) -> None:
        """Refuses rows with problems, or a table without usable rows.

        Raises:
            DataError: All problems with their rows and fixes, or why every row was left out.
        """
        findings = self.tally.findings()
        refuse_problems(self.table.path, findings, len(self.samples))
        if len(self.samples):
            return
        fix = Fix(_("Choose a model with a longer context") if self.too_long else _("Choose another file"))
        if self.too_long and self.length == options.data.max_length:
            needed = sorted(self.too_long)[len(self.too_long) // 2]
            enough = trained_length(options.model.source, -(-needed // LENGTH_STEP) * LENGTH_STEP)
            if needed <= enough:
                fix = Fix(_("Use {count:,} tokens").format(count=enough), {"data.max_length": enough})
        path = self.table.path
        raise DataError(
            _("{name} has no examples to train on").format(name=path.name),
            titled(str(path), paragraph(*(finding.message for finding in findings))),
            (fix,),
        )


def tokenize_table(
    table: Table,
    options: RunOptions,
    renderer: Renderer | None,
    length: int,
    *,
    train: TokenizedTable | None = None,
    only: Container[int] | None = None,
    keep_first: int = 0,
    progress: Callable[[int], None] | None = None,
) -> TokenizedTable:
    """Reads, checks and tokenizes all rows of a table.

    Args:
        renderer: The tokenizer with its template; None counts lengths in characters.
        length: Tokens at which rows are cut.
        train: The training data, if these rows are for evaluation.
        only: Numbers of the rows that are tokenized; None tokenizes all.
        keep_first: The number of rows kept in `first`.
        progress: Called with the number of rows read so far.

    Raises:
        DataError: The columns don't fit, or `data.roles` has an unknown role.
    """
    data = options.data
    shape = find_shape(table, preference=options.preference, columns=data.columns)
    tally = tally_of(table, skip=data.skip_bad_rows)
    result = TokenizedTable(table, shape, length, tally, Tally(table.row_word))

    def rows() -> Iterator[tuple[int, ChatRow]]:
        for row in ConversationReader(table, shape, tally, data.roles, progress):
            content = (row.text, row.messages, row.chosen, row.rejected, row.liked, row.tools)
            fingerprint = hash(json.dumps(content, default=str))
            if train is not None and fingerprint in train.fingerprints:
                result.repeated.add(IN_BOTH, row.row)
            if train is None and fingerprint in result.fingerprints:
                result.repeated.add(DUPLICATES, row.row)
                if data.drop_duplicates:
                    continue
            result.fingerprints.add(fingerprint)
            result.usable += 1
            if row.liked is not None:
                result.liked[row.liked] += 1
            if len(result.first) < keep_first:
                result.first.append(row)
            if only is None or row.row in only:
                result.rendered += 1
                yield fingerprint, row

    def samples() -> Iterator[dict[str, list[int] | bool]]:
        for fingerprint, row in rows():
            if renderer is None:
                result.lengths.append(_characters(row))
            elif rendered := _rendered(row, renderer, result):
                result.of_samples.append(fingerprint)
                yield rendered.columns()

    result.samples = _as_dataset(samples())
    return result


def _rendered(row: ChatRow, renderer: Renderer, result: TokenizedTable) -> Rendered | None:
    """Tokenizes and cuts a row; returns None, and counts the row, if nothing of it can be trained on."""
    tally, limit = result.tally, f"{result.length:,}"
    try:
        whole = renderer.render(row)
    except TemplateRefused as refusal:
        tally.add(TEMPLATE_REFUSES, row.row, detail=refusal.reason[:REASON_CHARACTERS], fixes=USE_CHATML)
        return None
    result.lengths.append(len(whole))
    cut = whole.first(result.length)
    if not whole.is_whole or not all(whole.trained_counts):
        tally.add(ANSWER_LOST, row.row, fixes=USE_CHATML)
        return None
    if not all(cut.trained_counts):
        tally.add(ANSWERS_GONE, row.row, detail=limit)
        result.too_long.append(len(whole))
        return None
    if cut.trained_counts != whole.trained_counts:
        tally.add(ANSWERS_CUT, row.row, detail=limit)
    else:
        for tokens in cut.sequences:
            last = max(place for place, is_trained in enumerate(tokens.trained) if is_trained)
            result.last_tokens[tokens.ids[last]] += 1
    if whole.skipped:
        tally.add(EARLIER_UNTRAINED, row.row, fixes=USE_CHATML)
    return cut


def _characters(row: ChatRow) -> int:
    """Returns the length of a row; a pair counts with its longer answer."""
    prompt, chosen, rejected = (
        sum(len(message["content"]) + len(message.get("reasoning_content", "")) for message in messages)
        for messages in (row.messages, row.chosen, row.rejected)
    )
    return len(row.text or "") + prompt + max(chosen, rejected)


def _as_dataset(samples: Iterable[dict[str, list[int] | bool]]) -> "Dataset":
    """Stores samples in Arrow's memory, at 4 bytes a number instead of about 40 in Python's lists."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    kind, rest, tables = pa.list_(pa.int32()), iter(samples), []
    while some := list(islice(rest, ROWS_AT_ONCE)):
        kinds = {name: kind if isinstance(first, list) else pa.bool_() for name, first in some[0].items()}
        tables.append(
            pa.table({name: pa.array([sample[name] for sample in some], kinds[name]) for name in kinds})
        )
    return Dataset(InMemoryTable(pa.concat_tables(tables))) if tables else Dataset.from_dict({})


def unpaired(pairs: "Dataset") -> "Dataset":
    """Turns pairs into samples for KTO: all better answers, which are liked, then all worse ones. Others stay."""
    if CHOSEN not in pairs.column_names:
        return pairs
    return _as_dataset(
        {PROMPT: pair[PROMPT], COMPLETION: pair[answer], LIKED: answer == CHOSEN}
        for answer in (
            CHOSEN,
            REJECTED,
        )  # one after the other: KL is estimated with the answer of another prompt
        for pair in pairs
    )


def kto_weights(liked: int, others: int) -> tuple[float, float]:
    """Returns weights of liked and other answers with a ratio from 1 to 4/3 (arXiv 2402.01306, equation 8)."""
    ratio = liked / others if liked and others else 1.0
    return (1 / ratio, 1.0) if ratio < 1 else (1.0, max(1.0, ratio * 3 / 4))


# --- Training and evaluation data of a run


@dataclass(frozen=True)
class Conversations:
    """Data sets of `input_ids` and `labels`, of `prompt_ids`, `chosen_ids` and `rejected_ids`, or for KTO of
    `prompt_ids`, `completion_ids` and `label`.

    `eval` is None if nothing is held out. `findings` are warnings about the training data, then about the evaluation
    data. `in_both` is how many evaluation rows are trained on, too, and how many there are. `turn_end` is the token
    that most answers end with. `lengths` are those of training rows before they are cut, in a
    test those of its rows.
    """

    train: "Dataset"
    eval: "Dataset | None"
    findings: tuple[DataFinding, ...] = ()
    notes: tuple[str, ...] = ()
    turn_end: int | None = None
    lengths: Sequence[int] = ()
    in_both: tuple[int, int] = (0, 0)


def load_conversations(options: RunOptions, renderer: Renderer, length: int) -> Conversations:
    """Reads, checks, tokenizes and splits the data of a run.

    Args:
        length: Tokens at which rows are cut.

    Raises:
        DataError: The rows with problems, or why none is left.
    """
    data = options.data
    table = read_training(data).first(data.max_train_samples)
    train = tokenize_table(table, options, renderer, length)
    train.check(options)
    findings = train.findings()
    repeated = sum(finding.count for finding in train.repeated.findings()) if data.drop_duplicates else 0
    notes = (*table.messages, *repeats(repeated))
    trained, evaluated, lengths = train.samples, None, train.lengths
    known, asked = set[int](), array("q")
    if apart := held_out_of(options):
        try:
            other = read_held_out(apart).first(data.max_eval_samples)
            held_out = tokenize_table(other, options, renderer, length, train=train)
            held_out.check(options)
        except DataError as error:
            error.fixes = (*error.fixes, *apart.instead)
            raise
        findings = (*findings, *held_out.tally.findings())
        notes = (*notes, *other.messages)
        if not options.tells_of_training:
            findings, notes, lengths = held_out.tally.findings(), other.messages, held_out.lengths
        evaluated = held_out.samples
        known, asked = set(train.of_samples), held_out.of_samples
    else:
        kept, rest = random_split(len(train.samples), data.eval_fraction, options.training.seed)
        rest = rest[: data.max_eval_samples]
        if rest:
            trained, evaluated = train.samples.select(kept), train.samples.select(rest)
            known = {train.of_samples[place] for place in kept}
            asked = array("q", (train.of_samples[place] for place in rest))
        elif data.eval_fraction:
            notes = (*notes, NOTHING_HELD_OUT)
    in_both = sum(fingerprint in known for fingerprint in asked), len(asked)
    if options.preference is PreferenceLoss.KTO:
        trained, evaluated = unpaired(trained), evaluated and unpaired(evaluated)
    return Conversations(trained, evaluated, findings, notes, train.turn_end, lengths, in_both)


# --- The longest row, found without tokenizing all of them


CANDIDATES = 128
"""The number of rows, those with the most bytes, that are tokenized."""


def longest_conversation(options: RunOptions, tokenizer: Any, most: int) -> tuple[int, int, int]:
    """Returns the tokens of the longest row (0 if no row is usable), the bytes of all texts, and the number of rows.

    Args:
        tokenizer: The model's, which gets the chosen template; None counts bytes only.
        most: Tokens at which rows are cut.

    Raises:
        DataError: The data can't be read.
    """
    data = options.data
    table = read_training(data).first(data.max_train_samples)
    shape = find_shape(table, preference=options.preference, columns=data.columns)
    sizes: Any = sum(_text_bytes(table.rows[name]) for name in shape.columns.values())
    if tokenizer is None:
        return 0, int(sizes.sum()), len(sizes)
    set_template(tokenizer, ChatTemplate(data.chat_template))
    places = np.sort(np.argsort(-sizes, kind="stable")[:CANDIDATES])
    table = replace(table, rows=table.rows.take(pa.array(places)), numbers=np.asarray(table.numbers)[places])
    result = tokenize_table(table, options, Renderer(tokenizer, data.loss_on), most)
    return max(lengths_of(result.samples) or (), default=0), int(sizes.sum()), len(sizes)


def _text_bytes(column: Any) -> Any:
    """Returns the bytes of the texts in each cell, including those in nested lists and objects."""
    kind = column.type
    if is_text(kind):
        return pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(float)
    sizes = np.zeros(len(column))
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            sizes += _text_bytes(pc.struct_field(column, index))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        owners = pc.list_parent_indices(joined).to_numpy()
        np.add.at(sizes, owners, _text_bytes(pc.list_flatten(joined)))
    return sizes
