"""The specification of the engine: every host, every task, plain Python. It shares the types of requests with the
engine and nothing else.
"""

PACK, SPREAD, BALANCED, LOAD_AWARE = range(4)
SCORE_MAX = (1 << 36) - 1


class Host:
    """What a host has."""

    def __init__(self, number, free, capacity, up, attributes, load):
        self.number, self.free, self.capacity, self.up = number, list(free), list(capacity), up
        self.attributes, self.load = dict(attributes), load


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

    def is_open(self, shape, host, own):
        """`own` counts the job's tasks by host."""
        fits = all(not need or host.free[resource] >= need for resource, need in enumerate(shape.need))
        return fits and host.up and self.rank(shape, host) >= 0 and own.get(host.number, 0) < shape.limit

    # Placing.

    def place(self, requests):
        return [self.some(request) for request in requests]

    def key(self, shape, host):
        return self.rank(shape, host), self.score(shape, host), host.number

    def some(self, request):
        shape = request.shape
        own = dict(request.job.tolist())
        mark, found = len(self.put_list), []
        while len(found) < request.tasks:
            ways = [
                (self.level(shape, host, own), self.key(shape, host))
                for host in self.hosts
                if self.is_open(shape, host, own)
            ]
            if not ways:
                break
            best = self.hosts[min(ways)[1][2]]
            self.put(shape, best.number)
            self.put_list.append((shape, best.number))
            own[best.number] = own.get(best.number, 0) + 1
            found.append(best.number)
        if request.whole and len(found) < request.tasks:
            self.rollback(mark)
            return []
        return found

    def level(self, shape, host, own):
        return own.get(host.number, 0) if shape.strategy == SPREAD else 0

    def put(self, shape, host, count=1):
        at = self.hosts[host]
        at.free = [free - need * count for free, need in zip(at.free, shape.need, strict=True)]

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
