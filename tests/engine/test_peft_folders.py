"""Exported adapters: our folders in `peft`, next to our engine."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import (
    PeftModel,
    PeftModelForSequenceClassification,
    PeftModelForTokenClassification,
)
from tests.engine.library_models import HEADLESS, architecture
from tests.engine.library_models import MODELS as LIBRARY_MODELS
from tests.engine.peft_adapters import METHODS, drawn, exported, loaded, written
from tests.engine.published import gpt2, llama, pair
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from adaptlab.errors import NoPeftForm

# peft 0.21 uses a property that transformers 5.23 has renamed; we can fix neither.
# It also warns that an adapter at a tied head cannot be merged, which nobody does here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning"),
    # Nor does it know norms as layers, of which it only copies the weights.
    pytest.mark.filterwarnings("ignore:Unsupported layer type:UserWarning"),
]

MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "gpt2": gpt2,
    "llama": llama,
    **{name: LIBRARY_MODELS[name] for name in ("qwen3", "phi3", "opt", "gpt-neox", "mixtral")},
    "gemma3": architecture(
        "Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=8, sliding_window=64
    ),  # in peft a prefix falls out of a shorter window
}


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chosen", METHODS)
def test_peft_computes_what_we_do(name: str, chosen: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path / "base", double=False)
    method = METHODS[chosen](both)
    tensors = drawn(method.kept(), both)
    plain, ours = both.logits(), both.adapted(method.kept(), tensors)
    model = loaded(both, exported(both, method, tensors), tmp_path / "adapter")
    with torch.no_grad():
        theirs = model(both.tokens()).logits[:, -ours.shape[1] :]  # without virtual tokens
    assert (ours - plain).abs().max() > 0.05
    # Two ways to add in float32: relative to the logits, which reach 3 to 10.
    assert (ours - theirs).abs().max() < 1e-5 * ours.abs().max()


CLASSES = 3
WITH_HEADS = (
    *(("gpt2", chosen) for chosen in ("lora", "dora", "ia3", "norms", "prefix", "soft-prompt")),
    *(("llama", chosen) for chosen in ("lora", "prefix", "soft-prompt")),
    *(("opt", chosen) for chosen in ("prefix", "soft-prompt")),
    *(("qwen3", "dora"), ("phi3", "ia3"), ("gpt-neox", "norms")),
)


@pytest.mark.parametrize(("name", "chosen"), WITH_HEADS)
def test_a_trained_head_goes_with_its_adapter(name: str, chosen: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path / "base", double=False)
    method = METHODS[chosen](both)
    tensors = drawn(method.kept(), both, CLASSES)
    ours = both.classified(method.kept(), tensors, CLASSES)
    folder = written(tmp_path / "adapter", exported(both, method, tensors, CLASSES))
    base = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "base", num_labels=CLASSES, attn_implementation="eager"
    )
    base.score = torch.nn.Linear(base.score.in_features, CLASSES)  # as the guide says
    model = PeftModel.from_pretrained(base, folder).eval()
    assert isinstance(model, PeftModelForSequenceClassification)
    with torch.no_grad():  # one by one, since the model has no token for padding
        theirs = torch.cat([model(item.unsqueeze(0)).logits for item in both.tokens()])
    assert (ours - tensors["unembed.bias"]).abs().max() > 0.05
    assert (ours - theirs).abs().max() < 1e-5 * ours.abs().max()


ENCODERS = {**HEADLESS, **{name: LIBRARY_MODELS[name] for name in ("bert", "modernbert")}}
OF_ENCODERS = (
    *(("bert-alone", chosen) for chosen in ("lora", "lora-everywhere", "dora", "ia3", "norms")),
    *((name, "lora-by-site") for name in ("roberta-alone", "distilbert-alone", "modernbert-alone")),
    *(("bert", "ia3"), ("modernbert", "lora"), ("distilbert-alone", "norms")),
)


@pytest.mark.parametrize(("name", "chosen"), OF_ENCODERS)
def test_the_head_of_an_encoder_is_one_of_tokens(name: str, chosen: str, tmp_path: Path):
    """The mean of its outputs is its output for the mean."""
    both = pair(ENCODERS[name], tmp_path / "base", double=False)
    method = METHODS[chosen](both)
    tensors = drawn(method.kept(), both, CLASSES)
    ours = both.classified(method.kept(), tensors, CLASSES)
    folder = written(tmp_path / "adapter", exported(both, method, tensors, CLASSES))
    base = AutoModelForTokenClassification.from_pretrained(
        tmp_path / "base", num_labels=CLASSES, attn_implementation="eager"
    )
    if hasattr(base, "head"):  # as the guide says
        base.head = torch.nn.Identity()
    model = PeftModel.from_pretrained(base, folder).eval()
    assert isinstance(model, PeftModelForTokenClassification)
    with torch.no_grad():
        theirs = model(both.tokens(), **both.positions()).logits.mean(1)
    assert (ours - tensors["unembed.bias"]).abs().max() > 0.05
    assert (ours - theirs).abs().max() < 1e-5 * ours.abs().max()


def test_learned_positions_of_an_encoder_have_no_form(tmp_path: Path):
    both = pair(HEADLESS["bert-alone"], tmp_path / "base", double=False)
    method = METHODS["prefix"](both)
    with pytest.raises(NoPeftForm, match="no learned positions for encoders"):
        exported(both, method, drawn(method.kept(), both, CLASSES), CLASSES)
