"""What is said of a reason: the sentence, who can act, and what would change it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from events.codes import Code
from events.quantities import write_amount, write_ms
from events.resources import Amounts, Kinds, Unit, in_order
from events.words import plural

YOU = "you"
POOL_OWNER = "pool owner"
OPERATOR = "operator"
WAIT = "nobody, wait"
LARGE_MIB = 100 * 1024
"""From so many MiB on a tenth of a GiB is near enough."""


class Remedy(NamedTuple):
    """Who can act on a reason, and what would change it."""

    actor: str
    change: str


MORE_HOSTS = Remedy(OPERATOR, "add hosts, or ask for less")
CANNOT_START = Remedy(YOU, "correct the command, or install the program on the hosts")
MORE_ROOM = Remedy(YOU, "ask for less, or add hosts, and update it again")
OTHER_DAEMON = Remedy(YOU, "add hosts with these attributes, or submit another daemon")
OWN_WORK = Remedy(WAIT, "it goes on when tasks of that pool end; a higher priority goes first")
REMEDIES: dict[str, Remedy] = {
    Code.INVALID_SPEC: Remedy(YOU, "submit it again, corrected"),
    Code.UNKNOWN_RESOURCE: Remedy(YOU, "correct the name, or have the resource added to the cell"),
    Code.TOO_LARGE: Remedy(YOU, "submit it again, smaller"),
    Code.ID_TAKEN: Remedy(YOU, "choose another id"),
    Code.WRONG_CELL: Remedy(YOU, "submit it to the right cell"),
    Code.MAX_FAILURES: Remedy(YOU, "look at the output of its tasks, correct the job and update it again"),
    Code.STALLED: Remedy(YOU, "look at the output of its tasks, correct the job and update it again"),
    Code.BLOCKED: Remedy(YOU, "see why instances are unavailable, and update it again"),
    Code.UPDATE_PAUSED: Remedy(YOU, "`paceline job resume` lets it go on"),
    Code.UPDATE_AWAITS_PROMOTION: Remedy(YOU, "`paceline job promote` lets it go on"),
    Code.UPDATING: Remedy(WAIT, ""),
    Code.RUN_FAILED: Remedy(YOU, "look at the output of the task, or allow retries"),
    Code.NO_SUCH_POOL: Remedy(YOU, "choose another pool, or define this one"),
    Code.POOL_NOT_A_LEAF: Remedy(YOU, "choose a pool below it"),
    Code.OPEN_JOBS_MAX: Remedy(POOL_OWNER, "wait for a job to end, or raise open_jobs_max"),
    Code.OPEN_TASKS_MAX: Remedy(POOL_OWNER, "wait for jobs to end, or raise open_tasks_max"),
    Code.LIMIT_REACHED: Remedy(POOL_OWNER, "raise the limit, or wait until tasks of the pool end"),
    Code.RESERVATION_REACHED: Remedy(POOL_OWNER, "raise the reservation, or make the job preemptible"),
    Code.POOL_CLOSED: Remedy(POOL_OWNER, "open the pool: `paceline pool open PATH`"),
    Code.CONTROLLER_LIMIT_REACHED: Remedy(POOL_OWNER, "raise controllers_percent, or wait until controllers end"),
    Code.ENTITLEMENT_REACHED: Remedy(WAIT, "it goes on when others need less; a larger share or reservation helps"),
    Code.WAITING_FOR_PREEMPTION: Remedy(WAIT, "it goes on when they have left"),
    Code.SAVING_FOR_TURN: Remedy(WAIT, "it has its turn when that suffices; a larger share or reservation helps"),
    Code.SHARE_OF_NOTHING: Remedy(POOL_OWNER, "give the pool a share or a reservation, or wait"),
    Code.BEHIND_IN_QUEUE: Remedy(WAIT, "its turn comes; a higher priority helps"),
    Code.NEVER_FITS: Remedy(YOU, "ask for less, or add larger hosts"),
    Code.CONSTRAINT_MISMATCH: Remedy(YOU, "change the constraints, or add hosts with these attributes"),
    Code.NO_HOST_FITS: Remedy(WAIT, "it goes on when tasks end or hosts are added"),
    Code.GANG_INCOMPLETE: Remedy(WAIT, "it goes on when there is room for the whole gang; a smaller gang helps"),
    Code.HELD_FOR_OTHERS: Remedy(WAIT, "it goes on when tasks end or hosts are added"),
    Code.HOSTS_SUSPECTED: Remedy(
        OPERATOR, "it goes on when they are avoided no longer; `paceline host clear HOST` says that one is fine"
    ),
    Code.WAITING_FOR_HOST: Remedy(WAIT, "it goes there when the host is heard again, afterwards to any other"),
    Code.HOSTS_RESERVED: Remedy(WAIT, "it goes on when enough tasks on these hosts have ended"),
    Code.NO_HOSTS: Remedy(OPERATOR, "connect hosts"),
    Code.BOUND_HOST_BUSY: Remedy(WAIT, "it goes on when there is room on that host, and it is heard"),
    Code.BOUND_HOST_LOST: Remedy(
        OPERATOR, "it goes on when the host is back; `paceline host remove HOST` says that it never comes back"
    ),
    Code.BELOW_RESERVATION: Remedy(WAIT, "it runs again when its pool is entitled to more"),
    Code.BELOW_ENTITLEMENT: Remedy(WAIT, "it runs again when its pool is entitled to more"),
    Code.HIGHER_PRIORITY: Remedy(WAIT, "it runs again when there is room; a higher priority helps"),
    Code.HOSTS_CLEARED: Remedy(WAIT, "it runs again where there is room"),
    Code.FOR_DAEMON: Remedy(WAIT, "it runs again where there is room"),
    Code.DEFERRED: Remedy(WAIT, "others are asked meanwhile"),
    Code.SLA_BUDGET_SPENT: Remedy(WAIT, "it goes on when instances are available again"),
    Code.STARTING: Remedy(WAIT, "what isn't ready within start_deadline is stopped, and tried again"),
    Code.STOPPING: Remedy(WAIT, "what isn't over within stop_grace is killed"),
    Code.NOT_YET_EVALUATED: Remedy(WAIT, "it is looked at in the next rounds"),
}
SUSPECTED: dict[str, str] = {
    Code.FAILS_AT_ONCE: "tasks of several jobs failed there at once{last}; `paceline host clear` ends it",
    Code.STOP_NOT_OBEYED: "a task is still there though it was killed{last}; `paceline host clear` ends it",
}
"""Why hosts take no new tasks for a time."""
SUSPECTED_FOR: dict[str, str] = {
    Code.FAILS_AT_ONCE: ", at last run {run} of task {job}/{instance}",
    Code.STOP_NOT_OBEYED: ": run {run} of task {job}/{instance}",
}
"""The run for which that was said."""
FOR_WHOM: dict[str, str] = {
    Code.BELOW_RESERVATION: "job {for_job} of pool {for_pool}, which is below its reservation",
    Code.BELOW_ENTITLEMENT: "job {for_job} of pool {for_pool}, which is below its entitlement",
    Code.HIGHER_PRIORITY: "job {for_job} of the same pool, {for_pool}, which goes first",
    Code.HOSTS_CLEARED: "job {for_job} of pool {for_pool}, which fits nowhere else",
    Code.FOR_DAEMON: "daemon {for_job}, which runs on every host that matches",
    Code.LIMIT_REACHED: "job {for_job} of pool {for_pool}, under the limit that both share",
}
"""By the code of an order, who gets what its runs hold."""
PROTECTED: dict[str, str] = {
    Code.NON_PREEMPTIBLE: "it isn't preemptible",
    Code.CAP_REACHED: "it was preempted as often in this hour as it may be",
    Code.SLICE_NOT_OVER: "it takes more than its pool holds beyond its entitlement, and its slice isn't over",
    Code.NO_RIGHT: "its pool need not give so much",
    Code.NOT_NEEDED: "it fits without that",
    Code.VICTIM_GONE: "it had left",
}
"""Why a run need not leave."""


def count_tasks(count: int) -> str:
    """`1 task`, `2 tasks`."""
    return plural(count, "task")


def counted(count: int) -> dict[str, str]:
    """The words of a sentence about so many tasks."""
    it, is_, s = ("it", "is", "s") if count == 1 else ("they", "are", "")
    return {"tasks": count_tasks(count), "s": s, "is": is_, "it": it}


def again(tasks: int) -> Remedy:
    """What becomes of tasks that wait before they are tried again."""
    return Remedy(WAIT, "it is tried again by itself" if tasks == 1 else "they are tried again by themselves")


def amount(name: str, value: int, kinds: Kinds) -> str:
    """An amount of a resource in words: `2 cpu`, `4GiB memory`."""
    unit = kinds.units.get(name, Unit.MILLI)
    if unit is Unit.MIB and value >= LARGE_MIB and value % 1024:
        return f"{value / 1024:.1f}GiB {name}"
    return f"{write_amount(value, unit)} {name}"


def amounts(of: Mapping[str, int], kinds: Kinds) -> str:
    """Amounts in words, those that are 0 left out."""
    return ", ".join(amount(name, value, kinds) for name, value in in_order(dict(of)).items() if value) or "nothing"


def short(asked: Amounts, room: Mapping[str, int]) -> list[str]:
    """The resources of which more is asked than there is room for; what `room` leaves out isn't bounded."""
    return [name for name, most in in_order(asked).items() if name in room and most > room[name]]


def beyond(asked: Amounts, held: Amounts, bound: Mapping[str, int]) -> list[str]:
    """The resources in which what is asked goes beyond a bound with what is held."""
    return [name for name, most in in_order(asked).items() if name in bound and held.get(name, 0) + most > bound[name]]


def bound_text(names: list[str], asked: Amounts, held: Amounts, bound: Mapping[str, int], kinds: Kinds) -> str:
    """What is held of a bound, and what is asked beyond it: ` (4 of 4 cpu held, 1 asked)`."""

    def one(name: str) -> str:
        unit = kinds.units.get(name, Unit.MILLI)
        have, most, more = (write_amount(each.get(name, 0), unit) for each in (held, bound, asked))
        return f"{have} of {most} {name} held, {more} asked"

    return f" ({'; '.join(map(one, names))})" if names else ""


def span(ms: int) -> str:
    """A length of time: `2m`."""
    return write_ms(ms)


_VERBS: Mapping[str, tuple[str, str]] = {
    "kept for others": ("is kept for others", "are kept for others"),
    "port taken": ("has the port taken", "have the port taken"),
    **{name: (f"is {name}", f"are {name}") for name in ("returning", "silent", "lost", "suspected")},
}
"""What hosts are that don't lack a resource: one, and several."""


def why_not(by_reason: Mapping[str, int], numbered: bool = True) -> str:
    """What is the matter with hosts, by how many: `1,937 lack cpu, 63 lack memory`."""

    def one(name: str, count: int) -> str:
        if name.startswith("constraint:"):
            attribute = name.removeprefix("constraint:")
            verbs = f"doesn't match on {attribute}", f"don't match on {attribute}"
        else:
            verbs = _VERBS.get(name, (f"lacks {name}", f"lack {name}"))
        return f"{count:,} {verbs[count != 1]}" if numbered else verbs[count != 1]

    return ", ".join(one(name, count) for name, count in sorted(by_reason.items()))


def funnel(numbers: Mapping[str, Any], kinds: Kinds) -> str:
    """How many hosts failed for which reason, and the one that lacked least."""
    hosts = numbers.get("hosts_considered")
    if not hosts:
        return ""
    counts = why_not(numbers.get("hosts_by_reason", {}))
    text = f" (of {hosts:,} host{'s' * (hosts != 1)} {counts})" if counts else f" ({plural(hosts, 'host')} looked at)"
    for near in numbers.get("nearest", ())[:1]:
        lacks = ", ".join(amount(name, value, kinds) for name, value in near["lacks"].items() if value > 0)
        text += f"; nearest {near['host_id']}, short of {lacks or 'ports'}"
    return text


def bound_host_text(tasks: int, numbers: Mapping[str, Any], kinds: Kinds) -> str:
    """Why tasks that may run on one host alone don't: the first hosts, and what is the matter with these. Some tasks
    may have got their places since it was said.
    """
    nearest, by_reason = numbers.get("nearest", ())[:tasks], numbers.get("hosts_by_reason", {})
    hosts = min(tasks, numbers.get("hosts_considered", 0))
    names = ", ".join(near["host_id"] for near in nearest)
    names += f" and {hosts - len(nearest):,} more" * (hosts > len(nearest))
    counts = why_not(by_reason, sum(by_reason.values()) <= hosts and hosts > 1)
    lacks = {name: value for name, value in nearest[0]["lacks"].items() if value > 0} if len(nearest) == 1 else {}
    short_of = f", short of {amounts(lacks, kinds)}" if lacks and "lost" not in by_reason else ""
    where = "on one host each" if hosts > 1 else f"on {names or 'a host that is gone'} alone"
    which = f"{names}: " * (hosts > 1)
    return f"{count_tasks(tasks)} may run {where} ({which}{counts or 'gone'}){short_of}"
