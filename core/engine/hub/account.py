"""The job `account`: looks for the person's token, saves, removes or checks it."""

from core.base.errors import UserError
from core.base.language import _
from core.engine.hub.api import Subject
from core.engine.hub.token import KEYCHAINS, NO_KEYCHAIN, SERVICE, USER, _keychain, _unlocked, find_token
from core.jobs.hub import Account, AccountAction, AccountRequest


def account(request: AccountRequest) -> Account:
    """Saves, removes or checks the token, and reports where it is now.

    Raises:
        UserError: There is no keychain, it is locked, or the Hub rejects the token.
    """
    keychain, owner = _keychain(), ""
    match request.action:
        case AccountAction.SAVE:
            token = request.token.strip()
            if not token or not token.isascii() or any(letter.isspace() for letter in token):
                detail = _("A token starts with hf_ and has letters and digits only.")
                raise UserError(_("This is not a token"), detail)
            if keychain is None:
                raise UserError(_("The token can't be saved"), NO_KEYCHAIN)
            with _unlocked():
                keychain.set_password(SERVICE, USER, token)
        case AccountAction.REMOVE if keychain is not None:
            with _unlocked():
                if keychain.get_password(SERVICE, USER):
                    keychain.delete_password(SERVICE, USER)
        case AccountAction.CHECK:
            from core.engine.hub.api import ask

            if not find_token()[0]:
                detail = _("Paste a token first. Create one at huggingface.co/settings/tokens.")
                raise UserError(_("There is no token to check"), detail)
            owner = str(ask("/api/whoami-v2", Subject())["name"])
    return Account(
        place=find_token()[1],
        keychain="" if keychain is None else KEYCHAINS[type(keychain).__module__],
        refusal=NO_KEYCHAIN if keychain is None else "",
        name=owner,
    )
