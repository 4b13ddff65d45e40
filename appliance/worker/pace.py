"""How fast a device gets through a model's work, from the batches that it ran: what it costs, and when it is too long.

Time is a + b x size: two least-squares fits whose past fades, so that they follow the device and the texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appliance.worker.batcher import Batch, Limits

_FADE = 0.97
"""What a batch weighs after the next one; some thirty batches count."""
_LEAST_SAMPLES = 5
_FOLLOW = 0.1
"""What a batch weighs in the mean size of an input, once ten have run."""


@dataclass
class Line:
    """The line through faded (size, seconds) samples that fits best, with neither of its parts below zero."""

    weight: float = 0.0
    sum_x: float = 0.0
    sum_y: float = 0.0
    sum_xx: float = 0.0
    sum_xy: float = 0.0
    samples: int = 0

    def add(self, x: float, y: float) -> None:
        self.samples += 1
        self.weight = self.weight * _FADE + 1
        self.sum_x = self.sum_x * _FADE + x
        self.sum_y = self.sum_y * _FADE + y
        self.sum_xx = self.sum_xx * _FADE + x * x
        self.sum_xy = self.sum_xy * _FADE + x * y

    def at(self, x: float) -> float:
        """Return the seconds expected for size `x`; 0.0 before any sample."""
        if not self.weight:
            return 0.0
        spread = self.weight * self.sum_xx - self.sum_x * self.sum_x
        through_zero = self.sum_y / self.sum_x if self.sum_x else 0.0
        if spread <= 1e-6 * self.weight * self.sum_xx:  # all of one size: nothing tells the two parts apart
            return through_zero * x
        slope = (self.weight * self.sum_xy - self.sum_x * self.sum_y) / spread
        start = (self.sum_y - slope * self.sum_x) / self.weight
        if start < 0:
            return through_zero * x
        return self.sum_y / self.weight if slope < 0 else start + slope * x


@dataclass
class Pace:
    """One model on one device. `cost` is in the estimated tokens that items carry, as gateways count."""

    wall: Line = field(default_factory=Line)
    """Estimated tokens to seconds of the device: batches that ran at once share them."""
    run: Line = field(default_factory=Line)
    """Size in real tokens to seconds of one batch from start to end, company included."""
    piece_cost: float = 0.0
    piece_tokens: float = 0.0

    def took(self, batch: Batch, wall_s: float, run_s: float) -> None:
        """Learn from a batch that succeeded."""
        count = len(batch.pieces)
        cost = batch.cost
        self.wall.add(cost, wall_s)
        self.run.add(batch.size, run_s)
        follow = max(_FOLLOW, 1 / self.wall.samples)  # else the first one would count most
        self.piece_cost += follow * (cost / count - self.piece_cost)
        self.piece_tokens += follow * (batch.real_tokens / count - self.piece_tokens)

    def full_cost(self, limits: Limits) -> float:
        """Return what a full batch of inputs like the recent ones costs; 0.0 before any batch."""
        if not self.piece_cost:
            return 0.0
        return min(limits.batch_items, max(1.0, limits.batch_tokens / max(1.0, self.piece_tokens))) * self.piece_cost

    def seconds_per_cost(self, limits: Limits) -> float:
        """Return the device's seconds for one unit of cost while batches are full; 0.0 while that is unknown."""
        cost = self.full_cost(limits)
        return self.wall.at(cost) / cost if cost and self.wall.samples >= _LEAST_SAMPLES else 0.0

    @property
    def caution(self) -> float:
        """By what to multiply a time that is promised: few batches may be luckier than most."""
        return 1 + 1 / max(1, self.wall.samples)

    def limit_s(self, batch: Batch, least_s: float, factor: float, most_s: float) -> float:
        """Return after how long a batch is not slow but hung: `factor` times what it should take, within bounds."""
        if self.run.samples < _LEAST_SAMPLES:
            return most_s
        return min(most_s, max(least_s, factor * self.run.at(batch.size)))
