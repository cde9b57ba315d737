"""Chats as ChatGPT and Claude export them (JSON), and WhatsApp (text): each becomes a row with a list of messages."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from core.base.language import _, ngettext
from core.engine.data.text_files import NewWriter, ParsedRows, ReadingNote, TextFile
from core.options.presets import WHATSAPP_LINE

Said = tuple[str, str | None]
"""Who, and what; None where something else than text was sent."""

# --- ChatGPT and Claude: `conversations.json`


USER, ASSISTANT = "user", "assistant"
SOUNDS = ("audio_asset_pointer", "real_time_user_audio_video_asset_pointer")
"""Parts of a message of ChatGPT beside which their transcription stands."""
EXPORTS = {
    "ChatGPT": _(
        "{name} is an export of ChatGPT. Each chat is read along the branch that was kept: what user and assistant "
        "wrote. Questions with a picture or a file are left out with their answers."
    ),
    "Claude": _(
        "{name} is an export of Claude. What user and assistant wrote is read. Questions with a picture "
        "or another file without text are left out with their answers."
    ),
}


class ChatExport:
    """Turns the chats among the records of a file into `{"title": ..., "messages": [...]}`; others stay as they are.

    `app` is the program that wrote them, empty if there are none.
    """

    def __init__(self) -> None:
        self.app = ""
        self._empty: set[int] = set()

    def rows(self, blocks: Iterable[tuple[list[Any], list[int]]]) -> Iterator[tuple[list[Any], list[int]]]:
        """Yields the records in blocks, with the place of each; an empty one is dropped when written."""
        for records, numbers in blocks:
            yield [self._row(*one) for one in zip(records, numbers, strict=True)], numbers

    def notes(self, name: str) -> Iterator[ReadingNote]:
        """Yields what was read of the file `name`, and how much of it was left out."""
        if self.app:
            yield ReadingNote(EXPORTS[self.app].format(name=name))
        if count := len(self._empty):
            sentence = ngettext(
                "{count:,} chat without a question and its answer as text is left out.",
                "{count:,} chats without a question and its answer as text are left out.",
                count,
            )
            yield ReadingNote(sentence.format(count=count))

    def _row(self, record: Any, number: int) -> Any:
        if not isinstance(record, dict):
            return record
        if _is_tree(record):
            self.app, title, said = "ChatGPT", record.get("title"), _kept_branch(record)
        elif _is_of_claude(record):
            self.app, title, said = "Claude", record.get("name"), _of_claude(record["chat_messages"])
        else:
            return record
        if messages := _turns(said):
            return {"title": str(title or ""), "messages": messages}
        self._empty.add(number)
        return {}


def _is_tree(record: dict[str, Any]) -> bool:
    """Returns whether a record is a chat of ChatGPT: messages, or none and where they would be shown."""
    nodes = record.get("mapping")
    if not nodes:
        return nodes == {} and "current_node" in record
    return isinstance(nodes, dict) and all(
        isinstance(node, dict) and "parent" in node and isinstance(node.get("message", ""), dict | None)
        for node in nodes.values()
    )


def _is_of_claude(record: dict[str, Any]) -> bool:
    """Returns whether a record is a chat of Claude: messages with a sender, or none and the chat's number."""
    messages = record.get("chat_messages")
    if not messages:
        return messages == [] and "uuid" in record
    return isinstance(messages, list) and all(
        isinstance(message, dict) and "sender" in message for message in messages
    )


def _kept_branch(record: dict[str, Any]) -> Iterator[Said]:
    """Yields what was said from the root of the tree to the message that was shown last."""
    nodes, branch = record["mapping"], dict[str, Any]()
    leaves = [name for name, node in nodes.items() if not node.get("children")]
    current = record.get("current_node")
    at = current if isinstance(current, str) and current in nodes else next(reversed(leaves), None)
    while isinstance(at, str) and at in nodes and at not in branch:  # damaged ones have circles
        branch[at] = nodes[at]["message"]
        at = nodes[at]["parent"]
    for message in reversed(branch.values()):
        yield from _of_chatgpt(message)


def _of_chatgpt(message: Any) -> Iterator[Said]:
    """Yields what user and assistant say to each other, without tool calls, thoughts and instructions."""
    author, content, more = (_part(message, name) for name in ("author", "content", "metadata"))
    is_hidden = (
        more.get("is_visually_hidden_from_conversation") or _part_of(message, "recipient", "all") != "all"
    )
    kind = content.get("content_type")
    if author.get("role") not in (USER, ASSISTANT) or is_hidden or kind not in ("text", "multimodal_text"):
        return
    parts = content.get("parts")
    texts = [
        part.get("text", part) if _part_of(part, "content_type") == "audio_transcription" else part
        for part in (parts if isinstance(parts, list) else ())
        if _part_of(part, "content_type") not in SOUNDS
    ]
    is_text = not more.get("attachments") and all(isinstance(text, str) for text in texts)
    yield author["role"], "\n".join(texts) if is_text else None


def _of_claude(messages: list[Any]) -> Iterator[Said]:
    for message in messages:
        speaker = {"human": USER, ASSISTANT: ASSISTANT}.get(_part_of(message, "sender"))
        if speaker is None:
            continue
        parts = [part for part in _list(message, "content") if _part_of(part, "type") == "text"]
        texts = [_part_of(part, "text") for part in parts] or [_part_of(message, "text")]
        attached = [_part_of(file, "extracted_content") for file in _list(message, "attachments")]
        is_text = all(attached) and not _list(message, "files")
        yield speaker, "\n\n".join(filter(None, (*texts, *attached))) if is_text else None


def _part(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _list(value: dict[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []


def _part_of(value: Any, name: str, default: str = "") -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else default


def _turns(said: Iterable[Said]) -> list[dict[str, str]]:
    """Returns questions and their answers, the messages of one speaker joined; none if nothing is answered."""
    heard = (
        (speaker, text) for speaker, text in said if (text or "").strip() or (speaker, text) == (USER, None)
    )
    turns, is_question = list[dict[str, str]](), False
    for speaker, messages in groupby(heard, itemgetter(0)):
        texts = [text for _speaker, text in messages]
        if speaker == USER:
            is_question = None not in texts
        if is_question:
            turns.append({"role": speaker, "content": "\n\n".join(filter(None, texts))})
    return turns if len(turns) > 1 else []


# --- WhatsApp's text: `[31.12.23, 22:15:03] Anna: Hi` or `12/31/23, 10:15 PM - Anna: Hi`


WHATSAPP = "WhatsApp"
MARKS = "\u200e\u200f\u202a\u202c"
"""Marks of direction: before the notices that WhatsApp writes in a person's name, and around names."""
BLOCK_DAYS = 5000
_OWN = re.compile(r"(?:^|\s)\u200e.*|\s<[^\W\d_]+(?:\s[^\W\d_]+)+\.?>$")
"""What WhatsApp writes after a person's words, too: `\u200eimage omitted`, `<This message was edited>`."""
_FILES = "jpe?g|png|webp|gif|mp4|3gp|opus|m4a|mp3|aac|ogg|pdf|vcf|docx?|xlsx?|pptx?|zip"
_OWN_FIRST = re.compile(rf"<[^<>]+>|.+\.(?:{_FILES}) \([^()]+\)|null")
"""What it writes as a first line: `<Media omitted>`, `IMG-1.jpg (file attached)`, `null` for what was seen once."""
_QUOTES = re.compile(r'["“”„«»]')
_MESSAGE = pa.struct([("from", pa.string()), ("value", pa.string())])
_KIND = pa.schema([("date", pa.string()), ("messages", pa.list_(_MESSAGE))])


def parse_whatsapp(source: TextFile, new_writer: NewWriter) -> ParsedRows:
    """Reads a chat, of which each day becomes a row; its people are the speakers, whose roles the options say."""
    writer, left_out = new_writer(_KIND), 0

    def rows() -> Iterator[tuple[int, dict[str, Any]]]:
        nonlocal left_out
        for date, messages in groupby(_whatsapp_messages(source), itemgetter(1)):
            said = list(messages)
            turns = [
                {"from": name, "value": "\n".join(text for *_rest, text in of_one)}
                for name, of_one in groupby(said, itemgetter(2))
            ]
            if len(turns) > 1:
                yield said[0][0], {"date": date, "messages": turns}
            else:
                left_out += 1

    days = rows()
    while block := list(islice(days, BLOCK_DAYS)):
        numbers, found = zip(*block, strict=True)
        writer.add(pa.RecordBatch.from_pylist(list(found), schema=_KIND), np.array(numbers, np.int64))
    notes = [
        _(
            "{name} is a chat of WhatsApp. Each day is a conversation; pictures and marked notices are left out, words "
            "such as “This message was deleted” are not. Decide whom the model is to answer as: read that person as "
            "the assistant, and the others as users."
        ).format(name=source.path.name)
    ]
    if left_out:
        sentence = ngettext(
            "{count:,} day without texts of two people is left out.",
            "{count:,} days without texts of two people are left out.",
            left_out,
        )
        notes.append(sentence.format(count=left_out))
    return ParsedRows(writer, WHATSAPP, "line", tuple(map(ReadingNote, notes)))


def _whatsapp_messages(source: TextFile) -> Iterator[tuple[int, str, str, str]]:
    """Yields line, date, person and text of each message; a line without a date continues the message before."""
    head, said = (0, "", ""), list[str]()
    for first, lines in source.lines():
        for number, line in enumerate(lines, first):
            if found := WHATSAPP_LINE.match(line):
                if text := _text_of(said):
                    yield *head, text
                head = (number, found["date"], (found["name"] or "").strip(f"{MARKS} ~"))
                is_notice = not head[-1] or len(_QUOTES.findall(head[-1])) % 2  # of a group “House: garden”
                said = [] if is_notice else [found["text"]]
            elif said:
                said.append(line)
    if text := _text_of(said):
        yield *head, text


def _text_of(lines: list[str]) -> str:
    """Returns what a person wrote in a message of these lines; empty if it is a notice, or a picture without words."""
    if not lines:
        return ""
    is_own = lines[0].startswith("\u200e") or _OWN_FIRST.fullmatch(lines[0].strip(f"{MARKS} "))
    written = (_OWN.sub("", line).strip(MARKS).rstrip() for line in lines[bool(is_own) :])
    return "\n".join(written).strip("\n")
