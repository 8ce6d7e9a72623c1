"""The budget solver over HTTP, with the paper's equal-budget table."""

from typing import Any

from fastapi.testclient import TestClient

FAMILY = {"name": "minigpt", "layers": 4, "heads": 4, "width": 256}
MLP = {"name": "lora", "sites": ["mlp"]}
OUTPUT_AND_MLP = {"name": "lora", "sites": ["o", "mlp"]}
BY_KEY_VALUE = {"name": "prefix_tuning", "side": "key_value"}


def solved(api: TestClient, budget: Any, methods: list[Any]) -> list[dict[str, Any]]:
    question = {"family": FAMILY, "task": "sort_ascending", "budget": budget, "methods": methods}
    answer = api.post("/v1/budgets/solve", json=question)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


# research/paper.md and issue 4: what a budget buys on 4 layers of width 256.
SIZES: list[Any] = [
    (12_288, "prefix_tuning", "length", 12),
    (12_288, BY_KEY_VALUE, "length", 6),
    (12_288, "soft_prompt", "length", 48),
    (12_288, {"name": "lora", "sites": ["q", "v"]}, "rank", 3),
    (12_288, OUTPUT_AND_MLP, "rank", 1),
    (10_240, "prefix_tuning", "length", 10),
    (10_240, MLP, "rank", 1),
]


def test_the_stated_sizes_use_the_budget_up(api: TestClient) -> None:
    for budget, method, knob, size in SIZES:
        (found,) = solved(api, budget, [method])
        assert (found["feasible"], found["fixed_size"]) == (True, False)
        assert found["method"][knob] == size
        vector = found["budget"]
        assert (vector["trainable_parameters"], vector["gap"]) == (budget, 0)
        assert sum(vector["tensors"].values()) == budget
        assert vector["stored_bytes"] == 4 * budget


def test_every_tensor_is_counted(api: TestClient) -> None:
    (found,) = solved(api, 12_288, [OUTPUT_AND_MLP])
    in_a_layer = {
        "attn.o.a": 256, "attn.o.b": 256,
        "mlp.up.a": 256, "mlp.up.b": 1024,
        "mlp.down.a": 1024, "mlp.down.b": 256,
    }  # fmt: skip
    expected = {f"blocks.{i}.{name}": size for i in range(4) for name, size in in_a_layer.items()}
    assert found["budget"]["tensors"] == expected


def test_methods_of_fixed_size_say_whether_they_fit(api: TestClient) -> None:
    names = ["bitfit", "ia3", "layernorm_tuning", "full_finetuning", "frozen"]
    found = {entry["name"]: entry for entry in solved(api, 6_144, names)}
    assert {entry["fixed_size"] for entry in found.values()} == {True}
    # Four blocks of 2,816 biases and the last norm's 256; three times 256, 256 and 1,024 scales.
    assert (found["bitfit"]["feasible"], found["bitfit"]["nearest"]) == (False, [11_520])
    assert (found["ia3"]["feasible"], found["ia3"]["budget"]["gap"]) == (True, 0)
    assert found["layernorm_tuning"]["budget"]["trainable_parameters"] == 9 * 2 * 256
    assert found["full_finetuning"]["feasible"] is False
    assert found["frozen"]["budget"]["gap"] == 6_144


def test_what_is_trained_and_what_is_stored_are_told_apart(api: TestClient) -> None:
    through_a_network = {"name": "prefix_tuning", "reparameterisation": {"hidden": 8}}
    (found,) = solved(api, 20_000, [through_a_network])
    vector = found["budget"]
    assert vector["stored_bytes"] == 4 * vector["extra_context_tokens"] * 4 * 256
    assert vector["trainable_parameters"] <= 20_000 < vector["stored_bytes"] / 4
