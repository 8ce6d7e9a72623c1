"""Pretrain a tiny ViT on images of the digits 0 to 4, as a model folder.

    python examples/pretrain_digit_images.py .adaptlab-models/digits-vit

The folder can be imported as a base model and adapted to the digits 5 to 9; see
docs/how-to/adapt-a-model-of-images.md. It takes about a minute on two cores.
"""

import sys
from pathlib import Path

import torch
from transformers import ViTConfig, ViTForImageClassification

from adaptlab.engine.items.task_items import make_items, scored_items
from adaptlab.tasks.digit_images import DigitImages

TASK = DigitImages(digits=(0, 1, 2, 3, 4))
SEED = 0
STEPS, BATCH, RATE = 400, 64, 1e-3
CONFIG = ViTConfig(
    image_size=8,
    patch_size=2,
    num_channels=1,
    hidden_size=64,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=128,
    num_labels=len(TASK.digits),  # pyright: ignore[reportCallIssue] - a member of every configuration
)


def pixels(levels: torch.Tensor) -> torch.Tensor:
    """Return levels [B, 64] as the pixels [B, 1, 8, 8] that a ViT reads, from -1 to 1."""
    return levels.unflatten(-1, TASK.image()).float() / 127.5 - 1


def pretrained() -> ViTForImageClassification:
    """Return a ViT that was trained on the training images."""
    torch.manual_seed(SEED)
    model = ViTForImageClassification(CONFIG)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=STEPS)
    for step in range(STEPS):
        items = make_items(TASK, "train", torch.tensor([SEED]), step * BATCH, BATCH)
        output = model(pixels(items.tokens[0]), labels=items.targets[0, :, 0])
        optimiser.zero_grad()
        output.loss.backward()
        optimiser.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: ViTForImageClassification) -> float:
    """Return the accuracy on all test images of the digits 0 to 4."""
    count = TASK.available("test")
    ((_, items),) = scored_items(TASK, "test", count, count, torch.device("cpu"))
    found = model(pixels(items.tokens[0])).logits.argmax(-1)
    return float((found == items.targets[0, :, 0]).float().mean())


def main(folder: Path) -> None:
    """Write the folder, and print the accuracy of the model with its own head."""
    model = pretrained()
    model.save_pretrained(folder)
    print(f"{folder}: {accuracy(model):.1%} of {TASK.available('test')} test images")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".adaptlab-models/digits-vit"))
