"""Sending an export to a new repository on the Hub: all of its files in one commit, only because a person asked."""

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from huggingface_hub import HfApi, constants, errors

from core.base.errors import Fix, UserError
from core.engine.hub.account import (
    FAILURES,
    Subject,
    as_user_error,
    find_token,
    offline,
    page_of,
    without_token,
)
from core.services import hub
from core.services.export import NO_TOKEN, Pushed, PushRequest
from core.services.hub import Kind

WRITE = "Make a token with leave to write at huggingface.co/settings/tokens, and give it to Hone in Settings"


def push(request: PushRequest, tell: Callable[[str], None]) -> Pushed:
    """Make the repository and send the files.

    Raises:
        UserError: There is no token, or none with leave to write; the name is taken; the Hub can't be reached; or
            Hone works offline. Once the repository is made, it stays, empty.
    """
    token, _ = find_token()
    subject = Subject(request.repo, has_token=bool(token))
    if hub.is_forbidden():
        raise offline(subject)
    if not token:
        raise UserError(f"Sending to {hub.host()} takes a token", NO_TOKEN)
    api = HfApi(endpoint=constants.ENDPOINT, token=token, library_name="hone")
    tell(f"Making {request.repo}")
    try:
        api.create_repo(request.repo, private=request.private, repo_type="model")
    except FAILURES as error:
        raise _not_made(error, request, subject) from error
    tell("Sending the files")
    try:
        api.upload_folder(
            repo_id=request.repo, folder_path=Path(request.folder), commit_message="Exported with Hone"
        )
    except (*FAILURES, RuntimeError, ValueError) as error:  # what carries large files has errors of its own
        raise _not_sent(error, request, subject) from error
    return Pushed(url=page_of(request.repo, Kind.MODEL))


def _not_made(error: Exception, request: PushRequest, subject: Subject) -> UserError:
    """Why no repository was made."""
    status = _status(error)
    owner = request.repo.partition("/")[0]
    if status == HTTPStatus.CONFLICT:
        return UserError(
            f"There is a model {request.repo} already",
            "Hone sends to new repositories only, so that nothing of yours is overwritten.",
            (Fix("Choose another name, or delete that one on the Hub"),),
        )
    if status == HTTPStatus.FORBIDDEN:
        return UserError(
            f"The token has no leave to make {request.repo}",
            f"It may only read, or {owner} is neither you nor a group of yours that lets you. {WRITE}.",
        )
    return as_user_error(error, subject)


def _not_sent(error: Exception, request: PushRequest, subject: Subject) -> UserError:
    """Why the files were not sent; the repository is there."""
    if _status(error) == HTTPStatus.FORBIDDEN:
        failure = UserError(f"The token has no leave to write to {request.repo}", f"{WRITE}.")
    elif isinstance(error, FAILURES):
        failure = as_user_error(error, subject)
    else:
        failure = UserError("The files could not be sent", str(error))
    left = f"The repository {page_of(request.repo, Kind.MODEL)} was made and is empty; nothing of the model is in it."
    return UserError(failure.title, without_token(f"{failure.detail} {left}"), failure.fixes)


def _status(error: Exception) -> int | None:
    return error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
