"""The formal transformer of the theory."""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorShape
from adaptlab.values import AUTO, Auto, Value

Size = Annotated[int, Field(ge=1, le=4096)]


class Head(Value):
    """An attention head: the size of its queries and keys, and of its values."""

    key_size: Size
    value_size: Size


class AttentionLayer(Value):
    """t_i = Σ_h Σ_j A^h_ij W_V^h x_j, with one value size for all heads."""

    kind: Literal["attention"] = "attention"
    heads: Annotated[tuple[Head, ...], Field(min_length=1, max_length=64)]

    @property
    def key_width(self) -> int:
        """The sum of the heads' key sizes."""
        return sum(head.key_size for head in self.heads)

    @property
    def value_width(self) -> int:
        """The sum of the heads' value sizes."""
        return sum(head.value_size for head in self.heads)


class ReluLayer(Value):
    """x ← ReLU(M x + b), with `width` outputs, at every position."""

    kind: Literal["relu"] = "relu"
    width: Size


class LinearLayer(Value):
    """x ← M x + b, with `width` outputs, at every position."""

    kind: Literal["linear"] = "linear"
    width: Size


Layer = Annotated[AttentionLayer | ReluLayer | LinearLayer, Field(discriminator="kind")]


def _paper_stack() -> tuple[Layer, ...]:
    """Return the example of the paper's section 2.

    It is an attention, a ReLU and a linear layer, twice.
    """
    block = (
        AttentionLayer(heads=(Head(key_size=16, value_size=16),)),
        ReluLayer(width=32),
        LinearLayer(width=16),
    )
    return (*block, *block)


@FAMILIES.register("formal")
class Formal(Family):
    """A stack of layers without residual stream, norms and output matrices.

    A token is represented by its embedding of `width` features and the one-hot code of its
    position. A final linear layer computes the logits. The scores of a head are
    T/√k · (W_Q x_i)·(W_K x_j), with `inverse_temperature` T and key size k. The first
    `reserved_positions` codes belong to no content position and can be used by virtual tokens. With
    `bidirectional` attention the answer is masked at the input, as in minigpt.
    """

    title: ClassVar[str] = "Formal transformer"
    summary: ClassVar[str] = "The theory's attention and ReLU layers, in any order and size."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 2"
    default_learning_rate: ClassVar[float] = 3e-3
    default_weight_decay: ClassVar[float] = 0.0

    name: Literal["formal"] = "formal"
    width: Size = 16
    """size of the vector at each position"""
    stack: Annotated[tuple[Layer, ...], Field(min_length=1, max_length=64)] = Field(
        default_factory=_paper_stack
    )
    """blocks of the model from first to last, as JSON"""
    attention: Literal["causal", "bidirectional"] = "causal"
    """causal, in both directions, or none"""
    inverse_temperature: float = Field(default=1.0, ge=0, le=1e6)
    """factor on the attention scores; larger is sharper"""
    reserved_positions: int = Field(default=0, ge=0, le=4096)
    """position codes kept for virtual tokens"""
    vocabulary: int | Auto = AUTO
    """number of tokens"""
    context: int | Auto = AUTO
    """largest number of positions"""

    def resolved(self, vocabulary: int, context: int) -> Self:
        return self.model_copy(
            update={
                "vocabulary": vocabulary if self.vocabulary == AUTO else self.vocabulary,
                "context": context if self.context == AUTO else self.context,
            }
        )

    def fills_in(self) -> bool:
        return self.attention == "bidirectional"

    def problems(self) -> tuple[Problem, ...]:
        return tuple(
            Problem(
                pointer=f"/family/stack/{index}/heads/{place}/value_size",
                code="values_of_two_sizes",
                detail=(
                    f"The values of all heads are added, so their sizes must be equal, but "
                    f"{head.value_size} differs from {layer.heads[0].value_size}. Use one size."
                ),
                nearest=(layer.heads[0].value_size,),
            )
            for index, layer in self.attention_layers()
            for place, head in enumerate(layer.heads)
            if head.value_size != layer.heads[0].value_size
        )

    def attention_layers(self) -> tuple[tuple[int, AttentionLayer], ...]:
        """Return the attention layers with their indices in the stack."""
        layers = enumerate(self.stack)
        return tuple((i, layer) for i, layer in layers if isinstance(layer, AttentionLayer))

    def attends_twice(self) -> bool:
        """Return True if the first two attention layers are adjacent."""
        places = [place for place, _ in self.attention_layers()]
        return len(places) > 1 and places[1] == places[0] + 1

    def codes(self) -> int:
        """Return the number of position codes."""
        assert isinstance(self.context, int)
        return self.reserved_positions + self.context

    def shape(self) -> ModelShape:
        assert isinstance(self.vocabulary, int)
        assert isinstance(self.context, int)
        attention = tuple(layer for _, layer in self.attention_layers())
        heads = {len(layer.heads) for layer in attention}
        width, tokens = self.width + self.codes(), self.vocabulary + self.fills_in()
        table = TensorShape((tokens, self.width), Initialiser("normal"), decays=False)
        sites = list(self._sites(len(heads) == 1))
        if attention:
            sites.insert(0, Site("embed", "embedding", self.vocabulary, width))
        return ModelShape(
            family=self.name,
            width=width,
            layers=len(attention),
            heads=heads.pop() if len(heads) == 1 else 0,
            key_value_width=max((layer.key_width for layer in attention), default=0),
            context=self.context,
            vocabulary=self.vocabulary,
            sites={site.name: site for site in sites},
            tensors={"embed.weight": table} | _tensors(sites),
            first_attention=self._first_attention(sites) if attention else frozenset(),
        )

    def _first_attention(self, sites: Sequence[Site]) -> frozenset[str]:
        """Return the tensors that determine the first attention pattern.

        These are the embedding, all layers before the first attention, and its queries and keys.
        """
        first = self.attention_layers()[0][0]
        linear = [site for site in sites if site.kind == "linear" and site.layer is not None]
        inside = (f"blocks.{first}.attn.q", f"blocks.{first}.attn.k")
        before = [s for s in linear if (s.layer or 0) < first or s.name in inside]
        return frozenset({"embed.weight", *_tensors(before)})

    def _sites(self, even: bool) -> Iterator[Site]:
        """Yield the sites in forward order.

        `even` is true if all attention layers have the same number of heads.
        """
        assert isinstance(self.vocabulary, int)
        direct = all(layer.key_width == layer.value_width for _, layer in self.attention_layers())
        width = self.width + self.codes()
        for index, layer in enumerate(self.stack):
            block = f"blocks.{index}"
            if not isinstance(layer, AttentionLayer):
                yield Site(f"{block}.{layer.kind}", "linear", width, layer.width, index)
                width = layer.width
                continue
            name, keys, values = f"{block}.attn", layer.key_width, layer.value_width
            yield Site(f"{name}.input", "attention_input", width, width, index)
            if direct:
                yield Site(f"{name}.kv", "attention_keys_values", width, keys, index)
            yield Site(f"{name}.q", "linear", width, keys, index)
            yield Site(f"{name}.k", "linear", width, keys, index)
            yield Site(f"{name}.v", "linear", width, values, index)
            if even:
                yield Site(f"{name}.mix", "attention_mix", values, values, index)
            width = layer.heads[0].value_size
        yield Site("unembed", "linear", width, self.vocabulary)


def _tensors(sites: Sequence[Site]) -> dict[str, TensorShape]:
    """Return the matrices of linear sites, with biases outside attention."""
    tensors: dict[str, TensorShape] = {}
    for site in sites:
        if site.kind != "linear":
            continue
        spread = Initialiser("normal", site.inputs**-0.5)
        tensors[f"{site.name}.weight"] = TensorShape((site.outputs, site.inputs), spread)
        if ".attn." not in site.name:
            tensors[f"{site.name}.bias"] = TensorShape(
                (site.outputs,), Initialiser("zeros"), decays=False, role="bias"
            )
    return tensors
