"""What must hold for every method, on tiny random models: checked by the tests for all, by ``check`` for yours."""

from methods.checks import answers, traces, training  # noqa: F401  each fills CHECKS
from methods.checks.case import CHECKS, SCENES, Case, Check, Failure, NotApplicable, Scene, Subject, cases

__all__ = ["CHECKS", "SCENES", "Case", "Check", "Failure", "NotApplicable", "Scene", "Subject", "cases"]
