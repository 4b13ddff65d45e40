"""The texts that are sent: deterministic, of real English words, so that token counts are those of office text."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """Texts of `shortest` to `longest` words, every length as likely as another."""

    name: str
    shortest: int
    longest: int


SHORT = Kind("short", 4, 12)
MIXED = Kind("mixed", 5, 120)
KINDS = {kind.name: kind for kind in (SHORT, MIXED)}


def texts(kind: Kind, seed: int, count: int) -> list[str]:
    """Return `count` texts, the same for the same arguments on every machine."""
    chance = random.Random(f"{kind.name} {seed}")
    return [_text(chance, chance.randint(kind.shortest, kind.longest)) for _ in range(count)]


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


WORDS = """
a about above access according account accounts action address after agenda agreed agreement all also amount an and
annual annex any appendix application approval approve approved april archive are area as assessment at attached
attachment attorney audit august authority available average balance bank based be because been before begin below
benefit between bid bill billing board body both branch budget building business but buyer by calendar call can cancel
candidate capital card case cash cause central certificate chair change charge check claim clause clear client close
code colleague comment committee common company compare complaint complete compliance condition conference
confidential confirm consent consultant contact contract control copy correct cost costs could council country court
cover credit currency current customer customers daily damage data date day days deadline debt december decision
default delay deliver delivery demand department deposit description design desk detail details development difference
director discount discuss dispute distribution division document documents dollar door draft due duration duty during
each early effect electronic email employee employees employer end energy engineer enquiry ensure entry equipment
error estimate evaluation event every evidence exception exchange expense expenses expert expire export extension
external fact factory failure february fee field figure file files final finance financial find first fiscal floor
follow following for force foreign form former found freight friday from full fund funding future general give good
goods government grant gross group growth guarantee guide half has have head health hearing held help here high holder
holiday hour hours house if immediately import important in include income increase indemnity independent index
industry information initial inspection installation insurance interest internal international interview into
inventory invoice invoices issue it item items january job join judge july june key known label labour language last
late law lawyer lead lease legal lender letter level liability licence limit line list loan local location long loss
machine mail maintenance make manager management managing manual march margin market marketing material matter may
measure medical meeting member message method might minister minutes missing model monday money month monthly more
most move must name national need negotiation net network new next no normal not note notice november number object
obligation october of offer office officer on one online only open operation option or order orders organisation
original other our out outstanding over overdue owner package page paid paper paragraph part partner party password
patent pay payable payment payments payroll penalty pension people per percent performance period permission person
personal phone place plan plant please point policy portfolio position possible post premises premium present
president previous price prices print prior private problem procedure proceed process procurement product production
profit programme project promise property proposal protection provide provider public purchase purpose quality
quantity quarter quarterly question quote rate rates reason receipt receive received recent recommend record records
recruitment reduce reference refund region register registration regulation reject related release reminder rent
repair replace reply report reports request required research reservation resolution resource response responsible
result results retail return revenue review revised right risk room rule safety salary sale sales same sample saturday
schedule scope second secretary section sector secure security seller send senior sent september service services
settlement several share shareholder sheet shipment shipping should shown sign signature signed since site software
solution staff standard start state statement status stock storage store strategy subject submit subsidiary such
summary sunday supplier suppliers supply support survey system table target task tax team technical telephone tenant
tender term termination terms test than that the their then there these third this those through thursday time title
to today together total trade training transaction transfer transport travel treaty trial tuesday two under union unit
until update upon urgent use used user valid value vendor version visit volume wage warehouse warranty was waste
wednesday week weekly were what when where which while will with within without work workshop would written year years
yesterday your
""".split()  # noqa: SIM905 - as a list literal, it would fill pages
