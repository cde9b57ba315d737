"""A build learns where its releases are published."""

import pytest

from fill_repository import VERSION_FILE, filled


def test_the_place_is_written_where_settings_reads_it():
    text = filled(VERSION_FILE.read_text(encoding="utf-8"), "some-one/hone.app")
    read: dict[str, str] = {}
    exec(text, read)
    assert read["REPOSITORY"] == "some-one/hone.app"
    assert filled(text, "other/hone").count('REPOSITORY = "other/hone"') == 1


@pytest.mark.parametrize("wrong", ["", "hone", "a/b/c", 'a/b"\nimport os', "https://github.com/a/b"])
def test_what_is_no_repository_is_refused(wrong):
    with pytest.raises(ValueError, match="no owner/name"):
        filled(VERSION_FILE.read_text(encoding="utf-8"), wrong)
