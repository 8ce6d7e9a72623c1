"""Small random models of images, and what the library computes with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tests.engine.library_models import architecture
from tests.engine.published import randomised
from torch import Tensor
from transformers import PreTrainedModel

from adaptlab.engine.families.transformers import forward
from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.models.huggingface import PublishedModel, load_folder
from adaptlab.engine.models.library_model import Float64
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.families.transformers import Transformers
from adaptlab.plugins.method import Method
from adaptlab.weights.model_folder import check_folder, fingerprint
from adaptlab.weights.placed_folder import PlacedFolder

CLASSES = 5
IMAGES: dict[str, Callable[[], PreTrainedModel]] = {
    name: architecture(
        kind,
        "ViTConfig",
        vocab_size=None,
        num_key_value_heads=None,
        max_position_embeddings=None,
        num_labels=CLASSES,
        **changes,
    )
    for name, kind, changes in (
        ("vit", "ViTForImageClassification", {"image_size": 8, "patch_size": 2, "num_channels": 1}),
        ("vit-colours", "ViTModel", {"image_size": 6, "patch_size": 3, "num_channels": 3}),
        (
            "vit-no-bias",
            "ViTForImageClassification",
            {"image_size": 4, "patch_size": 4, "num_channels": 2, "qkv_bias": False},
        ),
    )
}


def a_tiny_vit(path: Path, channels: int) -> PlacedFolder:
    """A ViT for images of 8 × 8 pixels with random weights, in a new folder."""
    make = architecture(
        "ViTForImageClassification",
        "ViTConfig",
        vocab_size=None,
        num_key_value_heads=None,
        max_position_embeddings=None,
        image_size=8,
        patch_size=4,
        num_channels=channels,
        qkv_bias=False,  # a bias of all keys changes no pattern, so it would not be moved
    )
    randomised(make, double=False).save_pretrained(path)
    return PlacedFolder(path=path, name="vit", files=fingerprint(check_folder(path)))


@dataclass(frozen=True)
class ImagePair:
    """A model of `transformers`, and the engine's reading of its folder.

    `head` is the head for classes of both, [K, C] and [K].
    """

    theirs: Any
    ours: PublishedModel
    head: tuple[Tensor, Tensor]
    double: bool

    @property
    def family(self) -> Transformers:
        """The family of the engine's reading."""
        assert isinstance(self.ours.family, Transformers)
        return self.ours.family

    @property
    def tokens(self) -> Tensor:
        """The levels [B, T] of random images."""
        size = self.family.image()
        assert size is not None
        generator = torch.Generator().manual_seed(2)
        return torch.randint(256, (3, size.tokens), generator=generator)

    @property
    def pixels(self) -> Tensor:
        """The same images [B, C, H, W] as the library reads them, from -1 to 1."""
        size = self.family.image()
        assert size is not None
        levels = self.tokens.unflatten(-1, size).to(self.head[0])
        return (levels / 255 - 0.5) / 0.5

    def logits(
        self, attached: Attachments = NOTHING_ATTACHED, recorder: LayerRecorder | None = None
    ) -> Tensor:
        """The engine's logits [B, K] for the images."""
        head, bias = (tensor.unsqueeze(0) for tensor in self.head)
        tokens = self.tokens.unsqueeze(0)
        whole = Attachments(
            **{
                **{name: getattr(attached, name) for name in attached.__dataclass_fields__},
                "weights": {**attached.weights, "unembed.weight": head, "unembed.bias": bias},
                "read": torch.full_like(tokens[..., 0], tokens.shape[-1]),
            }
        )
        weights = {name: tensor.unsqueeze(0) for name, tensor in self.ours.tensors.items()}
        found = forward(self.family, weights, tokens, whole, slice(None), recorder)
        return found[0, :, 0]

    def adapted(self, method: Method, tensors: Mapping[str, Tensor]) -> Tensor:
        """The engine's logits [B, K] with a method's tensors [...] attached."""
        attach = ENGINE_METHODS.get(method.name)
        stacked = {name: tensor.unsqueeze(0) for name, tensor in tensors.items()}
        return self.logits(attach(method, self.family.shape(), stacked))

    def drawn(self, method: Method) -> dict[str, Tensor]:
        """Return random tensors for a method, large enough to matter."""
        generator = torch.Generator().manual_seed(7)
        return {
            name: 0.5
            * torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(self.head[0])
            for name, tensor in method.tensors(self.family.shape()).items()
        }

    def expected(self, model: Any = None, **options: Any) -> Any:
        """The logits [B, K] of the head on the class token, and the output."""
        model = self.theirs if model is None else model
        with torch.no_grad(), Float64() if self.double else torch.no_grad():
            out = getattr(model, "base_model", model)(self.pixels, **options)
            state = out.last_hidden_state[:, 0]
        return state @ self.head[0].T + self.head[1], out


def image_pair(name: str, folder: Path, *, double: bool) -> ImagePair:
    """Return a random model of images, saved to a folder and read from it."""
    theirs: Any = randomised(IMAGES[name], double=double)
    theirs.save_pretrained(folder)
    dtype = torch.float64 if double else torch.float32
    generator = torch.Generator().manual_seed(5)
    width = theirs.config.hidden_size
    head = torch.randn(CLASSES, width, generator=generator, dtype=torch.float64).to(dtype)
    both = (head, head[:, 0].clone())
    if hasattr(theirs, "classifier"):
        both = (theirs.classifier.weight.data, theirs.classifier.bias.data)
    return ImagePair(theirs, load_folder(folder, dtype), both, double)
