"""Uploading an export to a new repository on the Hub, all files in one commit."""

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


def push(request: PushRequest, tell: Callable[[str], None]) -> Pushed:
    """Create the repository and upload the files.

    Raises:
        UserError: There is no token, or it may not write; the name is taken; the Hub can't be reached; or Hone works
            offline. A created repository stays, empty.
    """
    token, subject, repo = find_token()[0], Subject(request.repo), request.repo
    if hub.is_forbidden():
        raise offline(subject)
    if not token:
        raise UserError(_("Uploading to {host} requires a token").format(host=hub.host()), NO_TOKEN)
    api = HfApi(endpoint=constants.ENDPOINT, token=token, library_name="hone")
    tell(_("Creating {repo}").format(repo=repo))
    try:
        api.create_repo(repo, private=request.private, repo_type="model")
    except FAILURES as error:
        if _status(error) == HTTPStatus.CONFLICT:
            raise UserError(
                _("There is a model {repo} already").format(repo=repo),
                _("Hone uploads to new repositories only, so that nothing is overwritten."),
                (Fix(_("Choose another name, or delete that one on the Hub")),),
            ) from error
        raise _refused(error, subject) from error
    tell(_("Uploading the files"))
    folder = Path(request.folder)
    try:
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message=_("Exported with Hone"))
    except (*FAILURES, RuntimeError, ValueError) as error:  # the upload of large files has errors of its own
        failure = _refused(error, subject)
        left = _("{page} was created and is empty.").format(page=page_of(repo, Kind.MODEL))
        raise UserError(failure.title, f"{failure.detail} {left}", failure.fixes) from error
    return Pushed(url=page_of(repo, Kind.MODEL))


def _refused(error: Exception, subject: Subject) -> UserError:
    if _status(error) == HTTPStatus.FORBIDDEN:
        return subject.error(
            _("The token may not write to {repo}").format(repo=subject.name),
            _(
                "Create a token with write permission at huggingface.co/settings/tokens, and add it in Settings."
            ),
        )
    if isinstance(error, FAILURES):
        return as_user_error(error, subject)
    return UserError(_("The files could not be uploaded"), without_token(str(error)))


def _status(error: Exception) -> int | None:
    return error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
