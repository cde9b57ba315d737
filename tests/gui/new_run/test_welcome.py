"""The page of the first start."""

import msgspec
import pytest

from core.options import presets
from core.options.validate import check_tree
from gui.new_run.welcome import WelcomePage, seconds_of
from tests.fakes.runs import Plot, finish, make_folder, write_story


@pytest.mark.parametrize(("epochs", "is_known"), [(None, True), (50.0, False)])
def test_the_time_of_an_example_is_that_of_an_earlier_run_of_it_unchanged(tmp_path, epochs, is_known):
    example = presets.find_example("digits")
    options, _problems = check_tree(example.tree)
    assert seconds_of(example, tmp_path) is None
    if epochs:
        options = msgspec.structs.replace(
            options, training=msgspec.structs.replace(options.training, epochs=epochs)
        )
    run, plot = make_folder(tmp_path / "digits-2", options), Plot(steps=16, reached=16)
    finish(run, plot, write_story(run, plot))
    assert (seconds_of(example, tmp_path) is not None) is is_known


def test_a_tile_is_called_as_its_example_is_on_the_form(qtbot, tmp_path):
    page = WelcomePage(lambda: tmp_path)
    qtbot.addWidget(page)
    assert page.tiles
    for name, tile in page.tiles.items():
        assert tile.accessibleName() == presets.find_example(name).title
