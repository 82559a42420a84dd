"""Devices of nodes, slow and obvious: the free parts of each device stand behind the amounts of a node."""

from __future__ import annotations

from tests.reference.allocators import Nodes
from tests.reference.planning import PlanningSystem

PARTS = 1000


class Place(int):
    """A node, with the devices that a unit has there."""

    devices: tuple[int, ...] = ()


class DeviceNodes(Nodes):
    """Rows of amounts, then the parts of each device; ``of``: the resource that each device is of."""

    def __init__(self, capacity, of, links=None) -> None:
        super().__init__(capacity, False, links)
        self.of, self.n = of, len(self.capacity[0]) - len(of)

    def parts(self, device, request) -> int:
        return min(request[self.of[device]], PARTS)

    def choose(self, request, row) -> tuple[int, ...] | None:
        """The first whole devices, or the one with the least left that has the share; None: too few."""
        chosen = []
        for r in sorted(set(self.of)):
            able = [
                device
                for device, of in enumerate(self.of)
                if of == r and row[self.n + device] >= self.parts(device, request)
            ]
            if 0 < request[r] < PARTS:
                able.sort(key=lambda device: (row[self.n + device], device))
            count = -(-request[r] // PARTS)
            if len(able) < count:
                return None
            chosen += able[:count]
        return tuple(chosen)

    def fits(self, node, request, free) -> bool:
        row = free[node]
        if any(has < asked for has, asked in zip(row[: self.n], request, strict=True)):
            return False
        if isinstance(node, Place):
            return all(row[self.n + device] >= self.parts(device, request) for device in node.devices)
        return self.choose(request, row) is not None

    def take(self, node, request, free) -> None:
        devices = node.devices if isinstance(node, Place) else self.choose(request, free[node])
        row = [has - asked for has, asked in zip(free[node], request, strict=False)] + list(
            free[node][self.n :]
        )
        for device in devices:
            row[self.n + device] -= self.parts(device, request)
        free[node] = tuple(row)

    def score(self, node, free) -> float:
        pairs = zip(self.capacity[node][: self.n], free[node][: self.n], strict=True)
        shares = [(c - f) / c for c, f in pairs if c > 0]
        return sum(shares) / len(shares)

    def with_devices(self, allocate):
        """Give the allocator that says for every unit which devices it has."""

        def allocate_devices(nodes, units, request, free, number=0):
            chosen = allocate(nodes, units, request, free, number)
            if chosen is None:
                return None
            left, places = list(free), []
            for node in chosen:
                place = Place(node)
                place.devices = self.choose(request, left[node])
                self.take(place, request, left)
                places.append(place)
            return places

        return allocate_devices


class DeviceSystem(PlanningSystem):
    """The planning system on such nodes."""

    def left_of(self, held) -> list[tuple[int, ...]]:
        left = list(self.nodes.capacity)
        for nodes, request in held:
            for node in nodes:
                self.nodes.take(node, request, left)
        return left
