"""The views of the data by themselves: rows, what the model sees, lengths, findings, the split."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QBuffer, Qt
from PySide6.QtGui import QIcon, QImage
from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget

from core.base.errors import Fix
from core.base.settings import Appearance
from core.jobs.inspect import DataFinding, DataReport, FindingLevel, FoundFile
from core.options.choices import Task
from core.services.columns import guessed_columns, uses_for
from gui.base.theme import Theme
from gui.new_run.data_panel import (
    FILE,
    FRACTION,
    SPLIT,
    DataViews,
    FilesSheet,
    FindingsPane,
    names_hint,
    reading_text,
)
from gui.new_run.data_views import RowsPane, SeenPane, cut_by, trained_format
from tests.fakes.data_reports import CHAT_FINDINGS, bell, report_for
from tests.gui.new_run.steps import load, put, row


@pytest.fixture
def theme(qapp):
    return Theme(Appearance.LIGHT)


@pytest.fixture
def seen_of(qtbot, theme):
    def show(task):
        pane = SeenPane(theme)
        qtbot.addWidget(pane)
        pane.resize(700, 300)
        pane.show()
        pane.show_report(report_for(task, "x"), task, {})
        return pane

    return show


def test_the_learned_part_is_tinted_and_underlined_and_described_to_screen_readers(seen_of, theme):
    pane, trained = seen_of(Task.CHAT), trained_format(theme)
    cursor, text = pane.text.textCursor(), pane.text.toPlainText()
    for part, is_trained in (("Red, blue", True), ("Name three", False)):
        cursor.setPosition(text.index(part) + 1)
        style = cursor.charFormat()
        assert (style.background() == trained.background()) == is_trained
        assert (style.underlineStyle() == trained.underlineStyle()) == is_trained
    assert pane.text.accessibleDescription() == "Trained on: Red, blue and yellow.<|im_end|>"
    for by, words in ((0, "1 of 5 · row 1 · "), (2, "truncated"), (99, "5 of 5")):
        pane.step(by)
        assert words in pane.facts.text()


def test_pairs_running_text_and_images_as_the_model_sees_them(seen_of):
    pair = seen_of(Task.PREFERENCE).text.toPlainText()
    assert pair.startswith("Chosen answer\n")
    assert "Just microwave it." in pair.partition("Rejected answer\n")[2]
    prose = seen_of(Task.CAUSAL_LM)
    assert prose.legend.text() == "All tokens are trained on."
    image = seen_of(Task.IMAGE_CLASSIFICATION)
    assert "label: cat" in image.facts.text()
    captions = image.before.caption.text(), image.after[0].caption.text()
    assert captions == ("In the file, 320 × 200", "What the model sees, 224 × 224")
    assert not any("row" in pane.facts.text() for pane in (prose, image))


def test_augmented_images_are_shown_in_the_first_epochs(seen_of):
    pane, report = seen_of(Task.IMAGE_CLASSIFICATION), report_for(Task.IMAGE_CLASSIFICATION, "x")
    assert [picture.isVisible() for picture in pane.after] == [True, False, False]
    augmented = replace(report.seen[0], images=report.seen[0].images * 3)
    pane.show_report(replace(report, seen=(augmented,)), Task.IMAGE_CLASSIFICATION, {})
    assert [picture.caption.text() for picture in pane.after if picture.isVisible()] == [
        f"Epoch {number}, 224 × 224" for number in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("liked", "title", "words"),
    [(True, "Liked answer\n", "more likely"), (False, "Answer that was not liked\n", "less likely")],
)
def test_a_single_answer_says_how_it_was_rated(seen_of, liked, title, words):
    pane, report = seen_of(Task.PREFERENCE), report_for(Task.PREFERENCE, "x")
    seen = tuple(replace(one, rejected=(), liked=liked) for one in report.seen)
    pane.show_report(replace(report, seen=seen), Task.PREFERENCE, {})
    assert pane.text.toPlainText().startswith(title)
    assert words in pane.legend.text()


@pytest.mark.parametrize(("limit", "known"), [(64, (37, True)), (100, (0, True)), (50, None), (1, None)])
def test_truncated_rows_are_counted_from_the_bars_until_they_are_known(limit, known):
    lengths = bell(middle=40, spread=0.4, longest=100, samples=1000, limit=64, cut=37)
    count, is_exact = cut_by(lengths, limit)
    assert (count, is_exact) == known if known else 37 < count <= sum(lengths.counts)


def test_findings_are_counted_and_have_buttons_and_links(qtbot):
    pane, links = FindingsPane(), FindingsPane()
    qtbot.addWidget(pane)
    qtbot.addWidget(links)
    pane.show_findings(CHAT_FINDINGS)
    assert pane.summary.text() == "2 problems, 2 warnings"
    texts = [button.text() for button in pane.findChildren(QAbstractButton)]
    assert texts == ["Read “bob” as the assistant", "Read “bob” as the user", "Use 640 tokens"]
    links.show_findings((CHAT_FINDINGS[0], replace(CHAT_FINDINGS[0], in_eval=True)), frozenset({4, 17}))
    labels = [label.text() for label in links.findChildren(QLabel) if "bob" in label.text()]
    assert ["href" in text for text in labels] == [True, False], "rows of the evaluation data are elsewhere"
    pane.show_findings(())
    assert pane.isHidden()


def test_a_fix_that_several_findings_have_stands_once(qtbot):
    leave_out = Fix("Leave out all examples that can't be used", {"data.skip_bad_rows": True})
    findings = tuple(replace(one, fixes=(leave_out,)) for one in CHAT_FINDINGS[:2])
    shown = FindingsPane(), FindingsPane()
    for pane, some in zip(shown, (findings, findings[:1]), strict=True):
        qtbot.addWidget(pane)
        pane.show_findings(some)
        (button,) = pane.findChildren(QAbstractButton)
        with qtbot.waitSignal(pane.fix_chosen) as caught:
            button.click()
        assert caught.args == [leave_out]


def test_a_picture_tells_the_size_of_its_file_and_says_that_it_is_outdated(seen_of):
    pane, report = seen_of(Task.IMAGE_CLASSIFICATION), report_for(Task.IMAGE_CLASSIFICATION, "x")
    large = replace(report.seen[0], size=(4032, 3024))
    pane.show_report(replace(report, seen=(large,)), Task.IMAGE_CLASSIFICATION, {})
    assert pane.before.caption.text() == "In the file, 4,032 × 3,024"
    for is_outdated in (True, False):
        pane.set_outdated(is_outdated)
        assert ("Being updated…" in pane.facts.text(), pane.before.isEnabled()) == (
            is_outdated,
            not is_outdated,
        )
    texts = seen_of(Task.CAUSAL_LM)
    texts.set_outdated(True)
    assert "Being updated…" not in texts.facts.text()


@pytest.fixture
def rows_of(qtbot):
    def show(task, columns=None, **changes):
        pane, report = RowsPane(), replace(report_for(task, "x"), **changes)
        qtbot.addWidget(pane)
        pane.show_report(report, {})
        columns = guessed_columns(task, report) if columns is None else columns
        pane.show_uses(task, columns, frozenset(columns))
        return pane

    return show


@pytest.mark.parametrize("task", Task)
def test_every_column_offers_its_uses_for_the_task(rows_of, task):
    pane = rows_of(task)
    for column in range(pane.model.columnCount()):
        offered = [action.data() for action in pane.use_menu(column).actions()]
        assert offered == [use.key for use in uses_for(task)] + [""]


def test_uses_are_chosen_and_rows_found_by_their_number_in_the_file(qtbot, rows_of):
    pane = rows_of(Task.TEXT_CLASSIFICATION, {"text": "sentence1"}, preview=(("<b>a</b> & b", "", ""),))
    heads = [pane.model.headerData(place, Qt.Orientation.Horizontal) for place in (0, 1)]
    assert [head.partition("\n")[2] for head in heads] == ["Text · guessed ▾", "Ignored ▾"]
    with qtbot.waitSignal(pane.use_chosen) as caught:
        pane.use_menu(1).actions()[0].trigger()
    assert caught.args == ["sentence2", "text"]
    assert pane.show_row(2)
    assert not pane.show_row(1)  # the header
    tip = pane.model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "&lt;b&gt;a&lt;/b&gt; &amp; b" in tip


def test_names_of_labels_are_shown_and_those_that_are_not_understood_remarked(qtbot, theme):
    report = report_for(Task.TEXT_CLASSIFICATION, "x")
    views = DataViews(theme)
    qtbot.addWidget(views)
    views.show_report(report, Task.TEXT_CLASSIFICATION, {"1": "same", "9": "none"})
    label = [column.name for column in report.columns].index("same")
    cells = {str(views.rows.model.index(row, label).data()) for row in range(len(report.preview))}
    assert cells == {"0", "1 → same"}
    assert {"label: 0", "label: 1 → same"} == {seen_label(views.seen, place) for place in range(5)}
    assert names_hint({"0": "bad", "1": "good"}, report) == ""
    assert names_hint({"0": "bad", "1": ""}, report) == "", "validation reports it"
    for label, name in (("2", "good"), ("1: good", "")):
        text = f"“{label}” is not one of the labels (1, 0). Write it as: label = name."
        assert names_hint({"0": "bad", label: name}, report) == text
    assert names_hint({"2": "good"}, None) == "", "until the data is read"


def seen_label(pane, place):
    pane.step(-9)
    pane.step(place)
    return pane.facts.text().rpartition(" · ")[2]


def test_columns_that_are_used_stay_in_view_and_empty_ones_are_narrow(rows_of):
    texts = (
        "A long instruction that asks for something in many words, as they do",
        "",
        "An answer that is " * 9,
    )
    pane = rows_of(Task.CHAT, preview=(texts,) * 9, rows=9)
    columns = tuple(replace(one, empty=9 * (one.name == "input")) for one in pane.model.report.columns)
    pane.show_report(replace(pane.model.report, columns=columns), {})
    pane.show()
    pane.resize(520, 300)
    widths = [pane.table.columnWidth(column) for column in range(3)]
    assert sum(widths) <= pane.table.viewport().width()
    assert widths[1] < min(widths[0], widths[2]) / 2


def test_one_line_describes_how_data_was_read():
    assert reading_text(report_for(Task.TEXT_CLASSIFICATION, "x")) == (
        "4,076 examples · 2 labels · TSV · UTF-8 with a byte order mark · delimiter tab · no quoting · "
        "header in the first row"
    )


def test_a_run_is_evaluated_on_one_of_a_share_a_file_and_a_split(page, engine):
    engine.answers["inspect"] = report_for(Task.TEXT_CLASSIFICATION, "x")
    load(page)
    form, split = page.options.form, page.options.split

    def choose(path):
        split.choice.buttons()[path].click()
        return [shown for shown in (FRACTION, FILE, SPLIT) if form.row(shown).isVisible()]

    form.set_values({FRACTION: 0.25})
    assert choose(FILE) == [FILE]
    assert form.field(FRACTION).value() == 0.1
    form.set_values({FILE: "/held/out.csv"})
    assert choose(FRACTION) == [FRACTION]
    assert (form.field(FRACTION).value(), form.field(FILE).value()) == (0.25, None)
    assert choose(FILE) == [FILE]
    assert form.field(FILE).value() == "/held/out.csv"  # the values return
    assert SPLIT not in split.choice.buttons()
    split.update_from(DataReport(source="x", format="CSV", rows=9, splits=("train", "test", "validation")))
    choose(SPLIT)
    assert form.field(SPLIT).value() == "validation"
    put(page, data__eval_split=None, data__train_split=None)
    choose(FRACTION)
    assert split.value == FRACTION


def test_a_link_to_an_option_of_the_split_changes_nothing(page):
    page.load_tree({"task": "text-classification", "data": {"eval": "/held/out.csv", "eval_fraction": 0.3}})
    assert row(page, FRACTION).problems  # two at once: both rows are visible
    page.go_to_option(FRACTION)
    assert page.tree()["data"]["eval"] == "/held/out.csv"
    assert [row(page, path).isVisible() for path in (FRACTION, FILE, SPLIT)] == [True, True, False]
    load(page, data="hub:some/pairs", of_data={"eval_split": "validation"})
    shown = page.options.split.choice.buttons()
    assert [path for path, button in shown.items() if button.isChecked()] == [SPLIT], "before it is read"


def test_prompts_are_lines_with_commas_in_them(page):
    load(page, "chat", output={"prompts": ["Hello, you", "Sing"]})
    field = page.options.form.field("output.prompts")
    assert field.edit.toPlainText() == "Hello, you\nSing"
    field.edit.setPlainText("One, two\n\nThree")
    assert page.tree()["output"]["prompts"] == ["One, two", "Three"]


def image_finding(folder, *files, count):
    return DataFinding(
        code="not-an-image",
        level=FindingLevel.PROBLEM,
        message="3 images: a format that can't be read",
        count=count,
        files=tuple(FoundFile(str(folder / name), reason, like) for name, reason, like in files),
        fixes=(Fix("Leave these 3 out", {"data.skip_bad_rows": True}),),
    )


def test_images_in_question_are_listed_with_their_reasons_and_those_like_them(qtbot, tmp_path):
    picture = QImage(200, 100, QImage.Format.Format_RGB32)
    picture.fill(Qt.GlobalColor.red)
    for name in ("b.png", "c.png"):
        picture.save(str(tmp_path / name))
    files = (("a.png", "a text file", ""), ("b.png", "", str(tmp_path / "c.png")))
    pane = FindingsPane()
    qtbot.addWidget(pane)
    pane.show_findings([image_finding(tmp_path, *files, count=3)])
    names = [button.text() for button in pane.findChildren(QAbstractButton)]
    assert names == ["Show them…", "Leave these 3 out"]
    pane.findChildren(QAbstractButton)[0].click()
    (sheet,) = pane.window().findChildren(FilesSheet)
    texts = [sheet.list.item(row).text() for row in range(sheet.list.count())]
    here = tmp_path.name
    assert texts == [f"{here}/a.png\na text file", f"{here}/b.png\nsimilar to {here}/c.png"]
    qtbot.waitUntil(lambda: not sheet.list.item(1).icon().isNull())
    assert sheet.list.item(0).icon().isNull()
    assert "And 1 more." in [label.text() for label in sheet.findChildren(QLabel)]
    sheet.close()


def test_a_picture_keeps_its_colours_when_selected_and_comes_from_the_engine_where_qt_reads_none(
    qtbot, tmp_path
):
    picture, encoded = QImage(144, 72, QImage.Format.Format_RGB32), QBuffer()
    picture.fill(Qt.GlobalColor.red)
    picture.save(encoded, "PNG")
    finding = image_finding(tmp_path, count=2)
    files = FoundFile("/photos/a.heic", picture=bytes(encoded.data().data())), FoundFile("/photos/b.heic")
    pane = QWidget()
    qtbot.addWidget(pane)
    sheet = FilesSheet(replace(finding, files=files), pane)
    qtbot.waitUntil(lambda: not sheet.waiting)
    icon, size = sheet.list.item(0).icon(), sheet.list.iconSize()
    shown, selected = (icon.pixmap(size, mode).toImage() for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected))
    assert shown.pixelColor(30, 36) == Qt.GlobalColor.red
    assert shown == selected
    assert sheet.list.item(1).icon().isNull()


def test_a_finding_without_files_of_its_own_shows_none(qtbot):
    pane = FindingsPane()
    qtbot.addWidget(pane)
    pane.show_findings(CHAT_FINDINGS)
    assert "Show" not in "".join(button.text() for button in pane.findChildren(QAbstractButton))


def test_a_picture_of_the_data_has_its_file_and_its_caption_below_it(qtbot, tmp_path):
    pane = SeenPane(Theme(Appearance.LIGHT))
    qtbot.addWidget(pane)
    pane.resize(600, 500)
    report = report_for(Task.IMAGE_CLASSIFICATION, "x")
    seen = replace(report.seen[0], file=str(tmp_path / "cat" / "7.jpg"))
    pane.show_report(replace(report, seen=(seen,)), Task.IMAGE_CLASSIFICATION, {})
    pane.show()
    assert "7.jpg" in pane.facts.text()
    assert pane.before.toolTip() == seen.file
    assert pane.after[0].toolTip() == ""

    def gaps():
        parts = ((one.caption.geometry(), one.picture.geometry()) for one in (pane.before, pane.after[0]))
        return [caption.top() - picture.bottom() for caption, picture in parts]

    qtbot.waitUntil(lambda: all(0 <= gap < 8 for gap in gaps()))
