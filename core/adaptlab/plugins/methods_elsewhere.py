"""Names of methods in other tools, and what stands for them here."""

from collections.abc import Mapping

ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "dora": ("It is lora with `dora: true`.", "lora"),
    "rslora": ("It is lora with `scaling: rank_stabilised`.", "lora"),
    "pissa": ("It is lora with `initialisation: pissa`.", "lora"),
    "olora": ("It is lora with `initialisation: olora`.", "lora"),
    "qlora": ("It is lora with `base_weights: nf4`.", "lora"),
    "lora_plus": (
        "Under Adam, a ratio c of rates is lora with alpha times c, which tuning.initial_scales of "
        "√c and rates times √c try.",
        "lora",
    ),
    "bone": ("It is miss with `bat: true`.", "miss"),
    "prompt_tuning": ("It is soft_prompt.", "soft_prompt"),
    "p_tuning": ("P-tuning v2 is prefix_tuning; v1 is not here.", "prefix_tuning"),
    "full": ("It is full_finetuning.", "full_finetuning"),
    "linear_probe": ("It is head_only.", "head_only"),
    "adalora": (
        "It trains more parameters than it keeps, so no budget says what it has. Use lora.",
        "lora",
    ),
    "lily": (
        "It mixes the tokens of a whole batch, so that an answer depends on its neighbours. Use "
        "lora.",
        "lora",
    ),
}
"""By name in small letters without hyphens: a sentence, and the nearest method here."""


def elsewhere(name: str) -> tuple[str, str] | None:
    """Return what is known of another tool's name, however it is written."""
    plain = name.lower().replace("-", "_").replace("+", "_plus")
    return ELSEWHERE.get(plain) or ELSEWHERE.get(plain.replace("_", ""))
