"""Planted bugs change the rules of machines for a test."""

from collections.abc import Iterator

import pytest

from processors.lifecycle import alike


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """What lifecycle remembers of jobs that are alike was found by the rules of its test alone."""
    alike.forget()
    yield
    alike.forget()
