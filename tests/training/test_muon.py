"""Muon in float32 makes the same steps as torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnlab.training._muon import Muon, orthogonalize


@pytest.mark.parametrize("shape", [(40, 40), (64, 24), (24, 64), (1, 30), (30, 1)])
def test_orthogonal_matrices(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    for scale in (1e-4, 1.0, 1e4):
        matrices = scale * torch.randn(3, *shape, generator=generator)
        result = orthogonalize(matrices)
        assert result.shape == matrices.shape
        values = torch.linalg.svdvals(result)  # (3, less)
        assert float(values.max()) < 1.3
        assert float(values.median()) > 0.65
        # a square matrix may have a value near 0, which five rounds do not bring up to 1
        assert float(values.min()) > (0.1 if shape[0] == shape[1] else 0.65)
        # the directions stay, and one matrix does not see the others
        u, _, v = torch.linalg.svd(matrices, full_matrices=False)
        core = u.mT @ result @ v.mT
        off = core - torch.diag_embed(core.diagonal(dim1=1, dim2=2))
        assert float(off.abs().max()) < 1e-3
        assert torch.allclose(orthogonalize(matrices[1:2])[0], result[1], atol=1e-5)
    assert not bool(orthogonalize(torch.zeros(1, *shape)).any())


def test_muon_makes_the_same_steps_as_torch() -> None:
    """torch computes in bfloat16, so its update is exact to about one percent."""
    shapes = [(24, 24), (48, 16), (16, 48), (24, 24)]
    generator = torch.Generator().manual_seed(1)
    start = [torch.randn(*shape, generator=generator) for shape in shapes]
    own_parameters, torch_parameters = (
        [torch.nn.Parameter(w.clone()) for w in start] for _ in range(2)
    )
    options: dict[str, Any] = {"lr": 0.05, "weight_decay": 0.1}
    own_muon, torch_muon = (
        Muon(own_parameters, **options),
        torch.optim.Muon(torch_parameters, **options),
    )
    for _ in range(6):
        before = [p.detach().clone() for p in torch_parameters]
        for one, other in zip(own_parameters, torch_parameters, strict=True):
            one.data.copy_(other)  # one step is compared at a time
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        own_muon.step()
        torch_muon.step()
        for one, other, old in zip(own_parameters, torch_parameters, before, strict=True):
            update = other.detach() - old
            assert float((one.detach() - other.detach()).norm() / update.norm()) < 0.02
            assert torch.allclose(
                own_muon.state[one]["momentum_buffer"], torch_muon.state[other]["momentum_buffer"]
            )
    own_parameters[0].grad = None  # a parameter without a gradient stays
    before = [own_parameters[0].detach().clone()]
    own_muon.step()
    assert torch.equal(own_parameters[0].detach(), before[0])
    assert own_muon.step(lambda: 7) == 7
