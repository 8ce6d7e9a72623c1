"""A model of `transformers` that computes with the engine's tensors.

The library's module gives the architecture. Its matrices are multiplied by the engine, so that
methods attach to them as everywhere. Its norms and embeddings are called with the engine's tensors.
Its attention goes through a function of ours in the library's registry. Replicates are folded into
the batch: rows are ordered by replicate, then by item.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models import library_rotary, recomputing
from adaptlab.engine.models.attachments import Attachments, AttentionRead, QueryHook, diluted
from adaptlab.engine.models.key_cache import Begun, KeyCache, Read, cached
from adaptlab.engine.models.library_comparison import library_config, library_module
from adaptlab.engine.models.library_pass import LibraryPass
from adaptlab.engine.models.library_positions import Positions
from adaptlab.engine.models.step_threads import MOST_LANES
from adaptlab.engine.plugins import PatternRecorder
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.errors import BadModelFolder
from adaptlab.families.transformers import Transformers
from adaptlab.weights.library_tensors import (
    BEFORE_ATTENTION,
    BLOCK,
    CLASS_TOKEN,
    PATCHES,
    POSITIONS,
    TRANSFORM,
)

REGISTERED = "adaptlab"
"""The name of our attention and mask functions in the library's registries."""
POOLED = ("BertModel", "RobertaModel", "ViTModel")
"""Architectures with a layer behind the last block that other tasks than ours need."""
_MAKING = threading.Lock()
"""While the library makes a module, it sets torch's type of new tensors for all threads."""
OWN_SOFTMAX = ("softcap", "s_aux")
"""Options of an attention that the library's fused function ignores."""


class LibraryModel:
    """The module of a family, without weights of its own."""

    def __init__(self, family: Transformers) -> None:
        self.family, self._shape = family, family.shape()
        self._module, self._image = _built(family), family.image()
        self._device = torch.device("cpu")
        self._pass: LibraryPass | None = None
        self._embedding: nn.Module = self._module.get_input_embeddings()
        self._normed = frozenset(self._bind(self._checked()))
        if self._image is not None:
            self._module.base_model.embeddings.forward = self._patched
        for module in self._module.modules():
            if library_rotary.depends_on_length(module):
                module.forward = partial(self._turns, module)

    def _turns(
        self, module: Any, x: Tensor, position_ids: Tensor, layer_type: str | None = None
    ) -> tuple[Tensor, Tensor]:
        return library_rotary.turns(module, x, position_ids, self._at.ends, layer_type)

    def _checked(self) -> Transformers:
        """Return the family as the module declares it.

        Its names may differ from those of files.

        Raises:
            BadModelFolder: its tensors are not those of the family.
        """
        shapes = {name: tuple(tensor.shape) for name, tensor in self._module.named_parameters()}
        found = self.family.with_tensors(shapes)
        declared, present = self._shape.tensors, found.shape().tensors
        names = declared.keys() | present.keys()
        if differing := [name for name in names if declared.get(name) != present.get(name)]:
            raise BadModelFolder(
                f"{self.family.architecture} of transformers {version('transformers')} and the "
                f"files of the model differ in {len(differing)} tensors, {min(differing)} among "
                "them."
            )
        return found

    def logits(
        self,
        weights: Mapping[str, Float[Tensor, "G ..."]],
        tokens: Int[Tensor, "A B T"],
        attached: Attachments,
        rows: slice,
        recorder: PatternRecorder | None,
        taken: dict[str, Tensor] | None = None,
        reads: list[Read] | None = None,
    ) -> Float[Tensor, "R B Q V"]:
        """Return logits at some rows, or the output of a head for classes.

        Rows are those of the content. Only such a head may serve more replicates than tokens have
        rows. `taken` receives what attention reads of virtual tokens; see `plugins.TokenStates`.
        `reads` receives what the attention of each layer has read.

        Raises:
            BadModelFolder: the architecture's attention cannot be observed and changed.
        """
        length, device = self.family.positions_of(tokens.shape[-1]), tokens.device
        if device != self._device:
            self._module.to(device)  # what is not trained: frequencies and numbers of positions
            self._device = device
        positions = Positions.of(attached, self.family)
        at = LibraryPass(
            weights=attached.adapted(weights),
            attached=attached,
            recorder=recorder,
            replicates=len(tokens),
            positions=positions,
            length=length,
            kept=torch.arange(length, device=device)[rows] + positions.count,
            normed=self._normed,
            taken=taken,
            reads=reads,
            ends=positions.count + _lengths(attached, rows, length, len(tokens), device),
        )
        logits = self._passed(at, lambda: self._output(tokens.flatten(0, 1), at))
        if len(at.attended) != self._shape.layers:
            raise BadModelFolder(
                f"The attention of {self.family.architecture} does not go through the registry of "
                "transformers, so methods cannot attach to it. The model is not supported."
            )
        return logits

    def _passed(self, at: LibraryPass, compute: Callable[[], Tensor]) -> Tensor:
        self._pass = at
        try:
            with _precision(at):
                return compute()
        finally:
            self._pass = None

    def begun(
        self,
        weights: Mapping[str, Float[Tensor, "G ..."]],
        tokens: Int[Tensor, "A B T"],
        attached: Attachments,
        rows: slice,
        lengths: Int[Tensor, "A B"],
        room: int,
    ) -> Begun | None:
        """Read tokens, and keep what attention reads; see `plugins.Beginning`."""
        if attached.label_scales or attached.queries or not self._turns_alike(attached, room):
            return None
        count, device = len(tokens), tokens.device
        masks: list[Read] = []
        longest, first = tokens.new_zeros(count, 1, room), tokens.new_zeros(count, 1, 1)
        asked = replace(attached, answer_rows=first)
        self.logits(weights, longest, asked, slice(room - 1, room), None, None, masks)
        reads: list[Read] = []
        logits = self.logits(weights, tokens, attached, rows, None, None, reads)
        reads = [replace(read, seen=mask.seen) for read, mask in zip(reads, masks, strict=True)]
        cache = cached(lengths, room, count, reads)
        adapted, positions = attached.adapted(weights), Positions.of(attached, self.family)
        without = replace(
            attached, answer_rows=None, prompt=None, late_prompt=None,
            attention_inputs={}, suffixes={}, keys_values={},
        )  # fmt: skip
        before = positions.first if self._has_table else positions.before

        def after(following: Int[Tensor, "R C"]) -> Float[Tensor, "R C V"]:
            flat = following.reshape(-1, 1)
            one = torch.ones_like(flat)
            at = LibraryPass(
                weights=adapted,
                attached=without,
                recorder=None,
                replicates=count,
                positions=Positions.of(without, self.family),
                length=1,
                kept=torch.zeros(1, dtype=torch.int64, device=device),
                normed=self._normed,
                ends=one.flatten(),
                cache=cache,
            )
            options = {
                "input_ids": flat,
                "position_ids": cache.positions.reshape(-1, 1) + before,
                "attention_mask": one,
                "use_cache": False,
                "logits_to_keep": at.kept,
            }
            found = self._passed(at, lambda: self._module(**options).logits)
            cache.advance()
            return found.unflatten(0, (count, -1))[:, :, 0]

        return Begun(logits, cache, after)

    @property
    def _has_table(self) -> bool:
        """True if positions are rows of a table."""
        return POSITIONS in self._shape.tensors

    def _turns_alike(self, attached: Attachments, room: int) -> bool:
        """Return True if rotations do not change while an item grows to `room`."""
        last = Positions.of(attached, self.family).before + room
        return all(library_rotary.is_same_until(module, last) for module in self._module.modules())

    def _output(self, tokens: Int[Tensor, "N T"], at: LibraryPass) -> Float[Tensor, "R B Q V"]:
        """Return the model's output, or that of a head on its states."""
        is_encoder = self.family.is_encoder
        if self._image is not None:
            pixels = tokens.unflatten(-1, self._image).to(at.weights[PATCHES])
            seen = self._seen(pixels)
            states = self._module.base_model(pixel_values=seen).last_hidden_state
            return at.classified(states, "first")
        options: dict[str, Any] = {"use_cache": False}
        if at.virtual or at.positions.keys:
            options |= self._after_learned(tokens, at)
        else:
            options["input_ids"] = tokens
            if is_encoder and POSITIONS in self._shape.tensors:
                # The library would leave out tokens with the id of padding.
                place = at.positions.absolute(at.length, tokens.device)
                options["position_ids"] = place.expand(len(tokens), -1)
        if is_encoder and at.attached.read is not None:
            # Every token would also see what comes behind the text.
            options["attention_mask"] = at.present.to(torch.int64)
        if at.attached.has_classes:
            # The library's own head may change its logits, which are those of tokens.
            states = self._module.base_model(**options).last_hidden_state
            return at.classified(states, "mean" if is_encoder else "last")
        if not is_encoder:
            options["logits_to_keep"] = at.kept
        return self._module(**options).logits.unflatten(0, (at.replicates, -1))

    def _after_learned(self, tokens: Int[Tensor, "N T"], at: LibraryPass) -> dict[str, Any]:
        """Return the options of a pass with learned positions before the content."""
        length = tokens.shape[1]
        place = at.positions.absolute if self._has_table else at.positions.rotary
        return {
            "inputs_embeds": self._behind_learned(self._embedding(tokens), at),
            "position_ids": place(length, tokens.device).expand(len(tokens), -1),
            # Without a mask, positions that repeat would be taken for several sequences.
            "attention_mask": tokens.new_ones(len(tokens), at.virtual + length),
        }

    def _behind_learned(
        self, content: Float[Tensor, "N T C"], at: LibraryPass
    ) -> Float[Tensor, "N T2 C"]:
        """Return learned positions with the content behind them."""
        samples = len(content) // at.replicates

        def virtual(prompt: Tensor | None, count: int) -> Tensor:
            if prompt is None:  # rows of layers stand here, from the first layer's attention on
                return content.new_zeros(len(content), count, content.shape[-1])
            return grouped.lifted(prompt, at.replicates).repeat_interleave(samples, 0).to(content)

        counts, attached = at.positions, at.attached
        before = [
            virtual(None, counts.suffix),
            virtual(attached.late_prompt, counts.late),
            virtual(None, counts.rows),
            virtual(attached.prompt, counts.prompt),
        ]
        return torch.cat([*before, content], 1)

    def _seen(self, levels: Float[Tensor, "N K H W"]) -> Float[Tensor, "N K H W"]:
        """Return the numbers that the model sees of levels."""
        how = self.family.pixels_seen()
        # Numbers, not tensors, which would be copied to the device while a graph is recorded.
        channels = zip(levels.unbind(1), how.mean, how.std, strict=True)
        return torch.stack([(one * how.rescale - mean) / std for one, mean, std in channels], 1)

    def _patched(self, pixels: Float[Tensor, "N K H W"], **_: Any) -> Float[Tensor, "N T2 C"]:
        """Return the first block's input for images.

        It is the class token, the projected patches, and the positions of both, behind learned
        positions, which have none.
        """
        at = self._at
        projection, first, places = (at.weights[n] for n in (PATCHES, CLASS_TOKEN, POSITIONS))
        size = projection.shape[-1]
        patches = pixels.unfold(2, size, size).unfold(3, size, size).movedim(1, 3)
        rows = patches.flatten(3).flatten(1, 2).unflatten(0, (at.replicates, -1))  # R, B, T, I
        bias = at.weights.get(f"{PATCHES.removesuffix('weight')}bias")
        x = grouped.linear(rows, projection.flatten(2), bias)
        first = grouped.lifted(first, len(x)).expand(-1, x.shape[1], -1, -1)
        content = torch.cat([first, x], 2) + grouped.lifted(places, len(x))
        return self._behind_learned(content.flatten(0, 1), at)

    def _bind(self, found: Transformers) -> Iterator[str]:
        """Connect the library's modules to the pass.

        Every module with weights, and every attention, then computes what the pass says.

        Yields the attention sublayers with a norm before them.
        """
        linear = {site.name for site in self._shape.linear_sites}
        ours: dict[str, list[tuple[int, str]]] = {}
        for name, place in found.published_tensors().items():
            ours.setdefault(place.name, []).append((place.start, name))
        for path, module in list(self._module.named_modules()):
            if block := BLOCK.search(f"{path}."):
                self._bind_part(int(block[1]), path, module)
                if block.end() > len(path):
                    module.forward = partial(self._block, module.forward)
            kinds = [kind for kind in module._parameters if f"{path}.{kind}" in ours]
            if self._is_without_module(kinds):
                continue
            names = {kind: [name for _, name in sorted(ours[f"{path}.{kind}"])] for kind in kinds}
            sites_here = tuple(name.removesuffix(".weight") for name in names.get("weight", ()))
            if sites_here and sites_here[0] in linear:
                module.forward = partial(self._linear, sites_here)
            elif self.family.mixes_experts and ".mlp." in path:
                module.forward = partial(self._chosen, module, names)
            else:
                own = {kind: names[kind][0] for kind in kinds}
                module.forward = partial(self._called, module, own)
                sublayer, _, leaf = sites_here[0].rpartition(".")
                if leaf in BEFORE_ATTENTION:
                    yield sublayer
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.new_empty(0)

    def _is_without_module(self, kinds: list[str]) -> bool:
        """Return True if no module is called with these parameters.

        A bias alone is that of a head, and has two names. The bare tensors of images are read by
        `_patched`.
        """
        is_bare = self._image is not None and "weight" not in kinds
        return not kinds or kinds == ["bias"] or is_bare

    def _bind_part(self, layer: int, path: str, module: Any) -> None:
        """Have an attention, or an MLP of experts, pass its output through ours."""
        if hasattr(module, "is_causal"):
            module.attend = partial(self._attend, layer)
        if self.family.mixes_experts and path.endswith(".mlp"):
            module.forward = partial(self._mlp, f"blocks.{layer}.mlp", module.forward)

    @property
    def _at(self) -> LibraryPass:
        assert self._pass is not None, "called outside a pass"
        return self._pass

    def _block(self, forward: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Compute a block, if need be again in the backward pass.

        That happens outside of `logits`.
        """
        at = self._at

        def compute(*args: Any, **named: Any) -> Any:
            if self._pass is at:
                return forward(*args, **named)
            self._pass = at
            try:
                with _precision(at):
                    return forward(*args, **named)
            finally:
                self._pass = None

        return recomputing.block(compute, *args, again=at.attached.recomputes, **named)

    def _linear(self, names: tuple[str, ...], rows: Tensor) -> Tensor:
        if names == (TRANSFORM,):
            rows = rows[:, self._at.kept]
        return self._at.linear(names, rows)

    def _mlp(self, sublayer: str, forward: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
        return self._at.mlp(sublayer, rows, forward(rows))

    def _chosen(self, module: nn.Module, names: Mapping[str, list[str]], *args: Tensor) -> Any:
        return self._at.called_by_group(module, names, *args)

    def _called(self, module: nn.Module, names: Mapping[str, str], *args: Any, **named: Any) -> Any:
        at, name = self._at, names["weight"]
        sublayer, _, leaf = name.removesuffix(".weight").rpartition(".")
        if leaf in BEFORE_ATTENTION and at.virtual:
            x = args[0].unflatten(0, (at.replicates, -1))
            args = (at.with_rows(sublayer, x).flatten(0, 1), *args[1:])
        y = at.called(module, names, *args, **named)
        if name != POSITIONS or not at.virtual:
            return y
        return torch.cat([torch.zeros_like(y[:, : at.virtual]), y[:, at.virtual :]], 1)

    def _attend(
        self,
        layer: int,
        module: Any,
        queries: Float[Tensor, "N H Q D"],
        keys: Float[Tensor, "N K T D"],
        values: Float[Tensor, "N K T D"],
        mask: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output [N, Q, H, D] of a layer's attention.

        Learned keys are included.
        """
        at, content = self._at, (keys, values)
        at.attended.add(layer)
        if at.cache is not None:
            return _read_on(at.cache, layer, module, (queries, *content), options)
        assert mask is not None, "the registered mask function makes one"
        if at.attached.read is None or not self.family.is_encoder:
            mask = mask[:1]  # no item has padding before its answer, so all have the same mask
        if at.virtual:
            mask = self._with_learned(mask, at.seen)
        if at.taken is not None:
            for part, read in (("keys", keys), ("values", values)):
                at.taken[f"blocks.{layer}.attn.kv.{part}"] = read.transpose(1, 2).flatten(-2)
        of_content = mask
        keys, values, mask = _with_learned_keys(at, layer, keys, values, mask)
        factors = at.attached.label_factors(f"blocks.{layer}.attn", at.length, slice(None))
        hook = at.attached.queries.get(f"blocks.{layer}.attn.queries")
        plain = at.recorder is None and factors is None and hook is None
        if plain and _has_plain_softmax(options):
            attend: Any = _library_functions()["sdpa"]
            return attend(module, queries, keys, values, mask, is_causal=False, **options)
        output, pattern = _explicit(module, queries, keys, values, mask, options)
        if factors is not None:
            output = output + _added(pattern[..., -at.length :], values, factors)
        share = None
        if hook is not None:
            output, share = _reread(at, hook, (queries, keys, mask), output, options)
        if at.recorder is not None:
            start, split = at.virtual, (at.replicates, -1)
            asked, keys, values, shown = (
                tensor[..., start:, :] for tensor in (queries, *content, of_content)
            )
            _, relative = _explicit(module, asked, keys, values, shown[..., start:], options)
            whole = diluted(pattern[:, :, start:].unflatten(0, split), share)
            at.recorder.record(layer, whole, relative.unflatten(0, split))
        return output, pattern

    def _with_learned(
        self, mask: Bool[Tensor, "N 1 Q T"], seen: Bool[Tensor, "Q T"]
    ) -> Bool[Tensor, "N 1 Q T"]:
        """Return the mask of the content and of learned positions.

        The content's part is the library's. The rest is what learned positions may see.
        """
        start, whole = self._at.virtual, seen.expand_as(mask).clone()
        whole[..., start:, start:] = mask[..., start:, start:]
        # Behind a causal mask no answer sees padding, and one row of the mask stands for all items.
        return whole & self._at.present[:, None, None] if self.family.is_encoder else whole


def _has_plain_softmax(options: Mapping[str, Any]) -> bool:
    return not any(options.get(own) is not None for own in OWN_SOFTMAX)


def _with_learned_keys(
    at: LibraryPass, layer: int, keys: Tensor, values: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return keys, values and mask with learned keys, and report them."""
    learned = at.attached.keys_values.get(f"blocks.{layer}.attn.kv")
    if learned is not None:
        more = [_for_rows(tensor, keys, at.replicates) for tensor in learned]
        keys, values = torch.cat([more[0], keys], 2), torch.cat([more[1], values], 2)
        mask = torch.cat([mask.new_ones(*mask.shape[:-1], more[0].shape[2]), mask], -1)
    if at.reads is not None:
        at.reads.append(_read(at, keys, values, mask))
    return keys, values, mask


def _read_on(
    cache: KeyCache,
    layer: int,
    module: Any,
    given: tuple[Tensor, Tensor, Tensor],
    options: Mapping[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """Return the output [N, 1, H, D] of a layer's attention to the cache."""
    queries, keys, values = given
    if _has_plain_softmax(options):
        return cache.attend(layer, queries, (keys, values), scale=options.get("scaling")), None
    keys, values, seen = cache.read(layer, keys, values)
    return _explicit(module, queries, keys, values, seen, options)


def _read(
    at: LibraryPass, keys: Float[Tensor, "N K T D"], values: Float[Tensor, "N K T D"], mask: Tensor
) -> Read:
    """Return what an attention has read, learned positions first."""
    learned = keys.shape[2] - at.length

    def split(tensor: Tensor, part: slice) -> Tensor:
        return tensor[:, :, part].unflatten(0, (at.replicates, -1))

    own, before = (
        (split(keys, part), split(values, part)) for part in (slice(learned, None), slice(learned))
    )
    return Read(own, (before,) if learned else (), mask[0, 0, at.virtual :])


def _lengths(
    attached: Attachments, rows: slice, length: int, replicates: int, device: torch.device
) -> Int[Tensor, "N"]:
    """Return the positions that each row of the batch reads."""
    if attached.answer_rows is None:
        return torch.full((1,), length, device=device)
    last = attached.answer_rows.amax(-1) + range(length)[rows].start + 1
    return grouped.lifted(last, replicates).flatten()


def _precision(at: LibraryPass) -> AbstractContextManager[object]:
    """Return the context in which the library keeps a pass's precision."""
    is_double = any(tensor.dtype == torch.float64 for tensor in at.weights.values())
    return Float64() if is_double else nullcontext()


def _for_rows(
    learned: Float[Tensor, "R P _"], keys: Float[Tensor, "N K T D"], replicates: int
) -> Float[Tensor, "N K P D"]:
    """Return learned keys or values for every row of the batch, by head."""
    by_head = learned.unflatten(-1, (keys.shape[1], -1)).transpose(1, 2)
    return by_head.repeat_interleave(len(keys) // replicates, 0).to(keys)


def _added(
    pattern: Float[Tensor, "N H Q T"], values: Float[Tensor, "N K T2 D"], factors: Tensor
) -> Float[Tensor, "N Q H D"]:
    """Return what factors on the attention to the content add to the output."""
    count = pattern.shape[-1]
    content = values[..., -count:, :].repeat_interleave(pattern.shape[1] // values.shape[1], 1)
    added = (pattern * (factors.flatten(0, 1).to(pattern) - 1)) @ content
    return added.transpose(1, 2)


def _reread(
    at: LibraryPass,
    hook: QueryHook,
    given: tuple[Tensor, Tensor, Tensor],
    output: Float[Tensor, "N Q H D"],
    options: Mapping[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """Return the output as a hook of queries changes it at the content.

    Also the share of attention that it takes.
    """
    start, split = at.virtual, (at.replicates, -1)
    queries, mask = given[0][:, :, start:], given[2][:, :, start:]
    scaling = options.get("scaling")
    queries = queries * (queries.shape[-1] ** -0.5 if scaling is None else scaling)
    keys = given[1].repeat_interleave(queries.shape[1] // given[1].shape[1], 1)
    scores = queries @ keys.transpose(-1, -2)
    if (cap := options.get("softcap")) is not None:
        scores = cap * (scores / cap).tanh()
    log_sums = scores.masked_fill(~mask, -torch.inf).logsumexp(-1)
    if (sinks := options.get("s_aux")) is not None:
        log_sums = log_sums.logaddexp(sinks.view(1, -1, 1).to(log_sums))
    gathered = output[:, start:].flatten(-2)
    parts = (tensor.unflatten(0, split) for tensor in (queries, gathered, log_sums))
    changed, share = hook(AttentionRead(*parts))
    content = changed.flatten(0, 1).unflatten(-1, output.shape[-2:])
    return torch.cat([output[:, :start], content], 1), share


def _explicit(
    module: nn.Module,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor,
    options: Mapping[str, Any],
) -> tuple[Tensor, Tensor]:
    """Return output and weights by the architecture's own function.

    It knows soft caps and sinks, which the library's fused attention ignores.
    """
    eager = sys.modules[type(module).__module__].eager_attention_forward
    hidden = torch.zeros_like(mask, dtype=queries.dtype)
    hidden = hidden.masked_fill(~mask, torch.finfo(queries.dtype).min)
    return eager(module, queries, keys, values, hidden, **options)


def _built(family: Transformers) -> Any:
    """Return the library's module, with random weights."""
    import transformers

    architecture: Any = getattr(transformers, family.architecture)
    config = library_config(architecture, family.config)
    # Of the library's ways to compute experts, this one takes every dtype.
    # A pooler is not part of what is computed here.
    options = {"add_pooling_layer": False} if family.architecture in POOLED else {}
    module = library_module(
        architecture,
        config,
        attn_implementation=_registered(),
        experts_implementation="eager",
        **options,
    )
    for embedding in module.modules():
        if isinstance(embedding, nn.Embedding):
            embedding.padding_idx = None  # no item has padding, so its row is learned as well
    return module.eval().requires_grad_(requires_grad=False)


def library_model(family: Transformers) -> LibraryModel:
    """Return the library's model of a family, made once per thread.

    A pass sets its module, so passes that are computed side by side have one each.
    """
    return _of_thread(family, threading.get_ident())


@lru_cache(maxsize=2 * (MOST_LANES + 1))  # an adaptation has one; an evaluation may use a second
def _of_thread(family: Transformers, thread: int) -> LibraryModel:
    with _MAKING:
        return LibraryModel(family)


def _library_functions() -> Mapping[str, Callable[..., Any]]:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    return ALL_ATTENTION_FUNCTIONS


@lru_cache(maxsize=1)
def _registered() -> str:
    """Register our attention with the library, and a mask function for it.

    Without a mask function of that name the library makes no mask, and a causal model would see the
    future. Without an explicit mask there is nothing to put learned keys into.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    def attend(module: Any, *tensors: Any, **options: Any) -> Any:
        return module.attend(module, *tensors, **options)

    def mask(*args: Any, **options: Any) -> Any:
        explicit = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        return sdpa_mask(*args, **(options | explicit))

    AttentionInterface.register(REGISTERED, attend)
    AttentionMaskInterface.register(REGISTERED, mask)
    return REGISTERED


class Float64(TorchFunctionMode):
    """A function mode that reads float32 as float64.

    Otherwise the library computes norms and positions in float32.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        func = torch.Tensor.double if func is torch.Tensor.float else func
        named = kwargs or {}
        # Every operation and every look at a shape comes here, and few name a type.
        for value in (*args, *named.values()):
            if value is torch.float32:
                args = tuple(map(_widened, args))
                named = {name: _widened(other) for name, other in named.items()}
                break
        return func(*args, **named)


def _widened(value: Any) -> Any:  # whatever is given to a function of torch
    return torch.float64 if value is torch.float32 else value
