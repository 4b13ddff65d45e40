"""What holds for the whole suite."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Machines that run this are shared and slow at times: a property must hold, not be quick.
settings.register_profile("suite", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
