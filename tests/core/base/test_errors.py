"""What people are told of errors."""

import errno
import os
import sys

import pytest

from core.base import errors


@pytest.mark.skipif(sys.platform == "win32", reason="Windows says it in its language")
@pytest.mark.parametrize(
    "number", [errno.ENOENT, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EISDIR, errno.EROFS]
)
def test_what_the_system_says_is_translated(monkeypatch, number):
    assert os.strerror(number) in errors.OF_SYSTEM
    monkeypatch.setattr(errors, "translated", str.upper)
    assert errors.why(OSError(number, os.strerror(number), "a.csv")) == os.strerror(number).upper()


def test_an_error_without_the_systems_words_says_its_own():
    assert errors.why(OSError("no image")) == "no image"
