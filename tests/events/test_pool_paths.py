"""The pools above a pool."""

from events.pool_paths import levels_of, parent_of, path_to


def test_the_pools_above_one_are_named_from_either_end() -> None:
    assert levels_of("/a/b") == ["/a/b", "/a", "/"]
    assert path_to("/a/b") == ["/a", "/a/b"]
    assert (parent_of("/a/b"), parent_of("/a"), parent_of("/")) == ("/a", "/", "/")
    assert levels_of("/") == path_to("/") == ["/"]
