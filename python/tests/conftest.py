"""Marks of tests: ``-m "not slow and not ray"`` leaves out those that take long."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than a few seconds")
    config.addinivalue_line("markers", "ray: starts a Ray cluster on this computer")
