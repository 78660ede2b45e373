"""The specification of the engine: every host, every task, plain Python. It shares the types of requests with the
engine and nothing else.
"""

from processors.placement.engine.shapes import Request

PACK, SPREAD, BALANCED, LOAD_AWARE = range(4)
SCORE_MAX = (1 << 36) - 1


class Host:
    """What a host has, and the tasks there by shape."""

    def __init__(self, number, free, capacity, up, attributes, load):
        self.number, self.free, self.capacity, self.up = number, list(free), list(capacity), up
        self.attributes, self.load = dict(attributes), load
        self.tasks = {}

    def count(self, wanted=lambda shape: True):
        return sum(count for shape, count in self.tasks.items() if wanted(shape))


class Twin:
    """The same calls as those of the engine."""

    def __init__(self, resources):
        self.resources = resources
        self.hosts = []
        self.put_list = []

    def host(self, number, free, capacity, up, attributes, load):
        fresh = Host(number, free, capacity, up, attributes, load)
        if number == len(self.hosts):
            self.hosts.append(fresh)
        else:
            fresh.tasks = self.hosts[number].tasks
            self.hosts[number] = fresh

    # The key.

    def scale(self, resource):
        """Weight and shift of a resource."""
        largest = max((host.capacity[resource] for host in self.hosts), default=0)
        unit = 1 << max(largest.bit_length() - 4, 0)
        rounded = max((largest + unit - 1) // unit * unit, 1)
        shift = max(rounded.bit_length() - 20, 0)
        return (2**31 - 1) // (rounded >> shift), shift

    def k(self, host):
        scales = [self.scale(resource) for resource in range(self.resources)]
        return sum((max(free, 0) >> shift) * weight for free, (weight, shift) in zip(host.free, scales, strict=True))

    def score(self, shape, host):
        k = self.k(host)
        if shape.strategy == PACK:
            return k
        if shape.strategy == SPREAD:
            return SCORE_MAX - k
        if shape.strategy == LOAD_AWARE:
            return host.load << 30 | (SCORE_MAX - k) >> 6
        shares = []
        for resource, need in enumerate(shape.need):
            if need:
                shift = self.scale(resource)[1]
                used = (host.capacity[resource] - host.free[resource] + need) >> shift
                shares.append(used * (2**30 // max(host.capacity[resource] >> shift, 1)) >> 20)
        difference = max(max(shares, default=0), 0) - min(shares, default=0)
        return min(max(difference, 0), 1023) << 26 | k >> 10

    # What is open.

    def rank(self, shape, host):
        return 0 if shape.conditions is None else shape.conditions.rank(host.attributes)

    def same(self, host, other, attribute):
        if not attribute:
            return host is other
        return host.attributes.get(attribute) == other.attributes.get(attribute)

    def carrying(self, label, host=None, attribute=""):
        return sum(
            other.count(lambda shape: label in shape.carries)
            for other in self.hosts
            if host is None or self.same(host, other, attribute)
        )

    def reason(self, shape, host, own):
        """Why a host isn't open; `own` counts the job's tasks by host."""
        if not host.up:
            return "state"
        if self.rank(shape, host) < 0:
            return "condition"
        alone = host.count(lambda one: one.exclusive)
        if (host.count() != own.get(host.number, 0) or alone != host.count()) if shape.exclusive else alone:
            return "taken"
        for resource, need in enumerate(shape.need):
            if need and host.free[resource] < need:
                return resource
        if own.get(host.number, 0) >= shape.limit:
            return "limit"
        if any(self.carrying(label, host, attribute) for label, attribute in shape.shuns):
            return "apart"
        for other in self.hosts:
            for one in other.tasks:
                for label, attribute in one.shuns:
                    if label in shape.carries and self.same(host, other, attribute):
                        return "apart"
        for label, attribute in shape.wants:
            first = label in shape.carries and not self.carrying(label)
            if not first and not self.carrying(label, host, attribute):
                return "affinity"
        return None

    # Placing.

    def place(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        if not request.within:
            return self.some(request, self.hosts)
        groups = {}
        for host in self.hosts:
            groups.setdefault(host.attributes.get(request.within), []).append(host)
        own = dict(request.job.tolist())
        ways = []
        for value, hosts in groups.items():
            keys = [self.key(request.shape, host) for host in hosts if self.reason(request.shape, host, own) is None]
            if keys:
                ways.append((value is None, min(keys), hosts))
        plain = request._replace(
            shape=request.shape._replace(skew=0, over=""), whole=True, targets=(), within="", desired=-1
        )
        for _, _, hosts in sorted(ways, key=lambda way: way[:2]):
            found = self.some(plain, hosts, levels=False, put_as=request.shape)
            if found:
                return found
        return []

    def key(self, shape, host):
        return self.rank(shape, host), self.score(shape, host), host.number

    def some(self, request, hosts, levels=True, put_as=None):
        shape = request.shape
        own = dict(request.job.tolist())
        mark, found = len(self.put_list), []
        while len(found) < request.tasks:
            best = None
            if not found and request.desired >= 0 and not shape.over:
                desired = self.hosts[request.desired]
                best = desired if self.reason(shape, desired, own) is None else None
            if best is None:
                ways = [
                    (self.level(request, host, own, levels), self.key(shape, host))
                    for host in hosts
                    if self.reason(shape, host, own) is None and (not levels or self.may(request, host, own))
                ]
                if not ways:
                    break
                best = self.hosts[min(ways)[1][2]]
            self.put(put_as or shape, best.number)
            self.put_list.append((put_as or shape, best.number))
            own[best.number] = own.get(best.number, 0) + 1
            found.append(best.number)
        if request.whole and len(found) < request.tasks:
            self.rollback(mark)
            return []
        return found

    def level(self, request, host, own, levels):
        shape = request.shape
        if not levels:
            return 0
        if shape.over:
            share = self.share(request, host.attributes.get(shape.over))
            return self.in_group(shape, host, own) * (1 << 20) // share if share else 1 << 62
        return own.get(host.number, 0) if shape.strategy == SPREAD else 0

    def in_group(self, shape, host, own):
        return sum(tasks for other, tasks in own.items() if self.same(host, self.hosts[other], shape.over))

    def share(self, request, value):
        if not request.targets:
            return 1
        named = dict(request.targets)
        values = {host.attributes.get(request.shape.over) for host in self.hosts} - {None}
        others = max(1, len(values - named.keys()))
        if value in named:
            return named[value] * others
        return 0 if value is None else max(0, 100 - sum(named.values()))

    def may(self, request, host, own):
        """Whether one more task keeps skew and hard targets."""
        shape = request.shape
        if not shape.over:
            return True
        have = self.in_group(shape, host, own)
        if request.targets and request.total:
            values = {one.attributes.get(shape.over) for one in self.hosts} - {None}
            others = max(1, len(values - dict(request.targets).keys()))
            share = self.share(request, host.attributes.get(shape.over))
            if have >= -(-request.total * share // (100 * others)):
                return False
        if shape.skew:
            counting = [one for one in self.hosts if one.up and self.rank(shape, one) >= 0]
            if have + 1 - min(self.in_group(shape, one, own) for one in counting) > shape.skew:
                return False
        return True

    def put(self, shape, host, count=1):
        at = self.hosts[host]
        at.free = [free - need * count for free, need in zip(at.free, shape.need, strict=True)]
        at.tasks[shape] = at.tasks.get(shape, 0) + count
        if not at.tasks[shape]:
            del at.tasks[shape]

    def take_off(self, shape, host, count=1):
        self.put(shape, host, -count)

    def mark(self):
        return len(self.put_list)

    def rollback(self, mark=0):
        while len(self.put_list) > mark:
            shape, host = self.put_list.pop()
            self.put(shape, host, -1)

    def settle(self):
        self.put_list.clear()

    def reasons(self, request: Request):
        own = dict(request.job.tolist())
        return [self.reason(request.shape, host, own) for host in self.hosts]
