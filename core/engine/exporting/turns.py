"""A chat template as pieces of text around each turn, found by rendering conversations, and as Ollama wants it.

Most templates write the same before and after each turn. Which text that is shows where the contents are words that
can be found again. What is found is held against the template on more conversations; one that does more than that
(tools, thoughts, a date) is either the same on all of them, or refused.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from jinja2.exceptions import TemplateError

Messages = Sequence[tuple[str, str]]
"""Roles and what they say."""
Render = Callable[[Messages, bool], str]
"""A conversation as text; whether it ends with what asks for an answer. Raises TemplateError where it refuses one."""

SYSTEM, FIRST, ANSWER, SECOND = "qqsystemqq", "qqfirstqq", "qqanswerqq", "qqsecondqq"


class SystemIn(Enum):
    """Where a system prompt stands: in a turn of its own, in the first or last question, or nowhere."""

    TURN = auto()
    FIRST = auto()
    LAST = auto()
    NOWHERE = auto()


@dataclass(frozen=True)
class Turns:
    """The text before and after each turn.

    `opening` stands first where there is no system prompt; `system` is what stands before and after one. `asking` comes
    at the end, for the model to answer.
    """

    opening: str
    system_in: SystemIn
    system: tuple[str, str]
    user: tuple[str, str]
    assistant: tuple[str, str]
    asking: str

    def write(self, messages: Messages) -> str:
        """A conversation that asks for an answer."""
        said = next((content for role, content in messages if role == "system"), "")
        turns = [(role, content) for role, content in messages if role != "system"]
        asked = [place for place, (role, _) in enumerate(turns) if role == "user"]
        holder = {SystemIn.FIRST: asked[:1], SystemIn.LAST: asked[-1:]}.get(self.system_in, [])
        own = said and self.system_in is SystemIn.TURN
        text = f"{self.system[0]}{said}{self.system[1]}" if own else self.opening
        for place, (role, content) in enumerate(turns):
            before, after = self.user if role == "user" else self.assistant
            within = f"{said}{self.system[1]}" if said and place in holder else ""
            text += f"{before}{within}{content}{after}"
        return text + self.asking

    def as_go(self) -> str:
        """The same as a template for Ollama: https://docs.ollama.com/modelfile#template, in Go's text/template."""
        opening, asking = _go(self.opening), _go(self.asking)
        before, after = map(_go, self.system)
        within = f"{{{{ $.System }}}}{after}{{{{ end }}}}"
        start, mark = "{{ range .Messages }}", ""
        match self.system_in:
            case SystemIn.TURN:
                otherwise = f"{{{{ else }}}}{opening}" if opening else ""
                opening = f"{{{{ if .System }}}}{before}{{{{ .System }}}}{after}{otherwise}{{{{ end }}}}"
                within = ""
            case SystemIn.FIRST:
                opening = f"{opening}{{{{ $first := true }}}}"
                within, mark = f"{{{{ if and $first $.System }}}}{within}", "{{ $first = false }}"
            case SystemIn.LAST:
                start = "{{ range $place, $_ := .Messages }}"
                within = f"{{{{ if and (eq (len (slice $.Messages $place)) 1) $.System }}}}{within}"
            case SystemIn.NOWHERE:
                within = ""
        user, assistant = tuple(map(_go, self.user)), tuple(map(_go, self.assistant))
        return (
            f'{opening}{start}{{{{ if eq .Role "user" }}}}{user[0]}{within}{mark}{{{{ .Content }}}}{user[1]}'
            f'{{{{ else if eq .Role "assistant" }}}}{assistant[0]}{{{{ .Content }}}}{assistant[1]}'
            f"{{{{ end }}}}{{{{ end }}}}{asking}"
        )


def _go(text: str) -> str:
    """A piece of text within a template of Go's."""
    return text.replace("{{", '{{ "{{" }}')


def renderer(tokenizer: Any) -> Render:
    """Renders by a tokenizer's template, without the token that Ollama puts before every text by itself."""
    begin = tokenizer.bos_token or ""

    def render(messages: Messages, ask: bool) -> str:
        told = [{"role": role, "content": content} for role, content in messages]
        text = str(tokenizer.apply_chat_template(told, tokenize=False, add_generation_prompt=ask))
        return text.removeprefix(begin) if begin else text

    return render


def find_turns(render: Render) -> Turns | None:
    """The pieces of a template; None where it writes more than such pieces."""
    try:
        found = _without_system(render)
    except (TemplateError, ValueError):
        return None
    return next((turns for turns in _with_system(found, render) if _agrees(turns, render)), None)


def _without_system(render: Render) -> Turns:
    asked = (("user", FIRST), ("assistant", ANSWER), ("user", SECOND))
    head, middle, between, end = _cut(render(asked, True), FIRST, ANSWER, SECOND)
    _, after_user = _cut(render(asked[:1], False), FIRST)
    after_answer = _cut(render(asked[:2], False), FIRST, ANSWER)[2]
    user_after = (
        after_user if middle.startswith(after_user) and end.startswith(after_user) else _common(middle, end)
    )
    user_before = between.removeprefix(after_answer)
    if not (between.startswith(after_answer) and head.endswith(user_before)):
        user_before = _common(head[::-1], between[::-1])[::-1]
    return Turns(
        opening=head[: len(head) - len(user_before)],
        system_in=SystemIn.NOWHERE,
        system=("", ""),
        user=(user_before, user_after),
        assistant=(middle[len(user_after) :], between[: len(between) - len(user_before)]),
        asking=end[len(user_after) :],
    )


def _with_system(found: Turns, render: Render) -> Iterator[Turns]:
    """The same with what stands around a system prompt, all that it may be."""
    try:
        before, after, _ = _cut(render((("system", SYSTEM), ("user", FIRST)), True), SYSTEM, FIRST)
    except (TemplateError, ValueError):
        yield found
        return
    if after.endswith(found.user[0]):
        rest = after[: len(after) - len(found.user[0])]
        yield _replaced(found, SystemIn.TURN, (before, rest))
    for where in (SystemIn.FIRST, SystemIn.LAST):
        yield _replaced(found, where, ("", after))


def _replaced(found: Turns, where: SystemIn, system: tuple[str, str]) -> Turns:
    return Turns(found.opening, where, system, found.user, found.assistant, found.asking)


def _agrees(turns: Turns, render: Render) -> bool:
    """Whether the pieces make what the template makes."""
    talk = (
        ("user", "How are you?"),
        ("assistant", "Fine."),
        ("user", "Good."),
        ("assistant", "Yes."),
        ("user", "Bye"),
    )
    spoken = [talk[:1], talk[:3], talk]
    if turns.system_in is not SystemIn.NOWHERE:
        spoken += [(("system", "Be short."), *some) for some in spoken]
    try:
        return all(render(some, True) == turns.write(some) for some in spoken)
    except TemplateError:
        return False


def _cut(text: str, *marks: str) -> list[str]:
    """What stands before, between and after some words.

    Raises:
        ValueError: One of them isn't there.
    """
    pieces = []
    for mark in marks:
        before, found, text = text.partition(mark)
        if not found:
            raise ValueError(mark)
        pieces.append(before)
    return [*pieces, text]


def _common(one: str, other: str) -> str:
    """What two texts begin with."""
    length = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: min(len(one), len(other)) if length is None else length]
