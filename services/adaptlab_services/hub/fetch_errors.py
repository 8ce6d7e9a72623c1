"""Sentences about fetches that failed or wait."""

from collections.abc import Mapping
from types import MappingProxyType

from adaptlab.weights.hub_name import HubName
from adaptlab_answers.hub import RepositoryKind

PASSING = frozenset(
    {"unreachable", "silent", "too_slow", "cut", "unavailable", "rate_limited", "ended", "changed"}
)
"""Codes of failures after which the fetch is tried again."""
TOKEN = "adaptlab hub set-token"

_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "absent": (
            "{hub} has no {noun} {repository}, or you may not see it. Check the name. For a "
            f"private {{noun}}, store a token of yours that can read it: {TOKEN}."
        ),
        "gated": (
            "{hub} gives {repository} only to people who have accepted its terms. Accept them at "
            f"{{page}}, store your token ({TOKEN}), and retry."
        ),
        "forbidden": (
            "{hub} refuses {repository} to your token ({detail}). Give it the permission to read "
            f"this repository, or store another one: {TOKEN}."
        ),
        "bad_token": f"{{hub}} does not know your token. Store a valid one: {TOKEN}.",
        "sealed_token": (
            "The server cannot read your stored token any more, because its key has changed. Store "
            f"the token again: {TOKEN}."
        ),
        "no_revision": (
            "{repository} has no branch, tag or commit {revision!r}. See {page}/tree/main."
        ),
        "no_file": "{hub} has lost the file {detail} of {repository}. Fetch another revision.",
        "moved": (
            "{hub} answered with the commit {detail} instead of the one that was asked for. Report "
            "this to its operator."
        ),
        "not_a_hub": (
            "{hub} does not answer as a hub does ({detail}). Ask an operator to check "
            "ADAPTLAB_HUB_ENDPOINT and the proxies."
        ),
        "refused_host": (
            "{hub} led to {detail}, which is not among the allowed hosts. An operator can allow a "
            "mirror's host with ADAPTLAB_HUB_HOSTS."
        ),
        "wrong_size": (
            "{hub} announced another size of a file than the {detail} bytes that it has. Fetch "
            "again later, or another revision."
        ),
        "wrong_digest": (
            "{detail} of {repository} arrived with other bytes than {hub} announced. Nothing was "
            "kept. Retry; if it fails again, report it to the hub."
        ),
        "too_large": "The answer of {hub} about {repository} is too large to be of a {noun}.",
        "refused": "{hub} refused the request ({detail}).",
        "unreachable": (
            "{hub} cannot be reached ({detail}). Without a network, an operator sets "
            "ADAPTLAB_HUB=off; see how to use a copied folder."
        ),
        "silent": "{hub} did not answer in time.",
        "too_slow": "{hub} sent fewer bytes per second than the least rate.",
        "cut": "{hub} closed the connection before a file was complete.",
        "unavailable": "{hub} is not available ({detail}).",
        "rate_limited": "{hub} allows no more requests for now.",
        "ended": "The process that reads from {hub} ended; it may lack memory.",
        "disk_full": (
            "The server's disk is too full: {detail}. Ask an operator to free some, then retry."
        ),
        "too_many_bytes": (
            "{repository} has {detail} of files to fetch. Choose a smaller {noun}, or ask an "
            "operator to raise it with {setting}."
        ),
        "too_many_files": (
            "{repository} has {detail} files with records that are listed. Choose a dataset in "
            "fewer files, or upload one file of it: adaptlab datasets upload NAME FILE."
        ),
        "model_too_large": (
            "{repository} has {detail}. Choose a smaller model, or ask an operator to raise "
            "ADAPTLAB_MAX_MODEL_PARAMETERS."
        ),
        "no_token": (
            "You have stored no token of {hub}. Create one that can write there, and store it: "
            f"{TOKEN}."
        ),
        "is_public": (
            "{repository} is public. Make it private at {page}/settings, choose another name, or "
            "say --public."
        ),
        "not_ours": (
            "{repository} has files that adaptlab did not write, so it was left alone. Choose "
            "another name."
        ),
        "no_licence": (
            "The licence of the base model is unknown, so its adapter is not made public. Push it "
            "without --public."
        ),
        "changed": "{repository} was changed while it was written.",
        "no_permission": (
            "The owner of this fetch is not a submitter of the project any more. Ask an admin."
        ),
    }
)


def sentence(
    code: str, detail: str, name: HubName, endpoint: str, noun: RepositoryKind = "model"
) -> str:
    """Return what happened and what to do, for a code of `HubFailure`.

    Other codes are of problems that are sentences themselves.
    """
    text = _SENTENCES.get(code)
    if text is None:
        return detail
    return text.format(
        hub=endpoint.partition("://")[2],
        page=f"{endpoint}/{'datasets/' * (noun == 'dataset')}{name.repository}",
        noun=noun,
        setting=f"ADAPTLAB_MAX_{'HUB' if noun == 'model' else 'DATASET'}_BYTES",
        repository=name.repository,
        revision=name.revision,
        detail=detail or "no reason",
    )
