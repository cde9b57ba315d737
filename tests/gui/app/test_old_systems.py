"""What a system that is too old for Hone is told, from facts as such systems give them."""

import pytest

import about
from bootstrap import old_systems as at_set_up
from gui.__main__ import OLDEST_MACOS, System, this_system, why_too_old


@pytest.mark.parametrize(
    "system",
    [
        System("linux"),
        System("darwin", (14, 0), "arm64"),
        System("darwin", (26, 1), "arm64"),
        System("darwin", (), "arm64"),
        System("win32", (17763,), "AMD64"),
        System("win32", (26100,), "AMD64"),
    ],
)
def test_what_is_new_enough_is_told_nothing(system):
    assert why_too_old(system) == ""


def test_an_older_mac_is_told_to_update():
    words = why_too_old(System("darwin", (13, 7, 1), "arm64"))
    assert "has macOS 13.7.1, and Hone needs macOS 14 (Sonoma)" in words
    assert "Software Update" in words


def test_a_program_for_intel_is_told_of_rosetta_and_of_other_computers():
    words = why_too_old(System("darwin", (15, 1), "x86_64"))
    assert "Apple chip" in words
    assert "Rosetta" in words


def test_an_older_windows_is_told_to_update():
    assert "version 1809" in why_too_old(System("win32", (14393,), "AMD64"))


def test_this_system_will_do():
    assert why_too_old(this_system()) == ""


def test_the_application_the_window_and_the_set_up_name_the_same_macos():
    assert ".".join(str(number) for number in OLDEST_MACOS) == about.OLDEST_MACOS
    assert at_set_up.OLDEST_MACOS == OLDEST_MACOS


@pytest.mark.parametrize(
    ("system", "mac", "libc", "words"),
    [
        ("linux", "", "glibc 2.31", "glibc 2.31"),
        ("linux", "", "glibc 2.17", "Ubuntu 22.04"),
        ("linux", "", "glibc 2.34", ""),
        ("linux", "", "glibc 2.41", ""),
        ("linux", "", "", "musl"),
        ("darwin", "13.6", "", "macOS 13.6"),
        ("darwin", "14.0", "", ""),
        ("darwin", "", "", ""),
        ("win32", "", "", ""),
    ],
)
def test_the_set_up_says_so_before_it_downloads(system, mac, libc, words):
    said = at_set_up.why_not(system, mac, libc)
    assert words in said
    assert bool(words) == bool(said)


def test_the_set_up_runs_here():
    assert at_set_up.why_not() == ""
