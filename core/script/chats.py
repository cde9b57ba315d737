"""Code for conversations and pairs of answers: as messages, written by the chat template, tokenized, cut."""

from core.choices import ChatTemplate, LossOn, Task
from core.conversation_words import ColumnRole as R
from core.script.chats_code import (
    ASKED,
    COLLATE_CHAT,
    COLLATE_PAIRS,
    ENDS,
    LEARN_ALL,
    LEARN_ANSWERS,
    LEARN_PAIR,
    LEARN_TEXT,
    MESSAGES,
    PAIR_OF,
    SPEAKERS,
    WITH_MASK,
    WITH_POSITIONS,
    WRITE_MARKED,
    WRITE_PLAIN,
)
from core.script.facts import Conversations, ScriptFacts, Template
from core.script.parts import Part, literal
from core.script.resolved import Resolved
from core.script.rows import FIRST_OF_EQUALS, PLAIN_SPLIT, reader
from core.sources import parse_synthetic


def data(run: Resolved, facts: ScriptFacts) -> list[Part]:
    """Reads the rows: `rows` and, where there is evaluation data of its own, `eval_rows`."""
    if parse_synthetic(run.options.data.train):
        return []
    assert facts.rows is not None
    assert facts.conversations is not None
    found = facts.conversations
    return [reader(facts.rows), _rows(run, facts, found)]


def _rows(run: Resolved, facts: ScriptFacts, found: Conversations) -> Part:
    options = run.options
    assert facts.rows is not None
    is_pairs = options.task is Task.PREFERENCE
    known = {**SPEAKERS, **options.data.roles}
    helper = "" if R.TEXT in found.columns else MESSAGES.format(speakers=literal(known))
    first = f"[:{options.data.max_train_samples}]" if options.data.max_train_samples else ""
    lines = [f"rows = [row_of(row) for row in read({literal(facts.rows.files)}){first} if any(row.values())]"]
    if options.data.drop_duplicates:
        helper += FIRST_OF_EQUALS
        lines.append("rows = first_of_equals(rows, str)")
    if facts.eval_rows is not None:
        limit = f"[:{options.data.max_eval_samples}]" if options.data.max_eval_samples else ""
        lines.append(f"eval_rows = [row_of(row) for row in read({literal(facts.eval_rows.files)}){limit}]")
    row_of = _pair_of(found) if is_pairs else _conversation_of(found)
    imports: tuple[str, ...] = ("import json", "import re") if is_pairs else ("import json",)
    if R.TEXT in found.columns:
        imports = ()
    if "asked(row" in row_of:
        helper += ASKED
    return Part("What is learned from.", f"{helper}{row_of}\n\n" + "\n".join(lines), imports)


def _pair_of(found: Conversations) -> str:
    columns = found.columns
    return PAIR_OF.format(
        before=_before(found), chosen=literal(columns[R.CHOSEN]), rejected=literal(columns[R.REJECTED])
    )


def _conversation_of(found: Conversations) -> str:
    columns = found.columns
    if R.TEXT in columns:
        return f'\ndef row_of(row):\n    """A plain text."""\n    return row[{literal(columns[R.TEXT])}]\n'
    answer = f' + messages_of(row[{literal(columns[R.ANSWER])}], "assistant")' if R.ANSWER in columns else ""
    return f"""
def row_of(row):
    \"\"\"A conversation, as messages.\"\"\"
    before = {_before(found)}
    return in_turns(before{answer})
"""


def _before(found: Conversations) -> str:
    """What comes before the answer, as code: system prompt, earlier turns, messages, question."""
    columns, parts = found.columns, []
    if R.SYSTEM in columns:
        parts.append(f'messages_of(row.get({literal(columns[R.SYSTEM])}), "system")')
    if R.HISTORY in columns:
        parts.append(
            f'[{{"role": role, "content": said}} for turn in row.get({literal(columns[R.HISTORY])}) or [] '
            'for role, said in zip(("user", "assistant"), turn)]'
        )
    if R.CONVERSATION in columns:
        parts.append(f'messages_of(row[{literal(columns[R.CONVERSATION])}], "user")')
    if R.PROMPT in columns:
        names = [columns[role] for role in (R.PROMPT, R.INPUT) if role in columns]
        if len(names) == 1:
            parts.append(f'messages_of(row[{literal(names[0])}], "user")')
        else:
            parts.append(f"asked(row, {literal(names)})")
    if len(parts) < 2:
        return parts[0] if parts else "[]"
    return "[\n" + "".join(f"        *{part},\n" for part in parts) + "    ]"


def samples(run: Resolved, facts: ScriptFacts) -> list[Part]:
    """Tokenizes and splits: `train` and `evaluation`."""
    data = run.options.data
    width = "LENGTH, " if data.padding == "fixed" else ""
    is_pairs = run.options.task is Task.PREFERENCE
    rest = WITH_POSITIONS if data.packing else WITH_MASK
    collate = COLLATE_PAIRS.format(width=width) if is_pairs else COLLATE_CHAT.format(width=width, rest=rest)
    batches = Part("", collate, ("import torch",))
    if parse_synthetic(data.train):
        return [_random(run), batches]
    assert facts.conversations is not None
    return [_template(run, facts.conversations), _learning(run, facts), batches]


def _template(run: Resolved, found: Conversations) -> Part:
    if R.TEXT in found.columns:
        return Part("", "")
    given = f"tokenizer.chat_template = {_long(found.chatml)}" if found.chatml else ""
    title = "ChatML, with the learned part marked." if found.chatml else "The model's own chat template."
    if run.options.data.chat_template is ChatTemplate.AUTO and found.chatml:
        title = "The model has no chat template: ChatML, with the learned part marked."
    is_marked = found.template is Template.MARKED
    write = WRITE_MARKED if is_marked else WRITE_PLAIN
    imports = ["from transformers.utils.chat_template_utils import render_jinja_template"]
    return Part(title, f"{given}\n{write}", (*imports, "import os"))


def _long(text: str) -> str:
    """A text of several lines as code."""
    return 'r"""' + text + '"""' if '"""' not in text else repr(text)


def _learning(run: Resolved, facts: ScriptFacts) -> Part:
    data, found = run.options.data, facts.conversations
    assert found is not None
    if run.options.task is Task.PREFERENCE:
        code = LEARN_PAIR
    elif R.TEXT in found.columns:
        code = LEARN_TEXT
    elif data.loss_on is LossOn.EVERYTHING:
        code = LEARN_ALL
    else:
        code = ENDS + "\n" + LEARN_ANSWERS
    lines = ["samples = [sample for row in rows if (sample := sample_of(row))]"]
    imports = ["from datasets import Dataset"]
    limit = f"[:{data.max_eval_samples}]" if data.max_eval_samples else ""
    if facts.eval_rows is not None:
        lines += ["train, evaluation = samples, [found for row in eval_rows if (found := sample_of(row))]"]
    elif not data.eval_fraction:
        lines += ["train, evaluation = samples, []"]
    else:
        code += PLAIN_SPLIT
        imports.append("import numpy as np")
        lines += [
            f"train_numbers, eval_numbers = hold_out(len(samples), {literal(data.eval_fraction)})",
            "train = [samples[number] for number in train_numbers]",
            f"evaluation = [samples[number] for number in eval_numbers{limit}]",
        ]
    lines += _as_data_sets(run)
    if data.packing:
        imports.append("from trl import pack_dataset")
    return Part("Conversations to tokens.", code + "\n\n" + "\n".join(lines), tuple(imports))


def _as_data_sets(run: Resolved) -> list[str]:
    """TRL takes data sets of the library `datasets`; grouped by length, the column `length` tells it."""
    sized = 'len(row["input_ids"])'
    if run.options.task is Task.PREFERENCE:
        sized = 'len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"]))'
    if run.options.data.packing:
        lines = [
            "train = Dataset.from_list(train)",
            'train = pack_dataset(train, LENGTH, "bfd")  # several in a row',
        ]
        if run.options.data.group_by_length == "on":
            lines.append('train = train.add_column("length", [len(row) for row in train["input_ids"]])')
    else:
        lines = [f'train = Dataset.from_list([{{**row, "length": {sized}}} for row in train])']
    return [
        *lines,
        f'evaluation = Dataset.from_list([{{**row, "length": {sized}}} for row in evaluation]) if evaluation else None',
    ]


def _random(run: Resolved) -> Part:
    found = parse_synthetic(run.options.data.train)
    assert found is not None
    count = min(found[0], run.options.data.max_train_samples or found[0])
    size = found[1]
    head = "random = np.random.default_rng(SEED)\nvocabulary = config.get_text_config().vocab_size\n"
    imports = ["import numpy as np", "from datasets import Dataset"]
    if run.options.task is Task.PREFERENCE:
        wide = {"prompt_ids": size // 2, "chosen_ids": size - size // 2, "rejected_ids": size - size // 2}
        lines = [f"widths = {literal(wide)}"]
        lines.append(
            f"columns = {{name: random.integers(0, vocabulary, ({count}, width)).tolist() "
            "for name, width in widths.items()}"
        )
        lines.append(f'columns["length"] = [{size}] * {count}')
        lines.append("train, evaluation = Dataset.from_dict(columns), None")
    else:
        lines = [f"ids = random.integers(0, vocabulary, ({count}, {size}))"]
        lines += ["labels = ids.copy()", f"labels[:, : {size // 2}] = -100"]
        lines.append(
            'columns = {"input_ids": ids.tolist(), "labels": labels.tolist(), '
            f'"length": [{size}] * {count}}}'
        )
        lines.append("train, evaluation = Dataset.from_dict(columns), None")
        if run.options.data.packing:
            imports.append("from trl import pack_dataset")
            lines.append('train = pack_dataset(train.remove_columns("length"), LENGTH, "bfd")')
    return Part("Random tokens, for timing.", head + "\n".join(lines), tuple(imports))
