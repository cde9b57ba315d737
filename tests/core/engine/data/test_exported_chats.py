"""Chats as ChatGPT, Claude and WhatsApp export them are read as conversations, and what isn't one is left alone."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.engine.data.running_text import is_plain_text
from core.engine.data.tables import Table, read_table
from core.engine.inspect.report import suiting_task
from core.options.choices import Task
from core.options.presets import find_task
from tests.fakes.conversations import checked


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def written(folder: Path, value: Any, name: str = "conversations.json") -> Path:
    (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder / name


def said(table: Table) -> list[list[tuple[str, str]]]:
    """Who says what, chat by chat."""
    return [
        [tuple(message.values()) for message in messages] for messages in table.rows["messages"].to_pylist()
    ]


# --- ChatGPT


Spoken = dict[str, Any]


def says(role: str, *parts: Any, kind: str = "text", **more: Any) -> Spoken:
    return {
        "author": {"role": role},
        "content": {"content_type": kind, "parts": list(parts)},
        "recipient": "all",
        "metadata": {},
        **more,
    }


def tree(*branches: list[Spoken | None], kept: int = 0, title: str = "A chat") -> dict[str, Any]:
    """A chat whose branches go out from the end of the first list's first message; `kept` is the one shown last."""
    numbers, mapping, ends = count(), dict[str, Any](), []
    root = f"n{next(numbers)}"
    mapping[root] = {"id": root, "message": None, "parent": None, "children": []}
    for branch in branches:
        parent = root
        for message in branch:
            name = f"n{next(numbers)}"
            mapping[parent]["children"].append(name)
            mapping[name] = {"id": name, "message": message, "parent": parent, "children": []}
            parent = name
        ends.append(parent)
    return {"title": title, "mapping": mapping, "current_node": ends[kept]}


ASKED, ANSWERED = says("user", "Is it open?"), says("assistant", "Yes, until 6.")
PICTURE = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
SPOKEN = {"content_type": "audio_transcription", "text": "Is it open?"}
SOUND = {"content_type": "real_time_user_audio_video_asset_pointer"}
TALK = [("user", "Is it open?"), ("assistant", "Yes, until 6.")]
CHATS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "two messages": (tree([ASKED, ANSWERED]), TALK),
    "the branch that was kept": (
        tree([ASKED, says("assistant", "No.")], [ASKED, ANSWERED], [ASKED, says("assistant", "?")], kept=1),
        TALK,
    ),
    "no current node": ({**tree([ASKED], [ASKED, ANSWERED]), "current_node": None}, TALK),
    "system and instructions": (
        tree(
            [
                says("system", ""),
                says("system", "You are ChatGPT"),
                says("user", kind="user_editable_context"),
                says("user", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
                ASKED,
                ANSWERED,
            ]
        ),
        TALK,
    ),
    "tools and thoughts": (
        tree(
            [
                ASKED,
                says("assistant", kind="thoughts"),
                says("assistant", "search('hours')", kind="code", recipient="browser"),
                says("assistant", "open('x')", recipient="browser"),
                says("tool", "9 to 6"),
                ANSWERED,
            ]
        ),
        TALK,
    ),
    "a picture": (
        tree(
            [
                says("user", PICTURE, "What is it?", kind="multimodal_text"),
                says("assistant", "A cat."),
                ASKED,
                ANSWERED,
            ]
        ),
        TALK,
    ),
    "a picture, an answer that was stopped, and its question": (
        tree(
            [
                says("user", PICTURE, kind="multimodal_text"),
                says("assistant", ""),
                says("user", "What is it?"),
                says("assistant", "A cat."),
                ASKED,
                ANSWERED,
            ]
        ),
        TALK,
    ),
    "a file": (
        tree(
            [
                says("user", "What does it say?", metadata={"attachments": [{"name": "a.pdf"}]}),
                says("assistant", "Nothing."),
                ASKED,
                ANSWERED,
            ]
        ),
        TALK,
    ),
    "silence before a question": (tree([says("user", ""), ASKED, ANSWERED]), TALK),
    "a picture before its question": (
        tree(
            [
                says("user", PICTURE, kind="multimodal_text"),
                says("user", "What is it?"),
                says("assistant", "A cat."),
                ASKED,
                ANSWERED,
            ]
        ),
        TALK,
    ),
    "a voice": (tree([says("user", SPOKEN, SOUND, kind="multimodal_text"), ANSWERED]), TALK),
    "answers in a row": (
        tree([ASKED, ANSWERED, says("assistant", "Bye.")]),
        [TALK[0], ("assistant", "Yes, until 6.\n\nBye.")],
    ),
    "empty messages": (tree([None, ASKED, says("assistant", ""), ANSWERED]), TALK),
}


@pytest.mark.parametrize(("chat", "expected"), CHATS.values(), ids=CHATS)
def test_a_chat_of_chatgpt_is_what_user_and_assistant_wrote(tmp_path, chat, expected):
    path = written(tmp_path, [chat, tree([ASKED, ANSWERED])])
    table = read_table(path)
    assert said(table) == [expected, TALK]
    assert (table.format, table.columns) == ("ChatGPT", ("title", "messages"))
    assert any("export of ChatGPT" in message for message in table.messages)
    assert suiting_task(table) is find_task(str(path)) is Task.CHAT
    assert checked(table).problems == ()


@pytest.mark.parametrize(
    "chat",
    [
        tree([ASKED]),
        tree([says("assistant", "Hello!")]),
        tree([says("user", PICTURE, kind="multimodal_text"), says("assistant", "A cat.")]),
        {**tree([ASKED, ANSWERED]), "mapping": {}},
    ],
    ids=["no answer", "no question", "about a picture", "nothing"],
)
def test_a_chat_without_question_and_answer_is_left_out_and_counted(tmp_path, chat):
    table = read_table(written(tmp_path, [chat, tree([ASKED, ANSWERED]), chat]))
    assert said(table) == [TALK]
    assert table.where(0) == "example 2 of conversations.json"
    assert any(message.startswith("2 chats") for message in table.messages)


def test_a_tree_with_a_circle_ends(tmp_path):
    chat = tree([ASKED, ANSWERED])
    chat["mapping"]["n1"]["parent"] = "n2"
    assert said(read_table(written(tmp_path, [chat]))) == [TALK]


# --- Claude


def claude(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"uuid": "1", "name": "A chat", "chat_messages": list(messages)}


def writes(sender: str, *texts: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "text", "text": text} for text in texts]
    return {
        "sender": sender,
        "text": "".join(texts),
        "content": parts,
        "attachments": [],
        "files": [],
        **more,
    }


OPEN, UNTIL_6 = writes("human", "Is it open?"), writes("assistant", "Yes, until 6.")
USED = [{"type": "tool_use", "name": "x", "input": {"a": 1}}, *UNTIL_6["content"]]
OF_CLAUDE: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "two messages": (claude(OPEN, UNTIL_6), TALK),
    "an old one": (claude({"sender": "human", "text": "Is it open?"}, UNTIL_6), TALK),
    "tools": (claude(OPEN, {**UNTIL_6, "text": "unsupported block", "content": USED}), TALK),
    "a picture": (
        claude(
            writes("human", "What?", files=[{"file_name": "a.png"}]),
            writes("assistant", "Cat"),
            OPEN,
            UNTIL_6,
        ),
        TALK,
    ),
    "an attached text": (
        claude(writes("human", "Read:", attachments=[{"extracted_content": "9 to 6"}]), UNTIL_6),
        [("user", "Read:\n\n9 to 6"), TALK[1]],
    ),
}


@pytest.mark.parametrize(("chat", "expected"), OF_CLAUDE.values(), ids=OF_CLAUDE)
def test_a_chat_of_claude_is_what_human_and_assistant_wrote(tmp_path, chat, expected):
    path = written(tmp_path, [chat, claude(OPEN, UNTIL_6)])
    table = read_table(path)
    assert said(table) == [expected, TALK]
    assert table.format == "Claude"
    assert suiting_task(table) is find_task(str(path)) is Task.CHAT


def test_a_single_chat_is_one_example(tmp_path):
    for chat in (tree([ASKED, ANSWERED]), claude(OPEN, UNTIL_6)):
        assert said(read_table(written(tmp_path, chat))) == [TALK]


@pytest.mark.parametrize(
    "row",
    [
        {"mapping": {"a": 1}, "text": "x"},
        {"mapping": "a to b", "text": "x"},
        {"chat_messages": "none", "text": "x"},
        {"mapping": {}, "text": "x"},
        {"mapping": {"a": {"message": "m", "parent": "p"}}, "text": "x"},
        {"chat_messages": [], "text": "x"},
        {"chat_messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
        {"messages": [{"role": "user", "content": "x"}]},
    ],
    ids=str,
)
def test_other_data_is_no_export(tmp_path, row):
    table = read_table(written(tmp_path, [row]))
    assert (table.format, table.columns) == ("JSON", tuple(row))
    assert not any("export" in message for message in table.messages)


# --- WhatsApp


IOS = """\u200e[31.12.23, 22:15:03] Anna: \u200eMessages and calls are end-to-end encrypted.
[31.12.23, 22:15:10] Anna: Is it open?
Or not?
[31.12.23, 22:16:00] Ben K.: Yes: until 6.
[31.12.23, 22:16:30] Ben K.: Bye
\u200e[31.12.23, 22:17:00] Anna: \u200eimage omitted
[01.01.24, 09:00:00] Anna: Hello?
[02.01.24, 09:00:00] Ben K.: Here
[02.01.24, 09:01:00] Anna: Good
"""
ANDROID = """12/31/23, 9:00 AM - Messages and calls are end-to-end encrypted. Tap to learn more.
12/31/23, 10:15\u202fPM - Anna: Is it open?
Or not?
12/31/23, 10:16\u202fPM - Ben K.: Yes: until 6.
12/31/23, 10:16\u202fPM - Ben K.: Bye
12/31/23, 10:17\u202fPM - Anna: <Media omitted>
1/1/24, 9:00\u202fAM - Anna: Hello?
1/2/24, 9:00\u202fAM - Ben K.: Here
1/2/24, 9:01\u202fAM - Anna: Good
"""
GERMAN = (
    ANDROID.replace("12/31/23, 10:1", "31.12.23, 22:1").replace("\u202fPM", "").replace("Media", "Medien")
)
BRAZIL = GERMAN.replace("31.12.23, ", "31/12/2023 ")
DAYS = [
    [("Anna", "Is it open?\nOr not?"), ("Ben K.", "Yes: until 6.\nBye")],
    [("Ben K.", "Here"), ("Anna", "Good")],
]


@pytest.mark.parametrize("text", [IOS, ANDROID, GERMAN, BRAZIL], ids=["iOS", "Android", "German", "Brazil"])
def test_each_day_of_a_whatsapp_chat_is_a_conversation_of_its_people(tmp_path, text):
    path = tmp_path / "chat.txt"
    path.write_text(text, encoding="utf-8")
    assert not is_plain_text(path)
    table = read_table(path)
    assert said(table) == DAYS
    assert (table.format, table.where(0)) == ("WhatsApp", "line 2 of chat.txt")
    assert suiting_task(table) is find_task(str(path)) is Task.CHAT
    assert [message for message in table.messages if message.startswith("1 day ")]


def test_messages_of_whatsapp_keep_their_lines(tmp_path):
    path = tmp_path / "chat.txt"
    path.write_text(
        "12/31/23, 10:15 - Anna: \nIs it open?\n\nOr not?\n"
        "12/31/23, 10:16 - Ben: <Media omitted>\nThese are the hours\n"
        "12/31/23, 10:17 - Anna: \n12/31/23, 10:18 - Anna: Bye\u200e\nnow\n"
        "12/31/23, 10:19 - Ben: Look \u200eimage omitted\n"
        "12/31/23, 10:20 - Anna: \u200eIMG-1.jpg (file attached)\nThe <b>cat</b>\n"
        "12/31/23, 10:21 - Ben: \u200evideo omitted\n12/31/23, 10:22 - Ben: <Media omitted>\n"
        "12/31/23, 10:23 - Ben: VID-2.mp4 (Datei angehängt)\n12/31/23, 10:24 - Ben: null\n"
        '12/31/23, 10:25 - Ben created group "House: Garden"\n'
        '12/31/23, 10:26 - Ben "Benny" Lee: I see <This message was edited>\n'
        "12/31/23, 10:27 - Anna: example.com (nice)\nand <a href='x y'>\n"
    )
    asked, answered = ("Anna", "Is it open?\n\nOr not?"), ("Ben", "These are the hours")
    expected = [asked, answered, ("Anna", "Bye\nnow"), ("Ben", "Look"), ("Anna", "The <b>cat</b>")]
    expected += [('Ben "Benny" Lee', "I see"), ("Anna", "example.com (nice)\nand <a href='x y'>")]
    assert said(read_table(path)) == [expected]


def test_the_person_decides_whom_the_model_answers_as(tmp_path):
    path = tmp_path / "chat.txt"
    path.write_text(IOS, encoding="utf-8")
    table = read_table(path)
    asked = checked(table)
    assert {finding.code for finding in asked.problems} == {"unknown-role"}
    offered = [
        fix.changes["data.roles"] for finding in asked.problems for fix in finding.fixes if fix.changes
    ]
    assert {"Anna": "assistant"} in offered
    assert {"Ben K.": "assistant"} in offered
    read = checked(table, roles={"Anna": "user", "Ben K.": "assistant"})
    assert read.problems == ()
    assert [message["role"] for message in read.rows[0].messages] == ["user", "assistant"]


@pytest.mark.parametrize(
    "text",
    [
        "2023-12-31 22:15:00 - INFO: started\n2023-12-31 22:15:01 - WARNING: slow\n" * 20,
        "31-12-2023 22:15:00 - INFO: started\n31-12-2023 22:15:01 - WARNING: slow\n" * 20,
        "On 12/31/23, 10:15 - Anna: I wrote to Ben: come.\nHe came, and we talked.\n" * 20,
        "12/31/23, 10:15 PM - Anna: my diary\n" * 20,
        "Anna: Is it open?\nBen: Yes\n" * 20,
    ],
    ids=["a log", "a log of days", "prose", "one person", "no dates"],
)
def test_other_texts_are_no_whatsapp_chat(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    assert find_task(str(path)) is not Task.CHAT
