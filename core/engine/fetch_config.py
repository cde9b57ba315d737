"""Fetch one file of a model on the Hugging Face Hub: config.json, which describes it. Neither weights nor code.

It goes into the Hub's cache, where every program looks for it; the run that follows fetches the rest.
"""

from http import HTTPStatus

from huggingface_hub import errors, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of its HTTP library, whichever that is

from core import hub
from core.errors import ModelError

SECONDS = 10.0
"""How long the Hub may keep silent."""

MOST_BYTES = 8 << 20
"""A config.json beyond this is none. Those with names for tens of thousands of labels have 1 to 2 MB."""

FAILURES = (HTTPError, errors.HFValidationError, OSError)
"""What huggingface_hub raises here; its own errors are among them."""

WORDS: tuple[tuple[type[Exception], str, str], ...] = (
    (
        errors.HFValidationError,
        "{source} is no name of a model on the Hub",
        "Such a name is “model” or “organisation/model”. A folder is given by its whole path.",
    ),
    (
        errors.OfflineModeIsEnabled,
        "The config.json of {source} was not fetched",
        "HF_HUB_OFFLINE is set, so that nothing is asked of the Hub.",
    ),
    (
        errors.GatedRepoError,
        "{source} is open only to those who have accepted its terms",
        "Accept them at {page}, then log in on this computer: hf auth login",
    ),
    (
        errors.RepositoryNotFoundError,
        "There is no model {source} on {host}, or it is private",
        "Look whether its name is spelled right. A private model needs a login: hf auth login",
    ),
    (
        errors.RemoteEntryNotFoundError,
        "{source} has no config.json",
        "Without one, nobody can tell what kind of model it is. Choose another model.",
    ),
    (errors.HfHubHTTPError, "{host} doesn't hand out the config.json of {source}", "{status}"),
    (HTTPError, "{host} can't be reached", "Is this computer online? ({library})"),
    (errors.LocalEntryNotFoundError, "{host} can't be reached", "Is this computer online? ({library})"),
    (
        errors.FileMetadataError,
        "{host} doesn't answer as the Hub does",
        "Something on the way answers in its place: a proxy, or a network that wants a login first.",
    ),
    (OSError, "The config.json of {source} can't be kept on this computer", "{library}"),
)
"""What to say of each error, the narrowest first."""


def fetch_config(source: str) -> hub.ConfigFetched:
    """Bring a model's config.json to this computer.

    Args:
        source: The model's id on the Hub.

    Raises:
        ModelError: It can't be had: no network, no such model, none without a login, no such file, no room on the disk.
    """
    try:
        # Asked first, and once: hf_hub_download by itself would try for minutes where there is no network.
        found = get_hf_file_metadata(hf_hub_url(source, hub.CONFIG), timeout=SECONDS)
        if found.commit_hash is None:
            raise errors.FileMetadataError("no commit is named")
        if (found.size or 0) > MOST_BYTES:
            raise _too_large(source)
        return hub.ConfigFetched(path=hf_hub_download(source, hub.CONFIG, etag_timeout=SECONDS))
    except FAILURES as error:
        raise not_fetched(source, error) from error


def not_fetched(source: str, error: Exception) -> ModelError:
    """Why config.json isn't here, in words a person can act on; `error` is one of `FAILURES`."""
    title, detail = next((title, detail) for kind, title, detail in WORDS if isinstance(error, kind))
    known = {
        "source": source,
        "host": hub.host(),
        "page": f"{hub.PUBLIC}/{source}",
        "status": _status(error),
        "library": _first_line(error),
    }
    return ModelError(title.format(**known), detail.format(**known))


def _too_large(source: str) -> ModelError:
    return ModelError(
        f"The config.json of {source} is too large to be one",
        f"It has more than {MOST_BYTES >> 20} MB and was not fetched. Choose another model.",
    )


def _status(error: Exception) -> str:
    """What the Hub's refusal means; empty where it is none."""
    if not isinstance(error, errors.HfHubHTTPError):
        return ""
    match error.response.status_code:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return "It doesn't accept this computer's login. Log in anew: hf auth login"
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "It was asked too often from here. Try again in some minutes."
        case status:
            return f"It said {status} {error.response.reason_phrase}. Try again later."


def _first_line(error: Exception) -> str:
    """What a library says, in short; the kind of the error where it says nothing."""
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
