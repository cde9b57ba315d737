"""The pieces of code that scripts for conversations are made of; `core.script.chats` puts them together."""

SPEAKERS = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "chatgpt": "assistant",
}
"""The names of speakers that scripts know; `data.roles` adds to them."""

MESSAGES = '''
SPEAKERS = {speakers}


def messages_of(cell, speaker):
    """A cell as messages: those it holds, or one of `speaker` with its text."""
    found = cell
    if isinstance(cell, str) and cell.lstrip().startswith(("[", "{{")):
        try:
            found = json.loads(cell)
        except ValueError:
            pass
    if isinstance(found, dict):
        inner = [found[name] for name in ("messages", "conversations", "conversation") if name in found]
        found = inner[0] if inner else [found]
    says_who = isinstance(found, list) and any(
        isinstance(item, dict) and {{"role", "from", "speaker"}} & item.keys() for item in found
    )
    if says_who:
        return [message(item) for item in found]
    return [{{"role": speaker, "content": cell}}] if cell and cell.strip() else []


def message(item):
    """One message, by OpenAI's names or ShareGPT's."""
    if item.get("tool_calls") or item.get("function_call"):
        raise SystemExit("There are calls of tools in the data, which this script doesn't write.")
    role = next(item[name] for name in ("role", "from", "speaker") if item.get(name) is not None)
    content = next(item[name] for name in ("content", "value", "text") if item.get(name) is not None)
    if isinstance(content, list):
        content = "".join(part if isinstance(part, str) else part["text"] for part in content)
    return {{"role": SPEAKERS[role if role in SPEAKERS else role.strip().lower()], "content": content}}


def in_turns(messages):
    """Messages of one speaker that follow each other become one, with a blank line between them."""
    turns = []
    for found in messages:
        if turns and turns[-1]["role"] == found["role"]:
            both = (turns[-1]["content"], found["content"])
            turns[-1] = {{**found, "content": "\\n\\n".join(text for text in both if text.strip())}}
        else:
            turns.append(found)
    return turns
'''

ASKED = '''
def asked(row, names):
    """A question with its material after it."""
    texts = [row[name] for name in names if (row.get(name) or "").strip()]
    return [{"role": "user", "content": "\\n\\n".join(texts)}]
'''

WRITE_MARKED = '''
def render(messages, asks=False, marked=False):
    """The conversation as its template writes it, and where it marks the answers."""
    texts, spans = render_jinja_template(
        conversations=[messages],
        chat_template=tokenizer.chat_template,
        return_assistant_tokens_mask=marked,
        add_generation_prompt=asks,
        **tokenizer.special_tokens_map,
    )
    return texts[0], spans[0] if marked else []


def write(messages):
    """The conversation as one text, and the spans of its answers, which the template marks itself."""
    return render(messages, marked=True)
'''

WRITE_PLAIN = '''
def render(messages, asks=False):
    """The conversation as its template writes it."""
    texts, _ = render_jinja_template(
        conversations=[messages],
        chat_template=tokenizer.chat_template,
        add_generation_prompt=asks,
        **tokenizer.special_tokens_map,
    )
    return texts[0], []


def write(messages):
    """The conversation as one text, and the spans of its answers: by what it begins with up to and through each."""
    whole, _ = render(messages)
    found = (span(whole, messages, place) for place, one in enumerate(messages) if one["role"] == "assistant")
    return whole, [one for one in found if one]


def span(whole, messages, place):
    """Where an answer stands; None where the template rewrites earlier turns, so that it can't be told."""
    asking = render(messages[:place], asks=True)[0] if place else ""
    before, through = beginning(whole, messages[:place]), beginning(whole, messages[: place + 1])
    start = len(os.path.commonprefix([asking, whole]))
    if before is None or through is None or start < len(before):
        return None
    content = messages[place]["content"].strip()
    if not len(before) < len(asking) == start and content:  # its header is written without being asked for
        turn = through[start:]
        start += len(turn[: max(turn.find(content), 0)].rstrip())
    end = through.find(content, start) + len(content) if content else start
    trimmed = len(through.rstrip())  # white space after the mark that ends a turn isn't learned
    return start, trimmed if trimmed > max(end, start) else len(through)


def beginning(whole, messages):
    """These messages as `whole` begins with them; some templates put the end of text after whatever is last."""
    text = render(messages)[0] if messages else ""
    forms = (text, text.removesuffix(tokenizer.eos_token or ""))
    return next((form for form in forms if whole.startswith(form)), None)
'''

ENDS = '''
TURN_ENDS = {"<|im_end|>", "<|eot_id|>", "<|end_of_turn|>", "<end_of_turn>", "<turn|>", "<|end|>"}
TURN_ENDS |= {"<|endoftext|>", "</s>"}
ends = {number for number, token in tokenizer.added_tokens_decoder.items() if str(token.content) in TURN_ENDS}
ends |= {tokenizer.eos_token_id} - {None}


def is_within(text, start, end, spans):
    """Whether a token stands in an answer; one that reaches beyond it does if it holds only white space there."""
    for first, last in spans:
        if last > start and first <= start and end <= last:
            return True
        if last > start and end > first:
            return not (text[start:first] + text[last:end]).strip()
    return False
'''

LEARN_ANSWERS = '''
def sample_of(messages):
    """The conversation as tokens and labels; only its answers are learned. None where nothing is."""
    text, spans = write(messages)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    ids = encoded["input_ids"]
    learned = [is_within(text, start, end, spans) for start, end in encoded["offset_mapping"]]
    for place in range(1, len(ids)):  # the token that ends a turn is learned, or the model wouldn't learn to stop
        if learned[place - 1] and not learned[place] and ids[place] in ends:
            learned[place] = ids[place - 1] not in ends
    ids, learned = ids[:LENGTH], learned[:LENGTH]
    labels = [token if is_learned else -100 for token, is_learned in zip(ids, learned)]
    return {"input_ids": ids, "labels": [-100, *labels[1:]]} if any(learned) else None
'''
LEARN_ALL = '''
def sample_of(messages):
    """The conversation as tokens, all of which are learned but the first, before which nothing comes."""
    ids = tokenizer(write(messages)[0], add_special_tokens=False, verbose=False)["input_ids"][:LENGTH]
    return {"input_ids": ids, "labels": [-100, *ids[1:]]} if ids else None
'''
LEARN_TEXT = '''
def sample_of(text):
    """A plain text as tokens with the model's end of text after it; all but the first are learned."""
    ids = list(tokenizer(text, verbose=False)["input_ids"])
    if tokenizer.eos_token_id is not None and ids[-1:] != [tokenizer.eos_token_id]:
        ids.append(tokenizer.eos_token_id)
    return {"input_ids": ids[:LENGTH], "labels": [-100, *ids[1:LENGTH]]} if ids else None
'''
LEARN_PAIR = '''
def sample_of(pair):
    """A prompt and two answers as tokens; what both answers begin with, such as their header, is of the prompt."""
    prompt, chosen, rejected = pair
    better, worse = (tokens(to_the_end(prompt + answer)) for answer in (chosen, rejected))
    asked = tokens(render(prompt, asks=True)[0])
    shared = len(os.path.commonprefix([asked, better, worse]))
    room = LENGTH - shared
    if room < 1:
        return None
    return {
        "prompt_ids": better[:shared],
        "chosen_ids": better[shared:][:room],
        "rejected_ids": worse[shared:][:room],
    }


def tokens(text):
    """A text as tokens, and nothing around it."""
    return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def to_the_end(messages):
    """The text up to the end of its last answer; white space after that isn't learned."""
    text, spans = write(messages)
    end = spans[-1][1] if spans else len(text)
    return text if text[end:].strip() else text[:end]
'''
PAIR_OF = '''
def row_of(row):
    """A pair: the prompt, the better answer and the worse one, each as messages."""
    before = {before}
    chosen = messages_of(row[{chosen}], "assistant")
    rejected = messages_of(row[{rejected}], "assistant")
    if not any(found["role"] == "user" for found in before):
        chosen, rejected = transcript(chosen), transcript(rejected)
    if all(any(found["role"] == "user" for found in answer) for answer in (chosen, rejected)):
        most = min(len(chosen), len(rejected)) - 1  # whole conversations: what both begin with is the prompt
        shared = next((place for place in range(most) if chosen[place] != rejected[place]), most)
        told = [] if chosen[0]["role"] == "system" else [one for one in before if one["role"] == "system"]
        before, chosen, rejected = told + chosen[:shared], chosen[shared:], rejected[shared:]
    return in_turns(before), in_turns(chosen), in_turns(rejected)


def transcript(messages):
    """A text with `Human:` and `Assistant:` in it as messages; other messages as they are."""
    turn = re.compile(r"(?:^|\\n\\n)(Human|Assistant):[ ]?")
    if len(messages) != 1 or not turn.match(messages[0]["content"]):
        return messages
    _, *parts = turn.split(messages[0]["content"])
    roles = {{"Human": "user", "Assistant": "assistant"}}
    return [{{"role": roles[name], "content": said.strip()}} for name, said in zip(parts[::2], parts[1::2])]
'''
COLLATE_CHAT = '''
def collate(rows):
    """Rows filled up on the right; labels are -100 there."""
    width = max([{width}*(len(row["input_ids"]) for row in rows)])
    filled = {{"input_ids": tokenizer.pad_token_id, "labels": -100}}
    batch = {{
        name: torch.tensor([row[name] + [filling] * (width - len(row[name])) for row in rows])
        for name, filling in filled.items()
    }}
{rest}
'''
WITH_MASK = """    ones = [len(row["input_ids"]) for row in rows]
    batch["attention_mask"] = torch.tensor([[1] * count + [0] * (width - count) for count in ones])
    return batch"""
WITH_POSITIONS = """    # Positions begin anew with each conversation: so those of a packed row don't see each other.
    places = [[place for length in row["seq_lengths"] for place in range(length)] for row in rows]
    batch["position_ids"] = torch.tensor([found + [0] * (width - len(found)) for found in places])
    return batch"""
COLLATE_PAIRS = '''
def collate(pairs):
    """First a row for each better answer, then one for each worse, filled up on the right."""
    halves = [(pair["prompt_ids"], pair["chosen_ids"]) for pair in pairs]
    halves += [(pair["prompt_ids"], pair["rejected_ids"]) for pair in pairs]
    width = max([{width}*(len(prompt) + len(answer) for prompt, answer in halves)])

    def filled(rows, filling=0):
        return torch.tensor([row + [filling] * (width - len(row)) for row in rows])

    return {{
        "input_ids": filled([prompt + answer for prompt, answer in halves], tokenizer.pad_token_id),
        "attention_mask": filled([[1] * (len(prompt) + len(answer)) for prompt, answer in halves]),
        "completion_mask": filled([[0] * len(prompt) + [1] * len(answer) for prompt, answer in halves]),
    }}
'''
