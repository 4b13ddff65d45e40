"""The inference appliance: small models behind one endpoint, one shared queue."""

__version__ = "0.1.0"
