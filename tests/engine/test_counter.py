"""The counter-based generator against published outputs.

They are those of SplitMix64. Simple statistics are checked, too.
"""

import torch

from adaptlab.engine.kernels.counter import mixed, normal, random_bits, uniform

GOLDEN = -0x61C8864680B583EB
# The first outputs of SplitMix64 for the seed 1234567 (Vigna's reference implementation).
REFERENCE = (
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
)


def test_mixing_is_splitmix64():
    state = torch.tensor([1234567]) + GOLDEN * torch.arange(5)
    assert [value % 2**64 for value in mixed(state).tolist()] == list(REFERENCE)


def test_bits_depend_on_every_counter():
    grid = torch.arange(50)
    bits = random_bits(grid.view(-1, 1, 1), grid.view(1, -1, 1), grid.view(1, 1, -1))
    assert bits.min() >= 0
    assert len(bits.unique()) == 50**3


def test_uniform_and_normal_have_their_moments():
    index = torch.arange(200_000)
    u, z = uniform(torch.tensor(3), index), normal(torch.tensor(4), index)
    assert u.min() > 0
    assert u.max() < 1
    # five standard errors of the mean and of the variance
    assert abs(u.mean() - 0.5) < 5 * (1 / 12) ** 0.5 / 200_000**0.5
    assert abs(z.mean()) < 5 / 200_000**0.5
    assert abs(z.var() - 1) < 5 * 2**0.5 / 200_000**0.5
