"""A quadratic function from its gradients at many points."""

from __future__ import annotations

import torch
from torch import Tensor

RIDGE = 1.0  # pull of the second order towards 0, as a share of the mean variance of a coordinate


def fit_quadratic(points: Tensor, gradients: Tensor, ridge: float = RIDGE) -> tuple[Tensor, Tensor]:
    """``first`` (N,) and symmetric ``second`` (N, N) of the function first @ x + x @ second @ x / 2.

    points, gradients: (n, N), noisy gradients first + second @ x at points x. Minimises

        mean |gradient - first - second @ x|^2 + ridge * v * |second|^2,  v: mean variance of a coordinate of x

    over symmetric matrices. With S the covariance of the points and C that of points and gradients, this is
    S second + second S + 2 ridge v second = C + C^T, solved entry by entry in the eigenvectors of S.
    """
    moved, risen = points - points.mean(0), gradients - gradients.mean(0)
    values, vectors = torch.linalg.eigh(moved.T @ moved / len(points))
    both = moved.T @ risen / len(points)
    target = vectors.T @ (both + both.T) @ vectors
    values = values.clamp_min(0) + ridge * values.clamp_min(0).mean()
    total = values[:, None] + values
    second = vectors @ torch.where(total > 0, target / total, 0.0) @ vectors.T
    return gradients.mean(0) - second @ points.mean(0), second
