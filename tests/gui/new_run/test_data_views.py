"""The views of the data by themselves: what the model sees, lengths, findings, the split, each task's page."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLabel, QLineEdit, QPlainTextEdit

from core.base.settings import Appearance
from core.options.choices import Task
from core.services.inspect import DataReport, guessed_columns, uses_for
from gui.base.theme import Theme
from gui.new_run.data_panel import FILE, FRACTION, SPLIT, TRAIN_SPLIT, FindingsPane, reading_text, summary
from gui.new_run.data_views import LengthsPane, RowsPane, SeenPane, cut_by, trained_format
from gui.new_run.header import TaskChooser
from gui.new_run.page import starting_tree
from tests.fakes.data_reports import CHAT_FINDINGS, bell, report_for


@pytest.fixture
def theme(qapp):
    return Theme(Appearance.LIGHT)


def shown(qtbot, pane, task):
    qtbot.addWidget(pane)
    pane.resize(700, 300)
    pane.show()
    pane.show_report(report_for(task, "x"), task)
    return pane


class TestSeen:
    def test_the_trained_part_is_tinted_and_underlined_and_told_to_screen_readers(self, qtbot, theme):
        pane = shown(qtbot, SeenPane(theme), Task.CHAT)
        cursor, text = pane.text.textCursor(), pane.text.toPlainText()
        cursor.setPosition(text.index("Red, blue") + 1)
        assert cursor.charFormat().background() == trained_format(theme).background()
        assert cursor.charFormat().underlineStyle() == trained_format(theme).underlineStyle()
        cursor.setPosition(text.index("Name three") + 1)
        assert cursor.charFormat().background() != trained_format(theme).background()
        assert pane.text.accessibleDescription() == "Learned: Red, blue and yellow.<|im_end|>"
        assert "underlined" in pane.legend.text()

    def test_the_next_sample_and_what_is_cut(self, qtbot, theme):
        pane = shown(qtbot, SeenPane(theme), Task.CHAT)
        for by, words in ((0, "1 of 5 · row 1 · "), (2, "truncated"), (99, "5 of 5")):
            pane.step(by)
            assert words in pane.facts.text()

    def test_both_answers_of_a_pair_are_seen(self, qtbot, theme):
        text = shown(qtbot, SeenPane(theme), Task.PREFERENCE).text.toPlainText()
        assert text.startswith("Chosen answer\n")
        assert "Just microwave it." in text.partition("Rejected answer\n")[2]

    def test_an_image_is_seen_before_and_after(self, qtbot, theme):
        pane = shown(qtbot, SeenPane(theme), Task.IMAGE_CLASSIFICATION)
        assert "label: cat" in pane.facts.text()
        assert "row" not in pane.facts.text()  # an image has none
        assert pane.after.caption.text() == "What the model sees, 224 × 224"
        assert pane.before.caption.text() == "In the file, 320 × 200"

    def test_a_text_of_which_all_is_learned_needs_no_mark_and_has_no_row(self, qtbot, theme):
        pane = shown(qtbot, SeenPane(theme), Task.CAUSAL_LM)
        assert pane.legend.text() == "All tokens are learned."
        assert "row" not in pane.facts.text()


class TestLengths:
    @pytest.mark.parametrize(("limit", "known"), [(64, (37, True)), (100, (0, True)), (50, None), (1, None)])
    def test_what_is_cut_is_counted_from_the_bars_until_it_is_known(self, limit, known):
        lengths = bell(middle=40, spread=0.4, longest=100, samples=1000, limit=64, cut=37)
        count, is_exact = cut_by(lengths, limit)
        assert (count, is_exact) == known if known else 37 < count <= sum(lengths.counts)

    def test_words_say_how_many_are_cut(self, qtbot, theme):
        pane = LengthsPane(theme)
        qtbot.addWidget(pane)
        pane.show_report(report_for(Task.CHAT, "x"))
        assert pane.text.text().startswith("7 of ")
        for limit, has_line in ((4096, False), (300, True)):
            pane.set_limit(limit)
            assert pane.has_line is has_line
            assert f"truncated at {limit:,} tokens" in pane.text.text()


class TestFindings:
    def test_all_of_them_are_listed_and_counted(self, qtbot):
        pane = FindingsPane()
        qtbot.addWidget(pane)
        pane.show_findings(CHAT_FINDINGS)
        assert pane.summary.text() == "2 problems, 2 warnings"
        assert summary(CHAT_FINDINGS[1:3]) == "1 problem, 1 warning"
        texts = [button.text() for button in pane.findChildren(QAbstractButton)]
        assert texts == ["Read “bob” as the assistant", "Read “bob” as the user", "Raise to 640"]
        pane.show_findings(())
        assert pane.isHidden()


class TestRows:
    @pytest.mark.parametrize("task", Task)
    def test_every_column_offers_what_it_can_be_for_the_task(self, qtbot, task):
        pane = shown_rows(qtbot, report_for(task, "x"), task)
        wanted = [use.key for use in uses_for(task)] + [""]
        for column in range(pane.model.columnCount()):
            assert [action.data() for action in pane.use_menu(column).actions()] == wanted

    def test_a_use_is_chosen_in_the_menu_of_a_column(self, qtbot):
        report = report_for(Task.TEXT_CLASSIFICATION, "x")
        pane = shown_rows(qtbot, report, Task.TEXT_CLASSIFICATION, {"text": report.columns[0].name})
        heads = [pane.model.headerData(place, Qt.Orientation.Horizontal) for place in (0, 1)]
        assert [head.partition("\n")[2] for head in heads] == ["Text · guess ▾", "Ignored ▾"]
        with qtbot.waitSignal(pane.use_chosen) as caught:
            pane.use_menu(1).actions()[0].trigger()
        assert caught.args == [report.columns[1].name, "text"]

    def test_rows_have_their_numbers_of_the_file(self, qtbot):
        pane = shown_rows(qtbot, report_for(Task.TEXT_CLASSIFICATION, "x"), Task.TEXT_CLASSIFICATION)
        assert pane.show_row(2)
        assert pane.table.selectionModel().selectedRows()[0].row() == 0
        assert not pane.show_row(1)  # the header

    def test_a_tip_shows_what_looks_like_html_as_it_is(self, qtbot):
        report = replace(report_for(Task.CAUSAL_LM, "x"), preview=(("<b>bold</b> & plain",),))
        pane = shown_rows(qtbot, report, Task.CAUSAL_LM)
        tip = pane.model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
        assert "&lt;b&gt;bold&lt;/b&gt; &amp; plain" in tip


def shown_rows(qtbot, report, task, columns=None):
    pane = RowsPane()
    qtbot.addWidget(pane)
    pane.show_report(report)
    columns = guessed_columns(task, report) if columns is None else columns
    pane.show_uses(task, columns, frozenset(columns))
    return pane


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
        split.update_from(self.report)
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
        assert chooser.help.text() == "Learn from better and worse answers (DPO)."

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
        runs.reload()
        assert [runs.itemText(index) for index in range(runs.count())] == ["wrote"]
        page._options.fields.model._place.buttons()["run"].click()
        runs.setCurrentIndex(0)
        runs.activated.emit(0)
        assert page.tree()["model"]["source"].endswith("wrote")
        assert page.tree()["model"]["source"].startswith("run:")


def test_rows_of_the_evaluation_data_are_no_links_into_the_training_data(qtbot):
    pane = FindingsPane()
    qtbot.addWidget(pane)
    of_training, of_evaluation = CHAT_FINDINGS[0], replace(CHAT_FINDINGS[0], in_eval=True)
    pane.show_findings((of_training, of_evaluation), frozenset({4, 17}))
    texts = [label.text() for label in pane.findChildren(QLabel) if "bob" in label.text()]
    assert ["href" in text for text in texts] == [True, False]


def test_one_line_says_how_data_was_read():
    words = reading_text(report_for(Task.TEXT_CLASSIFICATION, "x"))
    assert words == (
        "4,076 rows · 2 labels · TSV · UTF-8 with a byte order mark · delimiter tab · no quoting · "
        "header in the first row"
    )


def _text(control):
    return control.text() if isinstance(control, QAbstractButton) else ""
