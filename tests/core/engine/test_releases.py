"""Whether a newer Hone is out: one question, asked of a stand-in here, and words for all that goes wrong."""

import socket
import time

import pytest

from core.base import settings
from core.base.errors import UserError
from core.base.jobs import run_job
from core.base.settings import Settings
from core.engine.hub import releases
from core.engine.hub.releases import NOT_FETCHED, newest_release
from core.services.hub import Release, ReleaseRequest, compared
from core.services.hub import ReleaseStanding as Standing
from tests.fakes.publisher import Publisher

REQUEST = ReleaseRequest(repository="someone/hone", running="0.1.0")


@pytest.fixture(autouse=True)
def plain_network(monkeypatch, tmp_path):
    """No proxy, nothing forbidden."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HONE_HOME", str(tmp_path))


@pytest.fixture
def publisher():
    with Publisher().serving() as publisher:
        yield publisher


def ask(publisher):
    return newest_release(REQUEST, api=publisher.url)


def failure(publisher):
    with pytest.raises(UserError) as caught:
        ask(publisher)
    return caught.value


def test_a_newer_release_is_told_with_its_page(publisher):
    publisher.publish("v0.2.0")
    found = ask(publisher)
    assert (found.version, found.standing) == ("0.2.0", Standing.OLDER)
    assert found.page == "https://github.com/someone/hone/releases/tag/v0.2.0"
    assert publisher.asked == ["/repos/someone/hone/releases/latest"]


def test_nothing_about_who_asks_is_sent(publisher):
    publisher.publish("v0.1.0")
    assert ask(publisher).standing is Standing.SAME
    (told,) = publisher.told
    assert told.pop("Host").startswith("127.0.0.1:")
    assert told == {
        "Accept": "application/vnd.github+json",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "User-Agent": "Hone",
    }


@pytest.mark.parametrize(
    ("running", "newest", "standing"),
    [
        ("0.9.0", "0.10.0", Standing.OLDER),
        ("1.0", "v1.0.0", Standing.SAME),
        ("2.0.0", "1.9.9", Standing.NEWER),
    ],
)
def test_versions_are_compared_as_numbers(running, newest, standing):
    assert compared(running, newest) is standing


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Sign in to this network</html>",
        b"[]",
        b'{"tag_name": "nightly"}',
        b'{"tag_name": 3}',
        b"[" * 9999,
    ],
)
def test_an_answer_of_somebody_else_is_told(publisher, body):
    publisher.body = body
    error = failure(publisher)
    assert (error.title, error.detail) == (NOT_FETCHED, "The answer isn't one that Hone understands.")
    assert [fix.label for fix in error.fixes] == ["Look at https://github.com/someone/hone/releases"]


def test_no_release_yet_is_no_failure_of_the_network(publisher):
    publisher.status = 404
    assert failure(publisher).title == "No release was found"


def test_too_many_questions_say_when_to_ask_again(publisher):
    publisher.status = 403
    publisher.headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 1200)}
    assert "Ask again in 20 minutes." in failure(publisher).detail
    publisher.status, publisher.headers = 429, {"retry-after": "61"}
    assert "Ask again in a minute." in failure(publisher).detail


def test_any_other_refusal_is_told_by_its_number(publisher):
    publisher.status = 503
    assert "answered with 503" in failure(publisher).detail


def test_a_proxy_that_wants_a_password_is_told(publisher, monkeypatch):
    publisher.status = 407
    monkeypatch.setenv("http_proxy", publisher.url)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(UserError) as caught:
        newest_release(REQUEST, api="http://releases.invalid")
    assert "HTTPS_PROXY" in caught.value.detail


def test_no_network_is_told():
    with pytest.raises(UserError) as caught:
        newest_release(REQUEST, api="http://releases.invalid")
    assert "releases.invalid can't be found: there is no internet connection" in caught.value.detail


def test_nobody_there_and_somebody_who_hangs_up_are_told(publisher):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and doesn't listen
        with pytest.raises(UserError) as caught:
            newest_release(REQUEST, api=f"http://127.0.0.1:{nobody.getsockname()[1]}")
    assert "can't be reached" in caught.value.detail
    publisher.hangs_up = True
    assert "can't be reached" in failure(publisher).detail


def test_who_says_nothing_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(releases, "RELEASE_SECONDS", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(UserError) as caught:
            newest_release(REQUEST, api=f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert "didn't answer in" in caught.value.detail


def test_a_certificate_of_somebody_else_is_told(publisher):
    publisher.publish("v0.2.0")
    with pytest.raises(UserError) as caught:
        newest_release(REQUEST, api=publisher.url.replace("http:", "https:"))
    assert "certificate" in caught.value.detail


def test_offline_nobody_is_asked(publisher):
    settings.save(Settings(offline=True))
    error = failure(publisher)
    assert error.title == "Hone works offline"
    assert publisher.asked == []


def test_the_engine_answers_the_question(tmp_path):
    """The whole way through its process, which works offline here."""
    settings.save(Settings(offline=True))
    with pytest.raises(UserError) as caught:
        run_job("release", REQUEST, Release)
    assert caught.value.title == "Hone works offline"
