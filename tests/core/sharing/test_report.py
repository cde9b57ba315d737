"""The page that tells of a run: whole, escaped, without anything fetched; charts that keep every peak."""

import html.parser
import math
import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

from core.cli.main import main
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions, TrainingOptions
from core.runs.events import (
    MOST_LABELS,
    ConfusionCounted,
    Example,
    ExamplesChosen,
    Level,
    MemorySampled,
    MessageRaised,
    Outcome,
    Predicted,
    RunFinished,
    RunStarted,
    Said,
    Source,
)
from core.runs.folder import ExitRecord
from core.sharing.report import WIDTH, page_of, read_history, thinned
from tests.fakes.runs import OPTIONS, Plot, finish, make_folder, step, write_events, write_story

NASTY = "<script>alert(1)</script>|`x`"
PNG = b"\x89PNG\r\n\x1a\n"


class Reader(html.parser.HTMLParser):
    """Checks that tags close, and keeps what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "style", "onload")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run with a name, labels and data that would be markup."""
    named = msgspec.structs.replace(OPTIONS, output=OutputOptions(name=NASTY))
    run = make_folder(tmp_path_factory.mktemp("report") / "run", named)
    plot = Plot()
    clock = write_story(run, plot)
    (run.path / "examples").mkdir()
    (run.path / "examples" / "0.png").write_bytes(PNG)
    examples = (Example(image="examples/0.png", expected=NASTY), Example(given=NASTY, expected="yes"))
    said = Said(text=NASTY, sure=0.5, right=False), Said(text="yes", sure=0.9, right=True)
    write_events(
        run.events_file,
        ExamplesChosen(time=clock, examples=examples),
        Predicted(time=clock, step=0, epoch=0.0, said=said),
        Predicted(time=clock, step=360, epoch=8.0, said=said),
        ConfusionCounted(time=clock, step=360, labels=(NASTY, "b"), counts=((3, 1), (0, 4))),
        MessageRaised(time=clock, id="odd", level=Level.WARNING, title=NASTY, detail=NASTY),
    )
    finish(run, plot, clock)
    return run


@pytest.fixture(scope="module")
def page(run):
    return page_of(run)


def test_what_comes_from_a_run_is_text_and_nothing_is_fetched(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert "script" not in reader.tags
    assert NASTY in "".join(reader.text)
    assert "<script" not in page.lower()
    assert reader.links
    assert all(link.startswith("data:image/png;base64,") for link in reader.links)
    assert not re.search(r"https?://|url\(|@import", page)


def test_all_sections_are_there_with_charts_and_only_changed_options_first(page):
    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        *("Options", "Data", "What ran", "Memory", "Charts", "Evaluations", "Predictions"),
        *("Confusion matrix", "Messages", "Machine and versions"),
    ]
    labels = re.sub(r"<[^>]*>", " ", page[page.index("<h2>Confusion") : page.index("<h2>Messages")]).split()
    assert labels[labels.index("Precision") :][:4] == ["Precision", "Recall", "F1", "Count"]
    assert labels[-8:] == ["b", "80.0", "%", "100.0", "%", "88.9", "%", "4"]
    changed = page[page.index("<h2>Options") : page.index("All other options")]
    assert "Image size" in changed
    assert "Weight decay" not in changed
    drawn = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    assert [len(svg.findall("path")) for svg in drawn] == [2, 1]
    assert all(svg.get("aria-label") for svg in drawn)


def test_the_peak_is_the_same_figure_everywhere(page):
    assert set(re.findall(r"[Pp]eak(?: memory)?</(?:dt><dd|td><td class=n)>([^<]*)", page)) == {"2.60 GB"}


def test_evaluations_that_took_much_of_the_time_are_told_of(page, tmp_path, capfd):
    assert "of the time went into" not in page
    run, plot = make_folder(tmp_path / "run"), Plot(steps=40, reached=40, epochs=40)
    finish(run, plot, write_story(run, plot))
    sentence = re.search(r"\d\d % of the time went into evaluations\.", page_of(run))
    assert sentence
    assert main(["show", str(run.path)]) == 0
    assert sentence[0] in capfd.readouterr().out


def test_options_have_units_and_those_without_meaning_are_left_out(tmp_path):
    options = msgspec.structs.replace(
        OPTIONS,
        task=Task.CAUSAL_LM,
        model=ModelOptions(source="scratch:llama-tiny"),
        data=DataOptions(train="words.txt"),
        training=TrainingOptions(epochs=8.0, warmup=0.05),
    )
    page = page_of(make_folder(tmp_path / "run", options))
    section = page[page.index("<h2>Options") : page.index("</body>")]
    text = re.sub(r"<[^>]*>", "", section.replace("</td>", " ").replace("</tr>", "\n"))
    for line in ("Epochs 8 3 \n", "Warm-up 5 % 0 steps \n", "1 batch;", "Vocabulary 1,024 tokens"):
        assert line in text
    assert "Pretrained" not in text, "from scratch there are none"


def test_backticks_are_code_in_messages_but_not_in_data(tmp_path):
    run = make_folder(tmp_path / "run")
    examples = ExamplesChosen(examples=(Example(given="a `b` c", expected="d"),))
    message = MessageRaised(id="odd", level=Level.WARNING, title="See `hone show`", detail="`x < 1` or `y`")
    said = Predicted(step=0, epoch=0.0, said=(Said(text="d"),))
    finished = RunFinished(time=1314.0, state=Outcome.FINISHED, steps=9, seconds=310.0)
    write_events(run.events_file, RunStarted(time=1000.0), examples, said, message, finished)
    run.record_exit(ExitRecord(time=1316.0, code=0))
    page = page_of(run)
    for part in ("See <code>hone show</code>", "<code>x &lt; 1</code> or <code>y</code>", "a `b` c"):
        assert part in page
    assert (page.count("5 min 14 s"), page.count("5 min 10 s")) == (2, 0), "loading counts"


def test_a_damaged_run_and_one_with_too_many_labels_are_described_as_far_as_possible(tmp_path):
    run, many = make_folder(tmp_path / "run"), MOST_LABELS + 10
    labels = tuple(f"label-{number}" for number in range(many))
    counted = ConfusionCounted(step=1, labels=labels, counts=((1,) * many,) * many, left_out=5)
    write_events(run.events_file, RunStarted(), counted)
    page = page_of(run)
    assert f">label-{MOST_LABELS - 1}<" in page
    assert f"label-{MOST_LABELS}" not in page
    assert "Left out: 15 labels." in page
    assert "Recall" not in page, "of some labels the counts aren't known"
    run.options_file.write_text("not = [toml")
    run.events_file.write_bytes(b"\xff\xfe{]\n")
    assert "The run file can't be read." in page_of(run)


def test_steps_that_no_longer_count_are_not_drawn_and_a_pause_takes_no_room(tmp_path):
    run = make_folder(tmp_path / "run")
    first = [step(number, loss=9.0, time=100.0) for number in range(1, 6)]
    write_events(run.events_file, RunStarted(time=100.0), *first)
    again = (RunStarted(time=5000.0, from_step=2), step(3, loss=1.0, time=5000.0))
    write_events(run.events_file, *again, attempt=2)
    for attempt, begun in ((1, 100.0), (2, 5000.0)):
        samples = [MemorySampled(time=begun + s, source=Source.PROCESS, bytes=1) for s in (0, 10, 20)]
        write_events(run.machine_file, *samples, attempt=attempt)
    history = read_history(run)
    assert history.loss == [(1, 9.0), (2, 9.0), (3, 1.0)]
    assert [x for x, _ in history.memory[Source.PROCESS]] == [0, 10, 20, 20, 30, 40]


def test_a_spike_among_many_steps_is_drawn_and_a_gap_stays_one():
    points = [
        (number, 50.0 if number == 61_803 else math.nan if 30_000 <= number < 40_000 else 1.0 + number % 7)
        for number in range(100_000)
    ]
    found = thinned(points)
    assert len(found) <= 2 * WIDTH
    assert (61_803, 50.0) in found
    assert min(y for _, y in found if math.isfinite(y)) == 1.0
    assert any(math.isnan(y) and 30_000 <= x < 40_000 for x, y in found)
    assert [x for x, _ in found] == sorted(x for x, _ in found)


def test_the_command_writes_a_new_file_and_no_other(run, tmp_path):
    target = tmp_path / "page.html"
    assert main(["export", str(run.path), "--report", str(target)]) == 0
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(["export", str(run.path), "--report", str(target)]) == 2
    assert main(["export", str(run.path), "--report", str(tmp_path / "page.docx")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
