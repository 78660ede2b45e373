"""Random clusters on the engine and its twin side by side: hosts come, go and change, tasks end, jobs grow."""

import random
from typing import NamedTuple

import numpy as np

from processors.placement.engine.columns import FAR
from processors.placement.engine.engine import Engine
from processors.placement.engine.shapes import EMPTY, Request, Shape
from tests.processors.placement.engine.twin import Twin

ATTRIBUTES = {"rack": "abcd", "zone": "xy", "disk": ("ssd", "hdd")}


class Drawn(NamedTuple):
    """Conditions: values that an attribute must have, and values that are wished for, with weights."""

    must: tuple[tuple[str, tuple[str, ...]], ...]
    wishes: tuple[tuple[str, str, int], ...]

    @property
    def attributes(self):
        return tuple(dict.fromkeys([name for name, _ in self.must] + [name for name, _, _ in self.wishes]))

    def rank(self, values):
        if any(values.get(name) not in allowed for name, allowed in self.must):
            return -1
        return sum(weight for name, value, weight in self.wishes if values.get(name) != value)


class Cluster:
    """One seed."""

    def __init__(self, seed, kernels, log=32, slots=3, hosts=70):
        self.draw = random.Random(seed)
        self.resources = self.draw.choice((1, 2, 3, 3, 7))
        self.largest = [self.draw.choice((8, 100, 64_000, 1 << 38)) for _ in range(self.resources)]
        self.engine = Engine(self.resources, kernels, log=log, slots=slots, slots_max=slots)
        self.twin = Twin(self.resources)
        self.jobs = []
        """[shape, {host: tasks}] for each."""
        self.free_of = {}
        for _ in range(self.draw.randint(1, hosts)):
            self.host(len(self.twin.hosts))
        self.shapes = [self.shape() for _ in range(self.draw.randint(1, 8))]

    def host(self, number):
        draw = self.draw
        old = self.twin.hosts[number] if number < len(self.twin.hosts) else None
        capacity = [draw.choice((0, large // 4, large // 2, large, large)) for large in self.largest]
        used = [0] * self.resources
        if old is not None:
            used = [have - free for have, free in zip(old.capacity, old.free, strict=True)]
            if draw.random() < 0.6:
                capacity = old.capacity
        free = [have - one for have, one in zip(capacity, used, strict=True)]
        attributes = {name: draw.choice(values) for name, values in ATTRIBUTES.items() if draw.random() < 0.8}
        if old is not None and draw.random() < 0.5:
            attributes = old.attributes
        up, load = draw.random() < 0.85, draw.randint(0, 63)
        for board in (self.engine, self.twin):
            board.host(number, free, capacity, up, attributes, load)

    def shape(self):
        draw = self.draw
        need = tuple(draw.choice((0, large // 16, large // 5, large // 2)) for large in self.largest)
        return Shape(
            need,
            strategy=draw.randrange(4),
            conditions=draw.choice((None, self.conditions())),
            limit=draw.choice((FAR, FAR, 1, 2, 5)),
        )

    def conditions(self):
        draw, names = self.draw, sorted(ATTRIBUTES)
        must = [(name, tuple(sorted(draw.sample(ATTRIBUTES[name], 2 if name == "rack" else 1)))) for name in names]
        wishes = [(name, draw.choice(ATTRIBUTES[name]), draw.randint(1, 20)) for name in names]
        return Drawn(
            tuple(one for one in must if draw.random() < 0.3), tuple(one for one in wishes if draw.random() < 0.4)
        )

    def requests(self):
        draw, requests, jobs = self.draw, [], []
        for _ in range(draw.randint(1, 4)):
            shape, hosts = draw.choice(self.shapes), {}
            grown = [job for job in self.jobs if job not in jobs]
            if grown and draw.random() < 0.4:
                job = draw.choice(grown)
                shape, hosts = job
            else:
                job = (shape, hosts)
                self.jobs.append(job)
            jobs.append(job)
            tasks = draw.choice((1, 1, 2, 5, 30))
            requests.append(
                Request(
                    shape,
                    tasks,
                    whole=draw.random() < 0.4,
                    job=np.array(sorted(hosts.items()), dtype=np.int64).reshape(-1, 2) if hosts else EMPTY,
                )
            )
        return requests, jobs

    def turn(self):
        """One change of the cluster, or requests, of which some are rolled back."""
        draw = self.draw
        chance = draw.random()
        if chance < 0.15:
            self.host(draw.randrange(len(self.twin.hosts)))
        elif chance < 0.18 and len(self.twin.hosts) < 200:
            self.host(len(self.twin.hosts))
        elif chance < 0.25:
            self.shapes[draw.randrange(len(self.shapes))] = self.shape()
        elif chance < 0.45 and self.jobs:
            shape, hosts = draw.choice(self.jobs)
            for host in sorted(hosts):
                if draw.random() < 0.6:
                    count = draw.randint(1, hosts[host])
                    self.twin.take_off(shape, host, count)
                    self.engine.update(np.array([host]), np.array([self.twin.hosts[host].free]).T)
                    hosts[host] -= count
                    if not hosts[host]:
                        del hosts[host]
        else:
            self.compare(*self.requests())

    def compare(self, requests, jobs):
        ours = [hosts.tolist() for hosts in self.engine.place(requests)]
        theirs = self.twin.place(requests)
        assert ours == theirs, (requests, ours, theirs)
        if self.draw.random() < 0.25:
            self.engine.rollback()
            self.twin.rollback()
        else:
            self.engine.settle()
            self.twin.settle()
            for (_, hosts), chosen in zip(jobs, ours, strict=True):
                for host in chosen:
                    hosts[host] = hosts.get(host, 0) + 1


def compare(seed, kernels, turns=40, **options):
    """Plays one seed; raises AssertionError where the two differ."""
    cluster = Cluster(seed, kernels, **options)
    for _ in range(turns):
        cluster.turn()
