"""A quadratic function from its gradients: against least squares over all symmetric matrices."""

from __future__ import annotations

import pytest
import torch

from methods.calibration.quadratic import fit_quadratic


def draw(n, size, generator):
    return torch.randn(n, size, dtype=torch.float64, generator=generator)


def symmetric(size):
    """A basis of the symmetric matrices, (size * (size + 1) / 2, size, size)."""
    rows, columns = torch.triu_indices(size, size)
    basis = torch.zeros(len(rows), size, size, dtype=torch.float64)
    numbers = torch.arange(len(rows))
    basis[numbers, rows, columns] = basis[numbers, columns, rows] = 1
    return basis


@pytest.mark.parametrize("ridge", [0.0, 0.3, 1.0])
def test_it_solves_the_ridge_regression(ridge):
    generator = torch.Generator().manual_seed(0)
    n, size = 30, 4
    points = draw(n, size, generator) @ draw(size, size, generator)
    gradients = draw(n, size, generator)
    basis = symmetric(size)
    strength = (ridge * n * points.var(0, correction=0).mean()).sqrt()
    of_second = torch.einsum("kij,nj->nik", basis, points).flatten(0, 1)  # (n * size, basis)
    of_first = torch.eye(size, dtype=torch.float64).repeat(n, 1)
    design = torch.cat([torch.cat([of_first, of_second], 1), torch.zeros(size**2, size + len(basis))])
    design[n * size :, size:] = strength * basis.flatten(1).T
    targets = torch.cat([gradients.flatten(), torch.zeros(size**2)])
    solution = torch.linalg.lstsq(design, targets[:, None]).solution.flatten()
    first, second = fit_quadratic(points, gradients, ridge)
    torch.testing.assert_close(first, solution[:size])
    torch.testing.assert_close(second, torch.einsum("k,kij->ij", solution[size:], basis))


def test_without_noise_and_ridge_it_finds_the_function():
    generator = torch.Generator().manual_seed(1)
    first, second = draw(1, 5, generator)[0], draw(5, 5, generator)
    second = second + second.T
    points = draw(20, 5, generator)
    found = fit_quadratic(points, first + points @ second, ridge=0.0)
    torch.testing.assert_close(found, (first, second))


def test_coordinates_that_do_not_move_have_no_second_order():
    gradients = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    first, second = fit_quadratic(torch.zeros(2, 2, dtype=torch.float64), gradients)
    assert first.tolist() == [2, 3] and not second.any()
