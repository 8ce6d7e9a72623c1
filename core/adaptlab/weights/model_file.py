"""A file of a model folder, as jobs name it."""

from adaptlab.values import Value


class ModelFile(Value):
    """A file of a model folder at the time when the job was created.

    `digest` is the SHA-256 of a small file, or of the header and samples of a file of weights; see
    `adaptlab.weights.model_folder.fingerprint`.
    """

    name: str
    size: int
    digest: str
