"""Requests and answers of the engine's Hub jobs."""

from enum import StrEnum

import msgspec

from core.base.language import _
from core.options.hub import RepoKind


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Search models or data sets.

    `words` are parts of names, empty for the most used; a whole `owner/name` also finds a private one. `task` limits
    the search to models that can learn this task of Hone.
    """

    words: str
    kind: RepoKind = RepoKind.MODEL
    task: str = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A model or data set of the Hub, and whether Hone can use it.

    `size` is bytes of a model's safetensors weights or of a whole data set, `parameters` the number of weights; None if
    unknown. `licence` is the Hub's abbreviation, `purpose` its `pipeline_tag`. `gated`: its terms must be accepted.
    `here` are bytes on this computer, `complete` if all that a run needs is there. `refusal` and `remedy` are
    as in `Standing`.
    """

    id: str
    kind: RepoKind = RepoKind.MODEL
    downloads: int | None = None
    likes: int | None = None
    size: int | None = None
    parameters: int | None = None
    licence: str = ""
    purpose: str = ""
    gated: bool = False
    private: bool = False
    here: int = 0
    complete: bool = False
    refusal: str = ""
    remedy: str = ""


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Search results, the most downloaded first. `signed_in`: a token was sent."""

    found: tuple[Found, ...] = ()
    signed_in: bool = False


class DownloadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Download into the Hub's cache, continuing an interrupted download.

    `subset` is a part of a data set as named in its card; empty: the first, or all if the card names none.
    """

    id: str
    kind: RepoKind = RepoKind.MODEL
    subset: str = ""


class Downloaded(msgspec.Struct, frozen=True, kw_only=True, tag="downloaded"):
    """A finished download."""

    path: str
    files: int
    size: int


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """A repository in the cache.

    `size` are bytes of finished files, `partial` of unfinished ones; `changed` is in unix seconds. `complete`: all that
    a run needs is there.
    """

    id: str
    kind: RepoKind
    size: int
    partial: int = 0
    complete: bool = False
    changed: float = 0.0


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """The cache: its folder, its repositories (the largest first), and its bytes with shared files counted once."""

    folder: str
    repos: tuple[Cached, ...] = ()
    total: int = 0


class RemoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a repository from the cache, or only its unfinished files."""

    id: str
    kind: RepoKind = RepoKind.MODEL
    only_partial: bool = False


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that were freed."""

    freed: int


class AccountAction(StrEnum):
    """Look for a token, save or remove it in the keychain, or ask the Hub for its owner."""

    LOOK = "look"
    SAVE = "save"
    REMOVE = "remove"
    CHECK = "check"


class AccountRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request about the person's token; `token` is the one to save in the keychain."""

    action: AccountAction = AccountAction.LOOK
    token: str = ""

    def __repr__(self) -> str:
        return f"AccountRequest({self.action})"


class TokenPlace(StrEnum):
    """Where the token in use was found."""

    NOWHERE = "nowhere"
    ENVIRONMENT = "environment"
    KEYCHAIN = "keychain"
    FILE = "file"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The token in use and its owner's `name`, if the Hub was asked.

    `keychain` is the name of this computer's keychain; if it is empty, `refusal` says why there is none.
    """

    place: TokenPlace = TokenPlace.NOWHERE
    keychain: str = ""
    refusal: str = ""
    name: str = ""

    @property
    def words(self) -> str:
        """Where the token is, and whose."""
        text = {
            TokenPlace.KEYCHAIN: _("A token is saved in {keychain}."),
            TokenPlace.ENVIRONMENT: _("The token in the environment variable HF_TOKEN is used."),
            TokenPlace.FILE: _("The token saved by hf auth login is used."),
            TokenPlace.NOWHERE: _("No token. Public models don't need one; gated and private ones do."),
        }[self.place].format(keychain=self.keychain)
        return (
            _("{place} It is valid: it belongs to {name}.").format(place=text, name=self.name)
            if self.name
            else text
        )


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Download the config.json of a model on the Hub, such as `google-bert/bert-base-cased`."""

    source: str


class ConfigFetched(msgspec.Struct, frozen=True, kw_only=True):
    """Its path in the Hub's cache."""

    path: str


NO_TOKEN = _(
    "Create a token with write access at huggingface.co/settings/tokens, and enter it in Settings, under “Hugging Face "
    "Hub”, or in a terminal: hone hub --sign-in"
)
