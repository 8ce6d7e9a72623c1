"""Who sees a suffix, and where it stands in what is recorded."""

import torch
from tests.engine.making import adaptation, base_tensors, items, perturbed, trainables

from adaptlab.engine.capture import Recorder
from adaptlab.engine.model import Model


def test_a_suffix_leaves_the_question_alone_and_the_first_answer_sees_it():
    plan = adaptation({"name": "suffix_tuning", "length": 2})
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    moved = model.logits(made.tokens, slice(None)) - model.base_logits(made.tokens, slice(None))
    by_position = moved.abs().amax((0, 1, 3))
    asked = plan.task.input_length() - 1  # the last digit of the question gives the first answer
    assert by_position[:asked].max() == 0
    assert by_position[asked:].min() > 1e-3


def test_its_columns_come_first_and_are_empty_for_the_question():
    plan = adaptation({"name": "suffix_tuning", "length": 2})
    base, made, recorder = base_tensors(plan), items(plan), Recorder()
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    model.logits(made.tokens, slice(None), recorder)
    asked, length = plan.task.input_length() - 1, made.tokens.shape[-1]
    for pattern, relative in zip(recorder.patterns, recorder.relative, strict=True):
        assert pattern.shape[-1] == 2 + length
        assert pattern[..., :asked, :2].max() == 0
        assert pattern[..., asked:, :2].min() > 0
        content = pattern[..., 2:] / pattern[..., 2:].sum(-1, keepdim=True)
        assert torch.allclose(content, relative, rtol=0, atol=1e-12)


def test_all_rows_and_answer_rows_alone_agree_about_where_the_answer_starts():
    plan = adaptation({"name": "suffix_tuning", "length": 2})
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    asked = plan.task.input_length() - 1
    every = model.logits(made.tokens, slice(None))[:, :, asked:]
    answers = model.logits(made.tokens, slice(asked, made.tokens.shape[-1]))
    assert torch.allclose(every, answers, rtol=0, atol=1e-12)
