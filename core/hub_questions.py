"""What Hone's processes ask and tell each other about the Hugging Face Hub: searches, downloads, the cache, a token."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What a repository of the Hub holds."""

    MODEL = "model"
    DATASET = "dataset"


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which models or data sets answer to these words?

    Attributes:
        words: What their names hold; a whole `owner/name` finds that one, private or not. Empty: the most used.
        kind: Models or data sets.
        task: Only models that can learn this task of Hone's; empty: all.
    """

    words: str
    kind: Kind = Kind.MODEL
    task: str = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One model or data set of the Hub, and what Hone could do with it.

    Attributes:
        size: Bytes of a model's safetensors weights, or of all of a data set; None where the Hub doesn't say.
        parameters: How many numbers they are; None likewise.
        licence: As the Hub abbreviates it; empty: none is named.
        purpose: What the Hub says it is for, such as `fill-mask`.
        gated: Its owner lets in only who has accepted its terms.
        here: Bytes of it on this computer, half a file included.
        complete: All that a run needs is on this computer.
        refusal: Why Hone can't train it; empty: it can.
        remedy: What to do about that; empty: nothing helps.
        command: What to run in a terminal for it, where that helps.
    """

    id: str
    kind: Kind = Kind.MODEL
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
    command: str = ""


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, the most downloaded first; `signed_in`: a token was sent along."""

    found: tuple[Found, ...] = ()
    signed_in: bool = False


class DownloadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Bring this to the Hub's cache; what has come before is gone on with.

    `subset` names a part of a data set, as its card does; empty: the first, or all where the card names none.
    """

    id: str
    kind: Kind = Kind.MODEL
    subset: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """How far a download is, in bytes, and which file is coming; those that were here before count as done."""

    done: int
    total: int
    file: str = ""


class Downloaded(msgspec.Struct, frozen=True, kw_only=True, tag="downloaded"):
    """All has come: the folder that holds it, how many files, and how many bytes."""

    path: str
    files: int
    size: int


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """A repository in the Hub's cache.

    `partial` are bytes of files that haven't come to their end, `size` those of the others; `used` and `changed` are
    unix seconds. A `complete` one has all that a run needs: a model its config and safetensors, a data set samples.
    """

    id: str
    kind: Kind
    size: int
    partial: int = 0
    complete: bool = False
    used: float = 0.0
    changed: float = 0.0


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is cached, the largest first, where, and how many bytes in all: shared files count once."""

    folder: str
    repos: tuple[Cached, ...] = ()
    total: int = 0


class RemoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a repository from the cache, or only the files that haven't come to their end."""

    id: str
    kind: Kind = Kind.MODEL
    only_partial: bool = False


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes that freed."""

    freed: int


class AccountAction(StrEnum):
    """What to do with the token: see where it is, keep one, forget the kept one, ask the Hub whose it is."""

    LOOK = "look"
    SAVE = "save"
    REMOVE = "remove"
    CHECK = "check"


class AccountRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Something about the person's token; `token` is the one to keep, and goes nowhere but into the keychain."""

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
    """Where a token is, and whose.

    Attributes:
        place: Where the one in use was found.
        keychain: The name of this computer's keychain; empty: there is none, and `refusal` says why.
        refusal: Why no token can be kept here.
        name: Whose token it is, once the Hub was asked.
    """

    place: TokenPlace = TokenPlace.NOWHERE
    keychain: str = ""
    refusal: str = ""
    name: str = ""
