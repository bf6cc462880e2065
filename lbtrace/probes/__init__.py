"""Sources of probes: `PROBES` has them all.

A source says which BPF program serves a probe of which role, how it can be attached, and how
a call's two probes find each other (`Pairing`). Roles, and what they mean, are in
`lbtrace.probes.roles`. How to add a source: docs/extending.md.
"""

from lbtrace.probes.roles import CLOSING, LANDINGS, ROLES, STACK_ROLES, Role, kind_of_events
from lbtrace.probes.source import Mode, Pairing, Source, hooked_pairs
from lbtrace.probes.sources import SOURCES

PROBES: dict[str, Source] = {source.name: source for source in SOURCES}
"""All sources, by the name that `lbtrace.model.Probe.source` gives."""

__all__ = [
    "CLOSING",
    "LANDINGS",
    "PROBES",
    "ROLES",
    "STACK_ROLES",
    "Mode",
    "Pairing",
    "Role",
    "Source",
    "hooked_pairs",
    "kind_of_events",
]
