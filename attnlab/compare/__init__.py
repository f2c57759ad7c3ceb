"""Mechanisms compared on any task, with equal budgets."""
