"""Sending an export to a new repository on the Hub: all of its files in one commit, only because a person asked."""

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from huggingface_hub import HfApi, constants, errors

from core.base.errors import Fix, UserError
from core.base.language import _
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

WRITE = _(
    "Make a token with leave to write at huggingface.co/settings/tokens, and give it to Hone in Settings"
)


def push(request: PushRequest, tell: Callable[[str], None]) -> Pushed:
    """Make the repository and send the files.

    Raises:
        UserError: There is no token, or none with leave to write; the name is taken; the Hub can't be reached; or
            Hone works offline. Once the repository is made, it stays, empty.
    """
    token, _rest = find_token()
    subject = Subject(request.repo, has_token=bool(token))
    if hub.is_forbidden():
        raise offline(subject)
    if not token:
        raise UserError(_("Sending to {host} takes a token").format(host=hub.host()), NO_TOKEN)
    api = HfApi(endpoint=constants.ENDPOINT, token=token, library_name="hone")
    tell(_("Making {repo}").format(repo=request.repo))
    try:
        api.create_repo(request.repo, private=request.private, repo_type="model")
    except FAILURES as error:
        raise _not_made(error, request, subject) from error
    tell(_("Sending the files"))
    try:
        api.upload_folder(
            repo_id=request.repo, folder_path=Path(request.folder), commit_message=_("Exported with Hone")
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
            _("There is a model {repo} already").format(repo=request.repo),
            _("Hone sends to new repositories only, so that nothing of yours is overwritten."),
            (Fix(_("Choose another name, or delete that one on the Hub")),),
        )
    if status == HTTPStatus.FORBIDDEN:
        return UserError(
            _("The token has no leave to make {repo}").format(repo=request.repo),
            _(
                "It may only read, or {owner} is neither you nor a group of yours that lets you. {write}."
            ).format(owner=owner, write=WRITE),
        )
    return as_user_error(error, subject)


def _not_sent(error: Exception, request: PushRequest, subject: Subject) -> UserError:
    """Why the files were not sent; the repository is there."""
    if _status(error) == HTTPStatus.FORBIDDEN:
        failure = UserError(
            _("The token has no leave to write to {repo}").format(repo=request.repo), f"{WRITE}."
        )
    elif isinstance(error, FAILURES):
        failure = as_user_error(error, subject)
    else:
        failure = UserError(_("The files could not be sent"), str(error))
    left = f"The repository {page_of(request.repo, Kind.MODEL)} was made and is empty; nothing of the model is in it."
    return UserError(failure.title, without_token(f"{failure.detail} {left}"), failure.fixes)


def _status(error: Exception) -> int | None:
    return error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
