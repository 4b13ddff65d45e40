"""The fault catalogue: what is done to a real daemon under load, and what an oracle outside of it saw."""
