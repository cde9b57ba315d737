"""The views of the data by themselves: what the model sees, lengths, findings, the split, each task's page."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLabel, QLineEdit, QPlainTextEdit

from core.base.settings import Appearance
from core.options.choices import Task
from core.services.inspect import Column, ColumnKind, DataReport, guessed_columns, uses_for
from gui.base.theme import Theme
from gui.new_run.data_panel import FILE, FRACTION, SPLIT, TRAIN_SPLIT, FindingsPane, reading_words, summary
from gui.new_run.data_views import MOST_COLUMNS, LengthsPane, RowsPane, SeenPane, cut_by, trained_format
from gui.new_run.header import TaskChooser
from gui.new_run.page import starting_tree
from tests.fakes.data_reports import CHAT_FINDINGS, bell, report_for


@pytest.fixture
def theme(qapp):
    return Theme(Appearance.LIGHT)


class TestSeen:
    @pytest.fixture
    def pane(self, qtbot, theme):
        pane = SeenPane(theme)
        qtbot.addWidget(pane)
        pane.resize(700, 300)
        pane.show()
        return pane

    def test_the_trained_part_is_tinted_and_underlined_and_told_to_screen_readers(self, pane, theme):
        pane.show_report(report_for(Task.CHAT, "x"), Task.CHAT)
        text = pane.texts.first
        cursor = text.textCursor()
        cursor.setPosition(text.toPlainText().index("Red, blue") + 1)
        look = cursor.charFormat()
        assert look.background() == trained_format(theme).background()
        assert look.fontUnderline() or look.underlineStyle() != look.UnderlineStyle.NoUnderline
        cursor.setPosition(text.toPlainText().index("Name three") + 1)
        assert cursor.charFormat().background() != trained_format(theme).background()
        assert text.accessibleDescription() == "Learned: Red, blue and yellow.<|im_end|>"

    def test_the_next_sample_and_what_is_cut(self, pane):
        pane.show_report(report_for(Task.CHAT, "x"), Task.CHAT)
        assert pane.words.startswith("1 of 5 · row 1 · ")
        pane.step(2)
        assert "cut off at its end" in pane.words
        pane.step(99)
        assert pane.words.startswith("5 of 5")

    def test_both_answers_of_a_pair_are_seen(self, pane):
        pane.show_report(report_for(Task.PREFERENCE, "x"), Task.PREFERENCE)
        assert pane.texts.second.isVisible()
        assert "Just microwave it." in pane.texts.second.toPlainText()
        pane.show_report(report_for(Task.CHAT, "x"), Task.CHAT)
        assert not pane.texts.second.isVisible()

    def test_an_image_is_seen_before_and_after(self, pane):
        pane.show_report(report_for(Task.IMAGE_CLASSIFICATION, "x"), Task.IMAGE_CLASSIFICATION)
        assert "answer: cat" in pane.words
        assert pane._images.after._caption.text() == "What the model sees, 224 × 224"
        assert pane._images.before._caption.text() == "In the file, 320 × 200"


class TestLengths:
    def test_what_is_cut_is_counted_from_the_bars_until_it_is_known(self):
        lengths = bell(middle=40, spread=0.4, longest=100, samples=1000, limit=64, cut=37)
        assert cut_by(lengths, 64) == (37, True)
        assert cut_by(lengths, 100) == (0, True)
        some, all_of_them = cut_by(lengths, 50)[0], cut_by(lengths, 1)[0]
        assert 37 < some < all_of_them <= sum(lengths.counts)

    def test_words_say_how_many_are_cut(self, qtbot, theme):
        pane = LengthsPane(theme)
        qtbot.addWidget(pane)
        pane.show_report(report_for(Task.CHAT, "x"))
        assert pane.words.startswith("7 of ")
        pane.set_limit(4096)
        assert pane.words.startswith("None is cut off at 4,096 tokens.")
        assert not pane.bars.has_line
        pane.set_limit(300)
        assert pane.bars.has_line
        assert "cut off at 300" in pane.bars.accessibleName()


class TestFindings:
    def test_all_of_them_are_listed_and_counted(self, qtbot):
        pane = FindingsPane()
        qtbot.addWidget(pane)
        pane.show_findings(CHAT_FINDINGS)
        assert pane.words == "2 problems, 2 warnings"
        assert summary(CHAT_FINDINGS[1:3]) == "1 problem, 1 warning"
        texts = [button.text() for button in pane.findChildren(QAbstractButton)]
        assert texts == ["Read “bob” as the assistant", "Read “bob” as the user", "Raise to 640"]
        pane.show_findings(())
        assert pane.isHidden()


class TestRows:
    @pytest.mark.parametrize("task", Task)
    def test_every_column_offers_what_it_can_be_for_the_task(self, qtbot, task):
        report = report_for(task, "x")
        pane = RowsPane()
        qtbot.addWidget(pane)
        pane.show_report(report)
        pane.show_uses(task, guessed_columns(task, report), frozenset())
        wanted = [use.key for use in uses_for(task)] + [""]
        for box in pane.header.lists.values():
            assert [box.itemData(index) for index in range(box.count())] == wanted
        assert len(pane.header.lists) == len(report.columns)

    def test_rows_have_their_numbers_of_the_file(self, qtbot):
        pane = RowsPane()
        qtbot.addWidget(pane)
        report = report_for(Task.TEXT_CLASSIFICATION, "x")
        pane.show_report(report)
        pane.show_uses(Task.TEXT_CLASSIFICATION, {}, frozenset())
        assert pane.show_row(2)
        assert pane.table.selectionModel().selectedRows()[0].row() == 0
        assert not pane.show_row(1)  # the header

    def test_of_very_many_columns_the_used_ones_are_among_those_shown(self, qtbot):
        names = [f"c{place}" for place in range(500)]
        columns = tuple(
            Column(name=name, kind=ColumnKind.TEXT, distinct=1, empty=0, examples=("a",)) for name in names
        )
        report = DataReport(
            source="x", format="CSV", rows=1, columns=columns, preview=(tuple("a" for _ in names),)
        )
        pane = RowsPane()
        qtbot.addWidget(pane)
        pane.show_report(report)
        pane.show_uses(Task.TEXT_CLASSIFICATION, {"text": "c499"}, frozenset())
        assert len(pane.header.lists) == MOST_COLUMNS + 1
        assert pane.header.lists["c499"].currentData() == "text"


class TestSplit:
    @pytest.fixture
    def split(self, page, engine):
        report = report_for(Task.TEXT_CLASSIFICATION, "x")
        self.report = DataReport(source="x", format="CSV", rows=9, splits=("train", "test", "validation"))
        engine.answers["inspect"] = report
        page.load_tree({"task": "text-classification"})
        return page._options._split

    def visible(self, page):
        form = page._options.form
        return [path for path in (FRACTION, FILE, SPLIT) if form.row(path).isVisible()]

    def test_only_one_of_the_three_counts(self, page, split):
        assert self.visible(page) == [FRACTION]
        page._options.form.set_values({FILE: "/held/out.csv"})
        assert (self.visible(page), split.value) == ([FILE], FILE)
        split.choice.buttons()[FRACTION].click()
        assert page._options.form.field(FILE).value() is None
        assert self.visible(page) == [FRACTION]
        split.choice.buttons()[FILE].click()
        assert page._options.form.field(FILE).value() == "/held/out.csv"  # it comes again

    def test_a_share_is_taken_back_beside_a_file_and_comes_again(self, page, split):
        page._options.form.set_values({FRACTION: 0.25})
        split.choice.buttons()[FILE].click()
        assert page._options.form.field(FRACTION).value() == 0.1
        split.choice.buttons()[FRACTION].click()
        assert page._options.form.field(FRACTION).value() == 0.25

    def test_being_led_to_an_option_changes_nothing(self, page, split):
        page.load_tree(
            {"task": "text-classification", "data": {"eval": "/held/out.csv", "eval_fraction": 0.3}}
        )
        assert page._options.form.row(FRACTION).problems  # two at once: both rows are seen
        page.go_to_option(FRACTION)
        assert page.tree()["data"]["eval"] == "/held/out.csv"
        assert self.visible(page) == [FRACTION, FILE]

    def test_a_split_by_name_is_offered_where_there_are_some(self, page, split):
        assert SPLIT not in split.choice.buttons()
        split.follow(self.report)
        split.choice.buttons()[SPLIT].click()
        assert page._options.form.field(SPLIT).value() == "validation"
        page._options.form.set_values({SPLIT: None, TRAIN_SPLIT: None})
        split.choice.buttons()[FRACTION].click()
        assert split.value == FRACTION

    def test_the_share_says_how_it_is_drawn(self, page, split):
        assert "each label in the same proportion" in page._options.form.row(FRACTION).hint
        page.load_tree({"task": "text-regression"})
        assert "seed 42" in page._options.form.row(FRACTION).hint


class TestTasks:
    def test_the_chooser_has_groups_that_cant_be_chosen(self, qtbot):
        chooser = TaskChooser()
        qtbot.addWidget(chooser)
        box = chooser.choices
        offered = [box.itemData(index) for index in range(box.count())]
        assert {task.value for task in Task} <= set(offered)
        assert offered.count(None) == 3
        with qtbot.waitSignal(chooser.chosen) as caught:
            box.setCurrentIndex(box.findData("preference"))
            box.activated.emit(box.currentIndex())
        assert caught.args == [Task.PREFERENCE]
        assert chooser.sentence == "Learn from better and worse answers (DPO)."

    @pytest.mark.parametrize("task", Task)
    def test_each_task_has_a_page_in_which_every_control_has_a_name(
        self, qtbot, page, engine, tmp_path, task
    ):
        engine.answers["inspect"] = report_for(task, "x")
        data = tmp_path / "data"
        data.mkdir()
        tree = starting_tree(task)
        tree["data"]["train"] = str(data)
        page.load_tree(tree)
        qtbot.waitUntil(lambda: page._reading.report is not None and not page._reading.is_waiting)
        page.open_more()
        views = page._options.data.views
        for place in range(views.count()):
            views.setCurrentIndex(place)
            kinds = (QAbstractButton, QComboBox, QLineEdit, QAbstractSpinBox, QPlainTextEdit)
            nameless = [
                control
                for kind in kinds
                for control in page.findChildren(kind)
                if control.isVisible()
                and control.isEnabled()
                and not control.accessibleName()
                and not _text(control)
                and not isinstance(control.parentWidget(), QAbstractSpinBox | QComboBox)
            ]
            assert nameless == []
        assert page._header._tasks.choices.currentData() == task.value

    def test_own_prompts_are_lines_and_commas_a_part_of_them(self, qtbot, page):
        page.load_tree({"task": "chat", "output": {"prompts": ["Hello, you", "Sing"]}})
        field = page._options.form.field("output.prompts")
        assert field.edit.toPlainText() == "Hello, you\nSing"
        field.edit.setPlainText("One, two\n\nThree")
        assert page.tree()["output"]["prompts"] == ["One, two", "Three"]


class TestModel:
    def test_a_model_is_chosen_where_it_comes_from(self, page, model):
        page.load_tree({"task": "text-classification", "model": {"source": "scratch:bert-tiny"}})
        field = page._options.fields.model
        assert field.value() == "scratch:bert-tiny"
        assert page._options.form.row("model.vocabulary").isVisible()
        assert not page._options.form.row("model.pretrained").isVisible()
        field._place.buttons()["folder"].click()
        assert page.tree()["model"]["source"] == ""
        assert not page._options.form.row("model.vocabulary").isVisible()
        page._options.form.set_values({"model.source": str(model)})
        assert field.value() == str(model)

    def test_of_the_models_from_scratch_only_those_that_fit_the_task_are_offered(self, page):
        page.load_tree({"task": "text-classification", "model": {"source": "scratch:bert-tiny"}})
        page.load_tree({"task": "causal-lm"})
        field = page._options.fields.model
        offered = [field._scratch.itemData(index) for index in range(field._scratch.count())]
        assert offered == ["scratch:llama-tiny", "scratch:llama-small", "scratch:llama-medium"]
        page.load_tree({"task": "chat"})
        assert set(field._place.buttons()) == {"folder", "run"}

    def test_only_past_runs_that_fit_are_offered(self, page, tmp_path):
        for name, task in (("wrote", "causal-lm"), ("saw", "image-classification")):
            folder = tmp_path / "home" / "runs" / name
            (folder / "model").mkdir(parents=True)
            (folder / "run.toml").write_text(f'schema = 1\ntask = "{task}"\n')
            for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
                (folder / "model" / file).write_text("{}")
        page.load_tree({"task": "chat"})
        runs = page._options.fields.model._runs
        runs.look()
        assert [runs.itemText(index) for index in range(runs.count())] == ["wrote"]
        page._options.fields.model._place.buttons()["run"].click()
        runs.setCurrentIndex(0)
        runs.activated.emit(0)
        assert page.tree()["model"]["source"].endswith("wrote")
        assert page.tree()["model"]["source"].startswith("run:")


def test_a_tip_shows_what_looks_like_html_as_it_is(qtbot):
    pane = RowsPane()
    qtbot.addWidget(pane)
    report = report_for(Task.CAUSAL_LM, "x")
    pane.show_report(replace(report, preview=(("<b>bold</b> & plain",),)))
    pane.show_uses(Task.CAUSAL_LM, {"text": "text"}, frozenset())
    tip = pane.table.model().index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; plain" in tip


@pytest.mark.parametrize("task", [Task.IMAGE_CLASSIFICATION, Task.CAUSAL_LM])
def test_what_stands_in_no_row_of_a_file_names_none(qtbot, theme, task):
    pane = SeenPane(theme)
    qtbot.addWidget(pane)
    pane.show_report(report_for(task, "x"), task)
    assert "row" not in pane.words


def test_a_text_of_which_all_is_learned_needs_no_mark(qtbot, theme):
    pane = SeenPane(theme)
    qtbot.addWidget(pane)
    pane.show_report(report_for(Task.CAUSAL_LM, "x"), Task.CAUSAL_LM)
    assert not any(part.trained for part in pane.texts.first.parts)
    assert pane.texts.legend.text() == "All of it is learned."
    pane.show_report(report_for(Task.CHAT, "x"), Task.CHAT)
    assert "underlined" in pane.texts.legend.text()


def test_rows_of_the_evaluation_data_are_no_links_into_the_training_data(qtbot):
    pane = FindingsPane()
    qtbot.addWidget(pane)
    of_training, of_evaluation = CHAT_FINDINGS[0], replace(CHAT_FINDINGS[0], in_eval=True)
    pane.show_findings((of_training, of_evaluation), frozenset({4, 17}))
    texts = [label.text() for label in pane.findChildren(QLabel) if "bob" in label.text()]
    assert ["href" in text for text in texts] == [True, False]


def test_one_line_says_how_data_was_read():
    words = reading_words(report_for(Task.TEXT_CLASSIFICATION, "x"))
    assert words == (
        "4,076 rows · 2 labels · TSV · UTF-8 with a byte order mark · delimiter tab · no quoting · "
        "header in the first row"
    )


def _text(control):
    return control.text() if isinstance(control, QAbstractButton) else ""
