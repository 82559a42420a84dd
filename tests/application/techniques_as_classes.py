"""Techniques of the catalogue, written as classes of a user."""

import math


class Tap:
    """Tapering: no memory but its parameters."""

    def __init__(self, sigma, mu, alpha=1.3):
        self.v = alpha * sigma / mu

    def size(self, memory, n, p, remaining, step, pe):
        k = remaining / p
        wanted = k + self.v * self.v / 2 - self.v * math.sqrt(2 * k + self.v * self.v / 4)
        return max(math.ceil(wanted - 1e-12 * k), 1)


class WeightedByBatch:
    """AWF-B: weights from rates, taken over at the start of a batch."""

    def numbers(self, p):
        return 4 * p + 1  # of each PE chunks, Σ k·t_k, Σ k·n_k and the weight; the batch's chunk

    def begin(self, memory, n, p):
        for pe in range(p):
            if memory[3 * p + pe] == 0.0:
                memory[3 * p + pe] = 1.0

    def learn(self, memory, n, p, chunk):
        pe = chunk.pe
        memory[pe] += 1.0
        memory[p + pe] += memory[pe] * chunk.seconds
        memory[2 * p + pe] += memory[pe] * chunk.size

    def size(self, memory, n, p, remaining, step, pe):
        if step % p == 0:
            memory[4 * p] = -(-remaining // (2 * p))
            rates, held = 0.0, 0.0
            for q in range(p):
                if memory[p + q] > 0.0:
                    rates += memory[2 * p + q] / memory[p + q]
                    held += 1.0
            for q in range(p):
                if memory[p + q] > 0.0:
                    memory[3 * p + q] = held * (memory[2 * p + q] / memory[p + q]) / rates
        wanted = memory[3 * p + pe] * memory[4 * p]
        return max(math.ceil(wanted * (1.0 - 1e-9)), 1)


class Adaptive:
    """AF."""

    times_pieces = True

    def __init__(self, first_chunk=0.1):
        self.first_chunk = first_chunk

    def numbers(self, p):
        return 4 * p  # of each PE iterations, their mean time, Σ (x − mean)², pieces

    def learn(self, memory, n, p, chunk):
        pe, size = chunk.pe, chunk.size
        before = memory[pe]
        share = size / (before + size)
        shift = chunk.seconds / size - memory[p + pe]
        memory[pe] = before + size
        memory[p + pe] += shift * share
        memory[2 * p + pe] += chunk.spread + shift * shift * before * share
        memory[3 * p + pe] += chunk.pieces

    def size(self, memory, n, p, remaining, step, pe):
        d, rates, known = 0.0, 0.0, 0
        for q in range(p):
            mean = memory[p + q]
            if mean > 0.0:
                known += 1
                rates += 1.0 / mean
                variance = 0.0
                if memory[3 * p + q] >= 2.0:
                    variance = memory[2 * p + q] / (memory[3 * p + q] - 1.0)
                if variance > (1e-6 * mean) * (1e-6 * mean):
                    d += variance / mean
        wanted = math.ceil(self.first_chunk * n / p - 1e-12)
        if memory[p + pe] > 0.0:
            work = remaining / rates
            share = 2.0 * work * work / (d + 2.0 * work + math.sqrt(d * d + 4.0 * d * work))
            wanted = int(min(share / memory[p + pe] * (1.0 + 1e-9), float(remaining)))
        if known < p:
            wanted = min(wanted, -(-n // (2 * p)))
        return max(wanted, 1)


class Counts:
    """Sizes chunks by how often it was told of what."""

    def numbers(self, p):
        return 8

    def begin(self, memory, n, p):
        memory[0] += 1.0

    def learn(self, memory, n, p, chunk):
        memory[1] += 1.0
        memory[2] += chunk.size
        memory[3] += chunk.seconds
        memory[4] += chunk.step

    def size(self, memory, n, p, remaining, step, pe):
        return 1 + int(memory[1]) % 3 + int(memory[0])
