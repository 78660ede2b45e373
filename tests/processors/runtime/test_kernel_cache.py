"""Compiled kernels come to a process by the side, and only where they pay."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from processors.lifecycle.machine import Lifecycle
from processors.placement.engine.compiled import VECTORS, now, use
from processors.placement.machine import Placement
from processors.runtime import kernel_cache


@pytest.fixture(autouse=True)
def _numpy_decides() -> Iterator[None]:
    """Whatever was used before in this process."""
    with patch.object(kernel_cache, "_looked", []):
        use(VECTORS)
        yield
        use(VECTORS)


def test_few_hosts_and_other_machines_need_no_compiled_code():
    kernel_cache.watch(Placement())
    kernel_cache.watch(Lifecycle())
    assert kernel_cache._threads == []


def test_numpy_decides_until_kernels_are_fetched_once():
    pytest.importorskip("numba")
    kernel_cache.load()
    (kernel_cache.folder() / kernel_cache.READY).touch()
    threads = []
    with patch.object(kernel_cache, "ENGINE_FROM", 0), patch.object(kernel_cache, "_threads", threads):
        assert now() is VECTORS
        try:
            kernel_cache.watch(Placement())
            kernel_cache.watch(Placement())
            assert len(threads) == 1
            threads[0].join(60)
            assert now() is not VECTORS
        finally:
            use(VECTORS)


def test_a_simulation_uses_kernels_that_are_kept_and_compiles_none():
    pytest.importorskip("numba")
    with patch.object(kernel_cache, "ENGINE_FROM", 0):
        with patch.object(kernel_cache, "is_filled", lambda: False):
            kernel_cache.use_kept(Placement())
            assert now() is VECTORS
        with patch.object(kernel_cache, "is_filled", pytest.fail):  # nobody looks again
            kernel_cache.use_kept(Placement())
    kernel_cache.load()
    (kernel_cache.folder() / kernel_cache.READY).touch()
    with patch.object(kernel_cache, "ENGINE_FROM", 0), patch.object(kernel_cache, "_looked", []):
        kernel_cache.use_kept(Lifecycle())
        assert now() is VECTORS
        kernel_cache.use_kept(Placement())
        assert now() is not VECTORS


def test_where_no_kernels_are_kept_a_process_of_its_own_compiles_them_while_numpy_decides():
    pytest.importorskip("numba")
    kept, commands, threads = [False], [], []

    def compiles(command, check):
        commands.append(command[1:])
        assert now() is VECTORS
        kept[0] = True

    with (
        patch.object(kernel_cache, "ENGINE_FROM", 0),
        patch.object(kernel_cache, "_threads", threads),
        patch.object(kernel_cache, "is_filled", lambda: kept[0]),
        patch.object(kernel_cache.subprocess, "run", compiles),
    ):
        try:
            kernel_cache.watch(Placement())
            threads[0].join(60)
            assert commands == [["-m", "processors.runtime.kernel_cache"]]
            assert now() is not VECTORS
        finally:
            use(VECTORS)
