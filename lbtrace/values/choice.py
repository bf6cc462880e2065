"""``std::variant``: a value of one of several types."""

from __future__ import annotations

from lbtrace.values.base import Member
from lbtrace.values.variants import Variants


class Choice(Variants, frozen=True, tag="choice"):
    """A value of one of the types of the ``cases``, of which ``discriminant`` is the index."""

    through = True

    def named_states(self) -> tuple[()]:
        return ()

    def named_parts(self) -> tuple[Member, ...]:
        return (self.discriminant,) if self.discriminant else ()
