"""What a host says of the limits that it holds."""

from events.abilities import CGROUP, CONTAINER, CPUSET, enforced


def test_whoever_looks_at_a_host_is_told_what_is_held_there() -> None:
    assert "aren't limited here, and no containers run" in enforced([])
    assert "or the job asks for it; no containers run" in enforced([CGROUP])
    assert enforced([CGROUP, CONTAINER]).endswith("; containers run")
    assert "; runs are kept on their own cores, and others off these; no containers" in enforced([CGROUP, CPUSET])
    assert "cores" not in enforced([CGROUP])
