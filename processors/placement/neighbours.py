"""The rules of jobs about other tasks: host limits, (anti-)affinity, spread, `within`, exclusive hosts (decision 078).

Tasks of such jobs are put one after another, each on its best host among those that the rules allow then. A job without
rules of its own is put so too where it has a label that others shun.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from events.columns import I64
from events.topology import HOST
from processors.placement.devices.board import DeviceBoard
from processors.placement.devices.expected import CardChooser
from processors.placement.devices.needs import DeviceNeed
from processors.placement.engine.columns import FAR, Ruled
from processors.placement.host_tree import tree_of
from processors.placement.hosts import Hosts
from processors.placement.job_index import Label
from processors.placement.packing import RANK_SHIFT, Mask, Scoring, Weights, have_room, scores
from processors.placement.room.arrivals import Arrivals, arrival_hosts
from processors.placement.room.obstacles import Obstacle, Obstacles, obstacle
from processors.placement.rows import JobRow
from processors.placement.runs import Runs
from processors.state.record_rows import AffinityRow, RulesRow

NEVER_LEVEL = 1 << 40
"""The level of a group whose target is 0: after all others."""
FREE, LIMIT, AFFINITY, APART, SPREAD, SHARED, WINDOW, DEVICES = range(8)
"""Why a host isn't allowed; FREE: it is."""
RULE_NAMES = ("", "host limit", "affinity", "anti-affinity", "spread", "other tasks", "window", "devices")


class Put(NamedTuple):
    """Tasks of one shape, by its number, that were put on hosts in this decision."""

    shape: int
    hosts: I64


class Seen:
    """The tasks that rules look at in one decision: the runs, and what was put so far. What is counted once is kept up
    from then on.
    """

    def __init__(self, runs: Runs, hosts: Hosts, arrivals: Arrivals, devices: DeviceBoard | None = None) -> None:
        self.runs, self.hosts, self.devices = runs, hosts, devices
        self.arrivals = arrivals
        """The units for which room is held."""
        self._placed: dict[str, list[Put]] = {}
        self._labelled: dict[Label, I64] = {}
        self._shunning: dict[AffinityRow, I64] = {}
        self._busy: I64 | None = None

    def put(self, job_id: str, shape: int, hosts: I64) -> None:
        """Tasks of a job and one shape, by its number, were put on hosts."""
        self._placed.setdefault(job_id, []).append(Put(shape, hosts))
        row, rules = self.runs.jobs[job_id], self.runs.shapes[shape].rules
        counted = [self._labelled.get(label) for label in row.labels.items()] if self._labelled else []
        if rules is not None and self._shunning:
            counted += [self._shunning.get(term) for term in dict.fromkeys(rules.affinity)]
        if not row.daemon:
            counted.append(self._busy)
        for counts in counted:
            if counts is not None:
                np.add.at(counts, hosts, 1)

    def hosts_of(self, job_id: str, row: JobRow, shapes: Sequence[int] | None = None) -> I64:
        """The hosts of the tasks of a job, or of those of some shapes, one for each."""
        of_job = slice(row.base, row.base + row.instances)
        host, placed = self.runs.arena["host"][of_job], self._placed.get(job_id, ())
        there = host > 0
        if shapes is not None:
            there &= np.isin(self.runs.arena["shape"][of_job], shapes)
            placed = [each for each in placed if each.shape in shapes]
        return np.concatenate([host[there].astype(np.int64) - 1, *(each.hosts for each in placed)])

    def placed_slots(self, job_id: str, row: JobRow, shapes: Sequence[int] | None = None) -> I64:
        """The tasks of a job that have places, or those of some shapes."""
        of_job = slice(row.base, row.base + row.instances)
        there: Mask = self.runs.arena["placed"][of_job] > 0
        if shapes is not None:
            there &= np.isin(self.runs.arena["shape"][of_job], shapes)
        return np.flatnonzero(there) + row.base

    def slots_of_others(self, row: JobRow) -> I64:
        """The tasks of other jobs that have places, those of daemons left out."""
        there: Mask = self.runs.arena["placed"] > 0
        for each in (row, *(daemon for _, daemon in self.runs.index.daemons())):
            there[each.base : each.base + each.instances] = False
        return np.flatnonzero(there)

    def obstacle(self, slots: Sequence[I64], groups: I64) -> Obstacle:
        """Tasks that have places and are in the way in their groups."""
        of = np.concatenate([np.zeros(0, dtype=np.int64), *slots])
        return obstacle(groups, of, self.runs.arena["host"][of].astype(np.int64) - 1)

    def groups(self, over: str) -> I64:
        """The number of each host's group: those that have the same value; 0: those without the attribute."""
        return self.hosts.groups(over)

    def rules_of(self, row: JobRow) -> list[RulesRow]:
        """The rules that tasks of a job have."""
        rules = (self.runs.shapes[number].rules for number in row.shapes if number in self.runs.shapes.ruled)
        return [each for each in rules if each is not None]

    def labelled(self, label: Label, groups: I64) -> I64:
        """Counts the tasks with a label in each group."""
        if label not in self._labelled:
            self._labelled[label] = self._on_hosts(self.hosts_of(*job) for job in self.runs.index.labelled(label))
        return _by_group(groups, self._labelled[label])

    def arrivals_with(self, job_id: str, label: Label) -> I64:
        """The hosts that are held for tasks of other jobs with a label."""
        others = (other for other in self.arrivals if other != job_id)
        jobs = [other for other in others if self.runs.jobs[other].labels.get(label[0]) == label[1]]
        return np.concatenate([np.zeros(0, dtype=np.int64), *(arrival_hosts(self.arrivals, other) for other in jobs)])

    def arrivals_having(self, job_id: str, term: AffinityRow) -> I64:
        """The hosts that are held for tasks of other jobs that have a rule."""
        jobs = ((other, self.runs.jobs[other]) for other in self.arrivals if other != job_id)
        hosts = (arrival_hosts(self.arrivals, other, self.having(row, term)) for other, row in jobs)
        return np.concatenate([np.zeros(0, dtype=np.int64), *hosts])

    def shunning(self, term: AffinityRow, groups: I64) -> I64:
        """Counts the tasks that have a rule in each group."""
        if term not in self._shunning:
            jobs = self.runs.index.shunning(term)
            self._shunning[term] = self._on_hosts(self.hosts_of(*job, self.having(job[1], term)) for job in jobs)
        return _by_group(groups, self._shunning[term])

    def others(self, job_id: str) -> I64:
        """Counts the tasks of other jobs on each host, those of daemons left out."""
        if self._busy is None:
            host = self.runs.arena["host"]
            placed = (each.hosts for of_job in self._placed.values() for each in of_job)
            self._busy = self._on_hosts((host[host > 0].astype(np.int64) - 1, *placed))
            self._busy -= self._on_hosts(self.hosts_of(*daemon) for daemon in self.runs.index.daemons())
        row = self.runs.jobs[job_id]
        coming = [
            arrival_hosts(self.arrivals, other)
            for other in self.arrivals
            if other != job_id and not self.runs.jobs[other].daemon
        ]
        return self._busy + self._on_hosts(coming) - (0 if row.daemon else self._on_hosts([self.hosts_of(job_id, row)]))

    def having(self, row: JobRow, term: AffinityRow) -> list[int]:
        """The shapes of those tasks of a job that have a rule."""
        ruled = [(number, self.runs.shapes[number].rules) for number in row.shapes]
        return [number for number, rules in ruled if rules and term in rules.affinity]

    def _on_hosts(self, hosts: Iterable[I64]) -> I64:
        """Counts tasks on each host."""
        return np.bincount(np.concatenate([np.zeros(0, dtype=np.int64), *hosts]), minlength=len(self.hosts.ids))


def _by_group(groups: I64, on_hosts: I64) -> I64:
    """Counts the tasks on hosts by the groups of these."""
    counts = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(counts, groups, on_hosts)
    return counts


class _Term:
    """Tasks counted by group: those beside which a task must be, or (`apart`) mustn't; with a weight, would rather."""

    def __init__(self, term: AffinityRow, groups: I64, counts: I64, own: bool, theirs: bool = False) -> None:
        """`theirs`: it is a rule of those who shun the tasks, not of the tasks themselves."""
        self.groups, self.counts, self.apart, self.weight = groups, counts, term.apart, term.weight
        self.label = term.label, term.value
        self.own = own
        """Whether tasks of the job itself are counted."""
        self.only = term if theirs else None
        """The rule that those have which are counted; None: all with its label are."""

    @property
    def goes_anywhere(self) -> bool:
        """Whether the first of its kind is still to come, beside which the others must be."""
        return not self.apart and not self.weight and self.own and not self.counts.any()

    def moves(self, rules: RulesRow) -> bool:
        """Whether tasks of the job with some rules are counted."""
        return self.own and (self.only is None or self.only in rules.affinity)

    def put(self, host: int, sign: int, rules: RulesRow) -> None:
        """A task of the job with some rules is there, or (`sign` -1) isn't."""
        if self.moves(rules):
            self.counts[self.groups[host]] += sign

    def allowed(self) -> Mask:
        if self.goes_anywhere:
            return np.ones(len(self.groups), dtype=np.bool_)  # the first of its kind goes anywhere
        there: Mask = self.counts[self.groups] > 0
        return ~there if self.apart else there


class _Spread:
    """Tasks of the job counted by group, and how many each may have."""

    def __init__(self, rules: RulesRow, seen: Seen, groups: I64, own: I64, eligible: Mask, instances: int) -> None:
        self.groups, self.skew = groups, rules.skew
        self.counts = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
        np.add.at(self.counts, groups, own)
        self._eligible = np.unique(groups[eligible])
        self._most = np.full(len(self.counts), rules.most or instances, dtype=np.int64)
        self._share = np.ones(len(self.counts), dtype=np.int64)
        if rules.targets:
            numbers = {
                number: percent
                for value, percent in ((each.value, each.percent) for each in rules.targets)
                if (number := seen.hosts.constraints.group_of(rules.spread_over, value)) is not None
            }
            rest = max(1, sum(1 for number in self._eligible.tolist() if number not in numbers))
            self._share[:] = 100 - sum(each.percent for each in rules.targets)
            for number, percent in numbers.items():
                self._share[number] = percent * rest
            if rules.hard:
                self._most = np.minimum(self._most, -(-self._share * instances // (100 * rest)))

    def levels(self) -> I64:
        """The level of each group; the lowest is filled first."""
        return np.where(self._share > 0, self.counts * 1_000_000 // np.maximum(self._share, 1), NEVER_LEVEL)

    def room(self) -> I64:
        """The tasks that each group may have beside those there, whatever the others have."""
        return np.asarray(np.maximum(self._most - self.counts, 0))

    def columns(self) -> I64:
        """The groups as the engine knows them: tasks, share, the most tasks, and whether they count for the skew."""
        counts_for_skew = np.zeros_like(self.counts)
        counts_for_skew[self._eligible] = 1
        return np.stack([self.counts, self._share, self._most, counts_for_skew])

    def allowed(self) -> Mask:
        mask: Mask = (self.counts < self._most)[self.groups]
        if self.skew and len(self._eligible):
            least = int(self.counts[self._eligible].min())
            mask &= (self.counts + 1 - least <= self.skew)[self.groups]
        return mask


class Rules:
    """The rules of some tasks of a job."""

    def __init__(
        self,
        seen: Seen,
        job_id: str,
        row: JobRow,
        rules: RulesRow,
        own: I64,
        eligible: Mask,
        devices: DeviceNeed | None = None,
    ) -> None:
        self.rules, self._own, self.devices, self.board = rules, own, devices, seen.devices
        self._seen, self._job_id, self._row = seen, job_id, row
        self.terms: list[_Term] = []
        self.wishes: list[_Term] = []
        """Those with a weight, which forbid nothing."""
        for term in rules.affinity:
            groups = seen.groups(term.over)
            own_label = row.labels.get(term.label) == term.value
            counts = seen.labelled((term.label, term.value), groups)
            if term.apart and not term.weight:
                np.add.at(counts, groups[seen.arrivals_with(job_id, (term.label, term.value))], 1)
            (self.wishes if term.weight else self.terms).append(_Term(term, groups, counts, own_label))
        for term in seen.runs.index.shunned(row.labels):
            groups = seen.groups(term.over)
            counts = seen.shunning(term, groups)
            np.add.at(counts, groups[seen.arrivals_having(job_id, term)], 1)
            self.terms.append(_Term(term, groups, counts, True, theirs=True))
        self.spread = None
        if rules.spread_over:
            groups = seen.groups(rules.spread_over)
            self.spread = _Spread(rules, seen, groups, own, eligible, row.instances)
        self._others = seen.others(job_id) if rules.exclusive else None
        self.within = seen.groups(rules.whole_within) if rules.whole_within else None
        self.tree = tree_of(seen.groups, seen.hosts.topology, rules.nearness) if rules.nearness else None
        self._too_late = seen.runs.windows.too_late(row.longest_ms) if _meets_windows(seen, row) else None

    @property
    def limits_alone(self) -> bool:
        """Whether nothing but how many a host has depends on where other tasks of the job are put, and in which group
        those of a unit must be.
        """
        return self.spread is None and not any(term.moves(self.rules) for term in self.terms)

    @property
    def limit(self) -> tuple[I64, I64] | None:
        """The groups over which tasks are spread, and how many more each may have; None: any number."""
        limits = self.spread is not None and (self.rules.most or self.rules.hard)
        return (self.spread.groups, self.spread.room()) if self.spread is not None and limits else None

    def why(self) -> I64:
        """For each host the first rule that forbids it, or FREE."""
        reasons = np.zeros(len(self._own), dtype=np.int64)
        if self.devices is not None and self._seen.devices is not None:
            reasons[~self._seen.devices.fits(self.devices)] = DEVICES
        if self.spread is not None:
            reasons[~self.spread.allowed()] = SPREAD
        for term in self.terms:
            reasons[~term.allowed()] = APART if term.apart else AFFINITY
        if self.rules.host_limit:
            reasons[self._own >= self.rules.host_limit] = LIMIT
        if self._others is not None:
            reasons[self._others > 0] = SHARED
        if self._too_late is not None:
            reasons[self._too_late] = WINDOW
        return reasons

    def clearable(self) -> tuple[Mask, Obstacles | None]:
        """The hosts that would be allowed if those left who are in the way there: tasks of other jobs which these rules
        forbid, or whose rules forbid these tasks; None: nobody is anywhere.
        """
        open_: Mask = np.ones(len(self._own), dtype=np.bool_)
        if self.spread is not None:
            open_ &= self.spread.allowed()
        if self.rules.host_limit:
            open_ &= self._own < self.rules.host_limit
        parts: list[Obstacle] = []
        for term in self.terms:
            if not term.apart:
                open_ &= term.allowed()
                continue
            parts.append(self._seen.obstacle([*self._shunned_by(term)], term.groups))
            leave = np.bincount(parts[-1].of, minlength=len(term.counts))
            open_ &= (term.counts <= leave)[term.groups]  # those of the job itself stay, as does who is to come back
        if self._others is not None:
            parts.append(self._seen.obstacle([self._seen.slots_of_others(self._row)], self._seen.groups(HOST)))
            open_ &= self._others <= np.bincount(parts[-1].hosts, minlength=len(open_))
        return open_, Obstacles(tuple(parts)) if parts else None

    def _shunned_by(self, term: _Term) -> Iterator[I64]:
        """The tasks of other jobs that a term counts which have places."""
        seen, index = self._seen, self._seen.runs.index
        jobs = index.labelled(term.label) if term.only is None else index.shunning(term.only)
        for job_id, row in jobs:
            if job_id != self._job_id:
                yield seen.placed_slots(job_id, row, None if term.only is None else seen.having(row, term.only))

    def columns(self, open_: Mask, ports: bool) -> Ruled:
        """The rules as the engine goes by them, for tasks that may go to these hosts, with `ports` one to each."""
        for term in self.terms:
            if not term.moves(self.rules):
                open_ = open_ & term.allowed()
        if self._others is not None:
            open_ = open_ & (self._others == 0)
        moving = [term for term in self.terms if term.moves(self.rules)]
        terms = [(term.apart, term.groups, term.counts) for term in moving]
        if ports:
            hosts = np.arange(len(open_))
            terms.append((True, hosts, np.zeros_like(hosts)))
        spread = self.spread
        counts = np.zeros((len(terms), max((len(have) for _, _, have in terms), default=1)), dtype=np.int64)
        for row, (_, _, have) in zip(counts, terms, strict=True):
            row[: len(have)] = have
        return Ruled(
            closed=(~open_).astype(np.int8),
            own=self._own.copy(),
            limit=np.array([self.rules.host_limit or FAR, spread.skew if spread is not None else 0]),
            apart=np.array([apart for apart, _, _ in terms], dtype=np.int64),
            groups=np.array([groups for _, groups, _ in terms], dtype=np.int64).reshape(len(terms), len(open_)),
            counts=counts,
            totals=counts.sum(axis=1),
            over=spread.columns() if spread is not None else np.zeros((4, 1), dtype=np.int64),
        )

    def seen(self, hosts: I64) -> Iterator[I64]:
        """Yields what rules look at on hosts, beside how many tasks of the job each has."""
        over = [(term.groups, term.counts) for term in (*self.terms, *self.wishes)]
        if self.spread is not None:
            over.append((self.spread.groups, self.spread.counts))
        for groups, counts in over:
            are_single = len(counts) == len(groups)
            yield counts[groups[hosts]] if are_single else groups[hosts]
        if self._others is not None:
            yield self._others[hosts]
        if self.within is not None:
            yield self.within[hosts]

    def unmet(self) -> I64:
        """For each host the sum of the weights of wishes that it doesn't meet."""
        total = np.zeros(len(self._own), dtype=np.int64)
        for term in self.wishes:
            total[~term.allowed()] += term.weight
        return total

    def beside(self, host: int, sign: int, of: RulesRow) -> None:
        """The same for those beside it alone; its spread is counted from how many are on each host."""
        for term in (*self.terms, *self.wishes):
            term.put(host, sign, of)

    def put(self, host: int, sign: int, of: RulesRow) -> None:
        """A task of the job is there that has some rules, or (`sign` -1) isn't."""
        self.beside(host, sign, of)
        if self.spread is not None:
            self.spread.counts[self.spread.groups[host]] += sign


class Neighbours:
    """The rules of a job, and its tasks on each host, at one moment of a decision."""

    def __init__(self, seen: Seen, job_id: str, row: JobRow) -> None:
        self._seen, self._job_id, self._row = seen, job_id, row
        self.own: I64 = np.bincount(seen.hosts_of(job_id, row), minlength=len(seen.hosts.ids))
        self._by_rules: dict[tuple[RulesRow, bytes, DeviceNeed | None], Rules] = {}
        """By the rules, the hosts that count for a spread, and devices: shapes of the job may differ in those."""
        self._none: Mask = np.zeros(0, dtype=np.bool_)
        self._puts: list[tuple[int, RulesRow, int]] = []
        """The tasks put so far, which rules that are asked for later haven't counted: host, rules of the task, sign."""

    def of(
        self, rules: RulesRow | None, unmet: NDArray[np.int16], need: I64, devices: DeviceNeed | None = None
    ) -> Rules:
        """The rules of tasks that need so much, [kinds + 1, 1]; `unmet`: below 0 where hosts meet their conditions."""
        rules, hosts = rules or RulesRow(), self._seen.hosts
        eligible = self._none
        if rules.spread_over:
            eligible = (unmet < 0) & hosts.up & have_room(hosts.whole, need)
        key = rules, eligible.tobytes(), devices
        if key not in self._by_rules:
            of_job = self._seen, self._job_id, self._row
            latest = self._by_rules[key] = Rules(*of_job, rules, self.own, eligible, devices)
            for host, of, sign in self._puts:
                latest.beside(host, sign, of)
        return self._by_rules[key]

    @property
    def are_ruled(self) -> bool:
        """Whether anything but devices depends on them."""
        return are_ruled(self._seen, self._row)

    @property
    def weight(self) -> Weights:
        """The weights of what is free."""
        return self._seen.hosts.scales().weight

    def wanted(self, rules: RulesRow) -> tuple[range, ...]:
        """The slots of jobs with a label beside which tasks must be."""
        labels = {(term.label, term.value) for term in rules.affinity if not term.apart and not term.weight}
        jobs = {row.base: row for label in sorted(labels) for _, row in self._seen.runs.index.labelled(label)}
        rows = sorted(jobs.values(), key=lambda row: row.number)
        return tuple(range(row.base, row.base + row.instances) for row in rows)

    def put(self, hosts: I64, rules: RulesRow | None, sign: int = 1, devices: DeviceNeed | None = None) -> None:
        """Tasks of the job that have some rules, and take devices, are on hosts, or (`sign` -1) aren't any more."""
        for host in hosts.tolist():
            if devices is not None and self._seen.devices is not None:
                self._seen.devices.put(host, devices, sign)
            self.own[host] += sign
            put = host, rules or RulesRow()
            if sign < 0 and self._puts and self._puts[-1] == (*put, 1):
                self._puts.pop()
            else:
                self._puts.append((*put, sign))
            for each in self._by_rules.values():
                each.put(host, sign, rules or RulesRow())

    def settle(self) -> None:
        """Notes that those who look see what was put from now on."""
        self._puts.clear()

    def leave(self, by_part: Sequence[I64], requests: Sequence["Request"]) -> None:
        """Takes tasks off again."""
        for hosts, each in zip(by_part, requests, strict=True):
            self.put(hosts, each.rules.rules, -1, each.rules.devices)


class Request(NamedTuple):
    """So many tasks of a shape, and what they need: `order` goes before the score of a host."""

    size: int
    need: I64
    """[kinds + 1, 1]"""
    score: int
    open_: Mask
    spread: bool
    scoring: Scoring | None
    order: I64 | None
    ports: tuple[int, ...]
    rules: Rules
    cards: CardChooser | None = None

    def ranks(self) -> I64 | None:
        """`order` with the wishes about tasks beside them; None: it is the same for all hosts."""
        if not self.rules.wishes:
            return self.order
        wished = self.rules.unmet() << RANK_SHIFT
        return wished if self.order is None else wished + self.order


def at_home(neighbours: Neighbours, rules: Rules, hosts: I64, fit: Mask) -> Mask:
    """True for tasks that the rules let go to their hosts, one after another; those are counted there."""
    allowed = np.zeros(len(hosts), dtype=np.bool_)
    for at in np.flatnonzero(fit).tolist():
        if rules.why()[hosts[at]] == FREE:
            neighbours.put(hosts[at : at + 1], rules.rules, devices=rules.devices)
            allowed[at] = True
    return allowed


class Chooser(Protocol):
    """Another way to the same hosts."""

    def choose(self, at: int, request: Request) -> I64:
        """A host for each task of a request that has one: the part of a unit of that index."""

    def leave(self) -> None:
        """Nothing of that stays."""


def one_by_one(
    neighbours: Neighbours, free: I64, score: I64, requests: Sequence[Request], chooser: Chooser | None = None
) -> list[I64]:
    """Hosts for as many tasks as find one, the largest first, each counted as soon as it has one."""
    by_part: list[I64] = [np.zeros(0, dtype=np.int64)] * len(requests)
    ports: dict[int, list[int]] = {}
    if chooser is None:
        free, score = free.copy(), score.copy()
    for at in sorted(range(len(requests)), key=lambda at: -requests[at].score):
        each = requests[at]
        if others := [host for port in each.ports for host in ports.get(port, [])]:
            each = each._replace(open_=each.open_.copy())
            each.open_[others] = False
        if chooser is None:
            by_part[at] = _by_a_look_at_all(neighbours, free, score, each)
        else:
            by_part[at] = chooser.choose(at, each)
            neighbours.put(by_part[at], each.rules.rules, devices=each.rules.devices)
        for port in each.ports:
            ports.setdefault(port, []).extend(by_part[at].tolist())
    return by_part


def _by_a_look_at_all(neighbours: Neighbours, free: I64, score: I64, each: Request) -> I64:
    """Hosts for as many tasks of a request as find one; they are put there."""
    results: list[int] = []
    weight = neighbours.weight
    fit = each.open_ & have_room(free, each.need)
    while len(results) < each.size:
        host = _best(neighbours, each, np.flatnonzero(fit & (each.rules.why() == FREE)), free, score)
        if host is None:
            break
        results.append(host)
        neighbours.put(np.array([host]), each.rules.rules, devices=each.rules.devices)
        free[:, host] -= each.need[:, 0]
        score[host] = scores(free[:, host : host + 1], weight)[0]
        fit[host] = not each.ports and bool(have_room(free[:, host : host + 1], each.need)[0])
    return np.array(results, dtype=np.int64)


def _best(neighbours: Neighbours, each: Request, hosts: I64, free: I64, score: I64) -> int | None:
    """The best of some hosts: by the level of its group, by its tasks of the job if these spread, by rank and score."""
    if not len(hosts):
        return None
    if each.rules.spread is not None:
        level = each.rules.spread.levels()[each.rules.spread.groups[hosts]]
        hosts = hosts[level == level.min()]
    if each.scoring is not None:
        return int(hosts[np.argmin(each.scoring.ordered(each.ranks(), free[:, hosts], hosts))])
    if each.spread:
        level = neighbours.own[hosts]
        hosts = hosts[level == level.min()]
    if (ranks := each.ranks()) is not None:
        hosts = hosts[ranks[hosts] == ranks[hosts].min()]
    if each.cards is not None and (host := each.cards.best(hosts, free[0], free[1])) is not None:
        return host
    return int(hosts[np.argmax(score[hosts]) if each.spread else np.argmin(score[hosts])])


def is_whole(
    neighbours: Neighbours, by_part: Sequence[I64], requests: Sequence[Request], chooser: Chooser | None
) -> bool:
    """Whether all have a host; else those that have are taken off again."""
    if all(len(hosts) == each.size for hosts, each in zip(by_part, requests, strict=True)):
        return True
    neighbours.leave(by_part, requests)
    if chooser is not None:
        chooser.leave()
    return False


def _meets_windows(seen: Seen, row: JobRow) -> bool:
    """Whether tasks of a job aren't to be disturbed, and there are hosts that are emptied at known times."""
    return bool(row.longest_ms) and bool(seen.runs.windows.emptying)


def are_ruled(seen: Seen, row: JobRow) -> bool:
    """Whether tasks of a job look at more than one host at a time: at their neighbours by their own rules, or since
    others shun their label, or at when hosts are emptied.
    """
    if _meets_windows(seen, row):
        return True
    if not seen.runs.shapes.ruled:
        return False
    return bool(seen.rules_of(row)) or bool(seen.runs.index.shunned(row.labels))
