"""Abbreviations that are written with a point, in small letters: what ends with it is a word, and maybe no sentence.

Whoever cuts text into words or sentences takes its sets from here and adds what it alone treats so.
"""

from __future__ import annotations


def forms_of(listed: str) -> frozenset[str]:
    """The words of a list that is written with spaces between them."""
    return frozenset(listed.split())


TITLES = forms_of(
    "mr mrs ms mx dr prof rev fr st ste sra mme mlle mgr messrs hon capt cpt col gen lt maj sgt cpl adm cmdr gov "
    "sen rep pres supt insp esqr"
)
"""Before names: something always follows."""
NUMBERED = forms_of("no nos nr p pp vol fig ch sec art")
"""Before numbers; before anything else the point ends a sentence."""
COMPANIES = forms_of("inc ltd co corp bros jr")
"""After names: they may be the last word of a sentence."""
PLACES = forms_of("ave blvd dept univ")
CALENDAR = forms_of("jan feb mar apr jun jul aug sept sep oct nov dec mon tue wed thu fri")
"""With a capital: small letters make other words of some of them."""
