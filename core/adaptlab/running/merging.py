"""Adaptations in other forms: a process with their base at hand.

The request is one JSON object on stdin, the report one on stdout. A refusal is a sentence on stderr
with the status 3.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from safetensors import safe_open
from safetensors.torch import save, save_file
from torch import Tensor

from adaptlab.engine.models.checkpoint import read_tensors
from adaptlab.engine.models.huggingface import mapped_tensors
from adaptlab.engine.models.merging import HEAD, merged_tensors
from adaptlab.errors import AdaptlabError, NotMergeable
from adaptlab.exchange.gguf_adapter import GGUF, write_gguf
from adaptlab.exchange.peft_folder import peft_folder
from adaptlab.exchange.plugins import Numbers
from adaptlab.exchange.site_patterns import site_patterns
from adaptlab.methods.lora import Lora
from adaptlab.runs.merge_request import Merged, MergeReport, MergeRequest
from adaptlab.specs.resolved import ResolvedAdapt, readable
from adaptlab.weights.huggingface import CONFIG, INDEX, PublishedTensor, read_json_object
from adaptlab.weights.model_folder import CheckedFolder, check_folder
from adaptlab.weights.weights_file import StoredTensor

REFUSED = 3
TIED = "tie_word_embeddings"


@dataclass(frozen=True)
class LoadedAdaptation:
    """A trained adaptation and the folder of its base."""

    spec: ResolvedAdapt
    base: CheckedFolder
    trained: Mapping[str, Tensor]

    @classmethod
    def read(cls, request: MergeRequest) -> "LoadedAdaptation":
        """Read the checkpoint and the headers of the base.

        Raises:
            NotMergeable: it is a base model, or has a trained head for classes.
            BadCheckpoint: the checkpoint is damaged.
            BadModelFolder: the folder is.
        """
        spec = readable(request.spec)
        if not isinstance(spec, ResolvedAdapt):
            raise NotMergeable("Only checkpoints of adaptations can be merged, not base models.")
        if spec.task.classes() is not None:
            raise NotMergeable(
                "This adaptation has a trained head for classes, which takes the place of the "
                "model's own. Export it with `adaptlab checkpoints export`; PEFT loads it with its "
                "head, and merges it there with merge_and_unload()."
            )
        checked = check_folder(request.base)
        expected = spec.method.kept().trained(checked.family.shape())
        shapes = {name: tensor.shape for name, tensor in expected.items()}
        return cls(spec, checked, read_tensors(request.checkpoint, shapes))

    def base_tensor(self, name: str) -> Tensor:
        """Return a tensor of the base in float64; a tied head is the embedding."""
        own = self.base.family.shape().tied.get(name, name)
        return mapped_tensors(self.base, [own], torch.float64)[own]

    def base_numbers(self, name: str) -> Numbers:
        """Return a tensor of the base for numpy, in float32."""
        return self.base_tensor(name).float().numpy()

    def merged(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the changed tensors; see `merged_tensors`."""
        shape, method = self.base.family.shape(), self.spec.method.kept()
        return merged_tensors(method, shape, self.base_tensor, self.trained)


def written(request: MergeRequest) -> MergeReport:
    """Write what was asked for, and return what it costs."""
    adaptation = LoadedAdaptation.read(request)
    request.folder.mkdir(parents=True, exist_ok=True)
    if request.form == "merged":
        return MergeReport(sites=tuple(_write_merged(adaptation, request.folder)))
    report, files = (
        _own(adaptation, request) if request.form == "own" else _lora(adaptation, request)
    )
    if request.is_gguf:
        write_gguf(files, read_json_object(adaptation.base.files, CONFIG), request.folder / GGUF)
        return report
    for name, content in files.items():
        (request.folder / name).write_bytes(content)
    return report


def _own(
    adaptation: LoadedAdaptation, request: MergeRequest
) -> tuple[MergeReport, dict[str, bytes]]:
    """Return the files of the method's own form in PEFT."""
    spec, content = adaptation.spec, request.checkpoint.read_bytes()
    base, name = adaptation.base_numbers, request.base_name
    return MergeReport(sites=()), peft_folder(spec.family, spec.method, content, base, name)


def _write_merged(adaptation: LoadedAdaptation, folder: Path) -> Iterator[Merged]:
    """Write the files of the base with the changed tensors in their places."""
    checked = adaptation.base
    shape, changed = checked.family.shape(), dict(adaptation.merged())
    if HEAD in shape.tied and HEAD not in changed and (own := shape.tied[HEAD]) in changed:
        changed[HEAD] = changed[own]  # in files that have the tied head too
        unties = False
    else:
        unties = HEAD in shape.tied and HEAD in changed
    places: dict[str, list[tuple[str, PublishedTensor]]] = {}
    for name, (stored, place) in checked.sources.items():
        places.setdefault(stored.name, []).append((name, place))
    files = sorted({tensor.file for tensor in checked.stored})
    left = {name: tensor for name, tensor in changed.items() if name in checked.sources}
    for path in files:
        content: dict[str, Tensor] = {}
        with safe_open(path, framework="pt") as file:
            for tensor in (one for one in checked.stored if one.file == path):
                whole = file.get_tensor(tensor.name)
                own = [one for one in places.get(tensor.name, ()) if one[0] in left]
                content[tensor.name] = _placed(whole, own, left) if own else whole
                for name, place in own:
                    yield _cost(name, place, whole, left[name], content[tensor.name])
        if unties and path == files[-1] and HEAD not in checked.sources:
            like = checked.sources[shape.tied[HEAD]][0]
            added = _added_head(checked, changed[HEAD], like)
            content |= added
            ((head, rounded),) = added.items()
            _index_head(folder, checked, head, path.name)
            before = adaptation.base_tensor(HEAD)
            yield _cost(HEAD, PublishedTensor(head), before, changed[HEAD], rounded)
        save_file(content, folder / path.name, {"format": "pt"})
    _copy_others(checked, folder, unties=unties)


def _placed(
    whole: Tensor, own: Iterable[tuple[str, PublishedTensor]], changed: Mapping[str, Tensor]
) -> Tensor:
    """Return a stored tensor with ours in place, rounded once."""
    exact = whole.double().clone()
    for name, place in own:
        _part(exact, place, changed[name]).copy_(changed[name])
    return exact.to(whole.dtype).contiguous()


def _part(whole: Tensor, place: PublishedTensor, own: Tensor) -> Tensor:
    """Return the view of one of our tensors; matrices of experts are stacked."""
    flat = whole.flatten(0, 1) if whole.dim() > own.dim() else whole
    return place.part_of(flat, len(own))


def _cost(
    name: str,
    place: PublishedTensor,
    before: Tensor,
    exact: Tensor,
    rounded: Tensor,
) -> Merged:
    old = _part(before.double(), place, exact)
    change = (exact - old).norm()
    error = (_part(rounded.double(), place, exact) - exact).norm()
    return Merged(
        name=name,
        change=float(change / old.norm()) if old.norm() > 0 else None,
        rounding=float(error / change) if change > 0 else 0.0,
    )


def _added_head(checked: CheckedFolder, head: Tensor, like: StoredTensor) -> dict[str, Tensor]:
    """Return the untied head by its name, in the embedding's dtype."""
    with safe_open(like.file, framework="pt") as file:
        dtype = file.get_tensor(like.name).dtype
    name = checked.family.stored_name(HEAD, checked.family.published_tensors()[HEAD])
    return {name: head.to(dtype).contiguous()}


def _index_head(folder: Path, checked: CheckedFolder, name: str, file: str) -> None:
    """Add the untied head to the index, if the model has one."""
    if INDEX in checked.files.names():
        index = read_json_object(checked.files, INDEX)
        places = cast("dict[str, object]", index["weight_map"]) | {name: file}
        index |= {"weight_map": places}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def _copy_others(checked: CheckedFolder, folder: Path, *, unties: bool) -> None:
    """Copy the files of the base that are not weights."""
    weights = {tensor.file.name for tensor in checked.stored}
    for name in checked.files.names():
        source, target = checked.files.path(name), folder / name
        if name in weights or not source.is_file() or (name == INDEX and target.exists()):
            continue
        shutil.copyfile(source, target)
    if unties:
        config = json.loads((folder / CONFIG).read_text()) | {TIED: False}
        (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def _lora(
    adaptation: LoadedAdaptation, request: MergeRequest
) -> tuple[MergeReport, dict[str, bytes]]:
    """Return the files of the nearest LoRA of one rank."""
    shape, rank = adaptation.base.family.shape(), request.rank
    sites = {f"{site.name}.weight": site for site in shape.linear_sites}
    tensors: dict[str, Tensor] = {}
    costs: list[Merged] = []
    lost: list[str] = []
    for name, exact in adaptation.merged():
        old = adaptation.base_tensor(name)
        change = exact - old
        if not change.any():
            continue
        if name not in sites:
            lost.append(name)
            continue
        b, a = _factors(change, rank)
        tensors |= {f"{sites[name].name}.a": a, f"{sites[name].name}.b": b}
        costs.append(
            Merged(
                name=name,
                change=float(change.norm() / old.norm()),
                rounding=float((b.double() @ a.double() - change).norm() / change.norm()),
            )
        )
    if not tensors:
        raise NotMergeable(
            f"{adaptation.spec.method.title} changes no matrix that LoRA adapts, only "
            f"{', '.join(lost[:8]) or 'nothing'}. Merge it without --as."
        )
    chosen = {name.rpartition(".")[0] for name in tensors}
    method = Lora(rank=rank, alpha=rank, sites=tuple(site_patterns(shape, chosen)))
    checkpoint = save({name: tensor.contiguous() for name, tensor in tensors.items()})
    files = peft_folder(
        adaptation.spec.family,
        method,
        checkpoint,
        adaptation.base_numbers,
        request.base_name,
    )
    return MergeReport(sites=tuple(costs), lost=tuple(lost)), files


def _factors(change: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return B [O, r] and A [r, I] of the nearest matrix of a rank.

    Both are in float32 and share singular values evenly; smaller ones are filled up with zeros.
    """
    u, s, v = torch.linalg.svd(change, full_matrices=False)
    kept = min(rank, len(s))
    root = s[:kept].sqrt()
    b, a = change.new_zeros(len(change), rank), change.new_zeros(rank, change.shape[1])
    b[:, :kept], a[:kept] = u[:, :kept] * root, root.unsqueeze(1) * v[:kept]
    return b.float(), a.float()


def main() -> None:
    """Answer the request on stdin."""
    request = MergeRequest.model_validate_json(sys.stdin.buffer.read())
    try:
        report = written(request)
    except AdaptlabError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(REFUSED) from error
    sys.stdout.write(report.model_dump_json())


if __name__ == "__main__":
    main()
