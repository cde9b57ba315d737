"""The sentences of the program."""

import re

from tests.sentences import messages


def test_placeholders_have_names():
    unnamed = re.compile(r"(?<!\{)\{(:[^}]*)?\}")
    assert [each for each in messages() if any(map(unnamed.search, each[2]))] == []
