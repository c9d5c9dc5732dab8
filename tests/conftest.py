"""Settings that every test shares."""

from hypothesis import HealthCheck, settings

# Machines differ and are shared: how long an example takes is never a reason to fail.
settings.register_profile("policyengine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("policyengine")
