"""A model that is tried answers as it did during training, before its first step and at last."""

import sys
from dataclasses import replace
from io import BytesIO
from typing import Any

import msgspec
import PIL.Image
import PIL.ImageOps
import pytest

from core.base.errors import ModelError, UserError
from core.cli.main import main
from core.engine.generate.chat_job import inference_options
from core.engine.generate.loading import load_model
from core.jobs.chat import Answered, Chat, ChatTurn, EndedBy, Image, Load, Loaded, Texts, Which
from core.options.catalogue import with_changes
from core.options.choices import ImageFit, Method, Speaker, Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions, TrainingOptions
from core.runs.folder import RunFolder
from core.runs.models import lacks_model
from core.services.chat import parameters_of
from tests.fakes.models import instructions, save_tiny_bert, save_tiny_talker, write_json, write_text
from tests.fakes.runs import save_checkpoint
from tests.fakes.training import Received, ask, examples, first_and_last, load, reviews, tried, write_reviews

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def said_to(text: str) -> Chat:
    return Chat(turns=(ChatTurn(Speaker.USER, text),))


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    save_tiny_talker(folder / "writer", TEMPLATE)
    write_json(folder / "talks.json", instructions(40))
    return tried(
        folder / "run",
        task=Task.CHAT,
        model=ModelOptions(source=str(folder / "writer"), method=Method.LORA, lora_rank=4),
        data=DataOptions(train=str(folder / "talks.json"), max_length=128, eval_fraction=0.2),
        training=TrainingOptions(max_steps=6, learning_rate=3e-2),
        output=OutputOptions(predictions=2, prompts=("Count to 3, please.",)),
    )


@pytest.fixture(scope="module")
def talker(talk):
    return load(talk)


class TestWriting:
    def test_greedy_answers_are_those_of_the_run(self, talk, talker):
        before, last = first_and_last(talk)
        assert [said.text for said in before] != [said.text for said in last]
        shown = examples(talk)
        assert [example.is_own for example in shown] == [False, False, True]
        first = load(talk, Which.BEFORE)
        for model, expected, off in ((talker, last, False), (first, before, False), (talker, before, True)):
            for example, said in zip(shown, expected, strict=True):
                text = Texts(texts=(example.given,), as_read=True)
                given = said_to(example.given) if example.is_own else text
                answered = ask(model, given, max_tokens=64, before=off)
                assert answered.text == said.text
                assert answered.name == (talker.name if expected is last else first.name)
                assert (answered.ended_by is EndedBy.LENGTH) == said.is_cut

    def test_a_stop_keeps_what_is_written(self, talker):
        received = Received(pieces=2)
        answered = ask(talker, said_to("Count to 7, please."), received, temperature=1.5, max_tokens=60)
        assert answered.ended_by is EndedBy.PERSON
        assert answered.text == "".join(received.pieces)
        assert answered.tokens < 20

    def test_chance_follows_its_seed_and_a_text_to_stop_at_is_left_out(self, talker):
        def write(seed: int, *stop_at: str) -> tuple[Answered, str]:
            received, sampled = Received(), {"temperature": 1.0, "max_tokens": 40, "seed": seed}
            answered = ask(talker, said_to("Count to 5, please."), received, stop_at=stop_at, **sampled)
            return answered, "".join(received.pieces)

        whole = write(2)[0].text
        assert whole == write(2)[0].text != write(1)[0].text
        stop = whole[6:9]
        cut, received = write(2, stop)
        assert cut.text == received == whole[: whole.index(stop)]
        assert cut.ended_by is EndedBy.STOP_TEXT

    def test_a_long_conversation_loses_its_oldest_turns_and_says_so(self, talker):
        old = (
            ChatTurn(Speaker.USER, "one two three " * 50),
            ChatTurn(Speaker.ASSISTANT, "four five six " * 50),
        )
        chat = Chat(turns=(*old, ChatTurn(Speaker.USER, "Say hello.")), system="Be kind.")
        answered = ask(talker, chat, max_tokens=16)
        assert "2 turns were left out" in answered.notes[0]
        short = ask(talker, Chat(turns=chat.turns[2:], system=chat.system), max_tokens=16)
        assert (answered.text, answered.read, short.notes) == (short.text, short.read, ())

    def test_requests_that_cannot_be_answered(self, talker):
        with pytest.raises(UserError, match="nothing to continue"):
            ask(talker, Chat(turns=()))
        with pytest.raises(UserError, match="can't answer that"):
            ask(talker, Image(path="a.png"))

    def test_weights_are_counted_from_the_headers_of_the_files(self, talk, talker):
        weights = {name: weight.numel() for name, weight in talker.model.named_parameters()}
        counted = parameters_of(talk, talk.options(), Which.TRAINED)
        assert counted == sum(weights.values())
        lora = sum(count for name, count in weights.items() if "lora_" in name)
        assert parameters_of(talk, talk.options(), Which.BEFORE) == counted - lora


def test_labels_are_those_of_the_run(tmp_path):
    source = str(save_tiny_bert(tmp_path / "bert"))
    run = tried(
        tmp_path / "run",
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=source),
        data=reviews(write_reviews(tmp_path / "reviews.csv", 40), eval_fraction=0.25),
    )
    for which, expected in zip((Which.BEFORE, Which.TRAINED), first_and_last(run), strict=True):
        model = load(run, which)
        for example, said in zip(examples(run), expected, strict=True):
            answered = ask(model, Texts(texts=(example.given,)))
            assert answered.chances[0].label == said.text
            assert answered.chances[0].chance == pytest.approx(said.sure, abs=1e-4)
            assert sum(one.chance for one in answered.chances) == pytest.approx(1.0, abs=1e-5)
    pair = ask(model, Texts(texts=("good film", "bad film")))
    assert (ask(model, Texts(texts=("good film",))).read, pair.read) == (4, 7)
    assert "first 32 tokens" in ask(model, Texts(texts=("good " * 100,))).notes[0]
    (tmp_path / "empty").mkdir()
    empty = RunFolder(tmp_path / "empty")
    empty.options_file.write_bytes(run.options_file.read_bytes())
    assert "not finished" in lacks_model(empty)
    with pytest.raises(ModelError, match="no model"):
        load(empty)
    save_checkpoint(empty, 3)
    assert "resume the run" in lacks_model(empty)


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has what the run asked for")
def test_a_run_of_mlx_on_a_mac_is_tried_here_by_pytorch(talk):
    pytest.importorskip("bitsandbytes")
    of_mac = {"device.name": "mps", "device.backend": "mlx"}
    packed = {"model.method": Method.QLORA, "model.quantization": "affine4"}
    asked = inference_options(
        with_changes(talk.options(), of_mac | packed), Load(run=str(talk.path), which=Which.TRAINED)
    )
    model = load_model(talk, asked, Which.TRAINED)
    assert (model.resolved.kind, model.resolved.options.model.quantization) == ("cpu", "nf4")
    assert ask(model, said_to("Count to 3, please."), max_tokens=4).text


def answers_on(folder: Any, task: Task, content: str, name: str) -> list[tuple[Any, Any, Any]]:
    """Train on a file; each example, what the run said of it at last, and the answer to it."""
    (folder / name).write_text(content)
    run = tried(
        folder / f"run of {name}",
        task=task,
        model=ModelOptions(source=str(save_tiny_bert(folder / "bert"))),
        data=DataOptions(train=str(folder / name), max_length=32, eval_fraction=0.25),
    )
    model = load(run)
    said = zip(examples(run), first_and_last(run)[1], strict=True)
    return [(example, last, ask(model, Texts(texts=example.texts))) for example, last in said]


def test_numbers_and_labels_of_words_are_those_of_the_run(tmp_path):
    rows = [f"good film\t{row % 3}" if row % 2 else f"poor story\t{row % 3}" for row in range(24)]
    scores = "\n".join(["text\tscore", *rows])
    for _example, said, answered in answers_on(tmp_path, Task.TEXT_REGRESSION, scores, "scores.tsv"):
        assert answered.number == pytest.approx(float(said.text), abs=1e-3)
    lines = [line for row in range(24) for line in ("Good B-X", "film O" if row % 2 else "STORY I-X", "")]
    words = answers_on(tmp_path, Task.TOKEN_CLASSIFICATION, "\n".join(lines), "words.conll")
    for example, said, answered in words:
        tagged = (word for word in answered.words if word.label != "O")
        texts = [f"{example.shown[word.start : word.end]} [{word.label}]" for word in tagged]
        assert (", ".join(texts) or "–") == said.text
        assert example.expected in ("Good [B-X]", "Good [B-X], STORY [I-X]")


def test_labels_of_images_are_those_of_the_run(tmp_path):
    run = tried(
        tmp_path / "digits",
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:squeezenet1_0", pretrained=False),
        data=DataOptions(train="builtin:digits", image_size=32, max_train_samples=40),
    )
    files = [run.path / example.image for example in examples(run)]
    assert len({path.read_bytes() for path in files}) == len(files) == 4
    for which, expected in zip((Which.BEFORE, Which.TRAINED), first_and_last(run), strict=True):
        model = load(run, which)
        for path, said in zip(files, expected, strict=True):
            answered = ask(model, Image(path=str(path)))
            assert PIL.Image.open(BytesIO(answered.image)).size == (32, 32)
            chances = {one.label: one.chance for one in answered.chances}
            assert chances[said.text] == pytest.approx(said.sure, abs=1e-3)
            assert max(chances.values()) <= chances[said.text] + 1e-3
    paper = PIL.ImageOps.invert(PIL.Image.open(files[0]).convert("L"))
    paper.save(tmp_path / "paper.png")
    told = [ask(model, Image(path=str(path))) for path in (files[0], tmp_path / "paper.png")]
    assert [answered.notes for answered in told] == [
        (),
        ("The training images have light and dark swapped.",),
    ]
    assert [answered.swapped for answered in told] == [False, True]
    wide = tmp_path / "wide.png"
    PIL.Image.open(files[0]).resize((64, 32)).save(wide)
    assert "squashed to a square" in ask(model, Image(path=str(wide))).notes[0]
    cropping = replace(model, transform=replace(model.transform, fit=ImageFit.CROP))
    assert "only its middle" in ask(cropping, Image(path=str(wide))).notes[0]
    drawn = [PIL.Image.open(path).convert("L") for path in files]
    mixed = [drawn[0], PIL.ImageOps.invert(drawn[1]), *drawn[2:]]
    coloured = [PIL.ImageOps.colorize(image, "black", "red") for image in drawn]
    middling = [image.point(lambda shade: 90 + shade // 2) for image in drawn]
    for others in (mixed, coloured, middling):
        for path, image in zip(files, others, strict=True):
            image.save(path)
        model = load(run)
        for path in (files[0], files[1], tmp_path / "paper.png"):
            assert ask(model, Image(path=str(path))).notes == (), "the examples don't agree"
    assert load(run, Which.BEFORE).name == "SqueezeNet 1.0 (untrained)"
    for content, reason in (("no image", "a text file"), ("", "the file is empty")):
        (tmp_path / "no.png").write_text(content)
        with pytest.raises(UserError, match=f"can't be read as an image(.|\n)*{reason}"):
            ask(model, Image(path=str(tmp_path / "no.png")))


@pytest.mark.long
def test_a_process_of_its_own_says_what_the_run_said(tmp_path, capsys):
    write_text(tmp_path / "text.txt")
    run = tried(
        tmp_path / "run",
        task=Task.CAUSAL_LM,
        model=ModelOptions(source="scratch:llama-tiny", vocabulary=300),
        data=DataOptions(train=str(tmp_path / "text.txt"), max_length=16, eval_fraction=0.3),
        training=TrainingOptions(max_steps=12, learning_rate=3e-2),
        output=OutputOptions(predictions=1, prompts=("The river runs",)),
    )
    own = [example.is_own for example in examples(run)].index(True)
    before, last = first_and_last(run)
    assert before[own].text != last[own].text
    assert main(["try", str(run.path), "--prompt", "The river runs", "--json", "--max-tokens", "64"]) == 0
    loaded, answered = capsys.readouterr().out.splitlines()
    assert msgspec.json.decode(loaded, type=Loaded).name == "llama-tiny on text"
    assert msgspec.json.decode(answered, type=Answered).text == last[own].text
