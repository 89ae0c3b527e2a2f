"""Nouns of descriptions, and what values they stand for; the small words between them."""

from __future__ import annotations

from collections.abc import Mapping

from toolyard.model.tool import Schema


def word_set(words: str) -> frozenset[str]:
    """The words of a line, as a set."""
    return frozenset(words.split())


LINKS = word_set(
    "by for with from in of to using via on at as near between within based given about into per during over "
    "through that which who where when if whether because so than against under across around along after before "
    "among inside without until upon onto towards toward behind while"
)
FILLERS = word_set(
    "a an the all any some your my our its his her their this that these those new specific specified given "
    "particular current latest recent detailed various different existing following certain single one two three "
    "multiple several many more other own live possible relevant desired requested provided basic simple "
    "comprehensive complete full exact entire whole random unique me you us it available top best nearest closest "
    "nearby popular upcoming historical additional valid important common personalized customized resulting "
    "corresponding created newly only them both either also just"
)
LISTS = word_set("list lists array collection set series range variety selection catalog sequence group overview")
VAGUE = word_set(
    "information info detail details data record profile metadata result results content output response answer "
    "thing value values properties property characteristics statistics stats insights facts"
)
"""Nouns that only say that there is something to know about another thing."""
ABOUT = word_set("information info detail details data record profile metadata")
"""Those of them that stand for the thing itself."""
ENTITIES = word_set(
    "account activity actor ad agent airport alarm album animal apartment appointment article artist artwork "
    "athlete attraction auction author beach bid book booking branch brand bus campaign campground candidate car "
    "card cart case channel chef church cinema city claim client clinic cluster comment commit company concert "
    "contact contract country coupon course crime cruise customer database deal delivery dentist device doctor "
    "document domain driver drug email employee entry event exam exhibition festival file film flight folder friend "
    "fund game gene grant group guest gym hospital hotel house image instance invoice issue item job journal "
    "landmark lawsuit lawyer lead league lesson listing loan match mechanic medicine meeting member merchant "
    "message mosque movie museum node note notification offer order organization package page painting paper park "
    "passenger patient payment person pet pharmacy photo place plant player playlist podcast policy post "
    "product professional project protein provider publication puzzle question quiz race recipe reminder "
    "rental repository reservation restaurant review robot room route salon scholarship school sculpture sensor "
    "server service session shipment shop show song station stock store student subscription supplier table task "
    "teacher team theater therapist ticket timer tour tournament tower track train transaction trip tweet "
    "university user vehicle vendor venue video warehouse website worker workout workspace"
)
"""Things that have an id and a name."""
_NUMBERS = word_set(
    "acceleration accuracy altitude amount angle area balance bmi brightness budget calorie calories capacitance "
    "capacity cashflow charge circumference coefficient concentration conductivity consumption correlation cost ctr "
    "debt deduction demand density depth derivative determinant deviation diameter difference discount displacement "
    "distance dose drag duration earnings efficiency elevation emission emissions energy enthalpy entropy expense "
    "expenses exponent fare fee field flux force frequency gain gdp gravity growth heat height humidity "
    "hypotenuse income index inductance inflation intake integral intensity intercept interest irr latitude length "
    "lift likelihood load logarithm longitude loss luminosity magnification magnitude margin mass mean median mode "
    "moment momentum mortgage npv number payment percent percentage perimeter permeability ph power precision premium "
    "pressure price probability product productivity profit quotient radius rate ratio recall remainder rent "
    "resistance return revenue roi root salary savings score similarity slope speed strain stress sum tax "
    "temperature thrust tip torque total valuation value variance velocity viscosity voltage volume wage wavelength "
    "weight width work worth yield"
)
_WHOLE = word_set("age attendance count factorial gcd lcm population quantity rank ranking year")
_TEXTS = word_set("status type date day name id category class winner method text url")
_OTHERS = word_set("weather forecast news time status address location direction")
_FORMATS: Mapping[str, str] = {
    "date": "date",
    "birthday": "date",
    "deadline": "date",
    "timestamp": "date-time",
    "url": "uri",
    "link": "uri",
    "website": "uri",
    "email": "email",
    "uuid": "uuid",
}


def is_known_noun(word: str) -> bool:
    """True for a noun that something is known about."""
    return (
        word in _OTHERS or word in ENTITIES or word in _NUMBERS or word in _WHOLE or word in _FORMATS or word in VAGUE
    )


def plain_schema(noun: str, text: str, *, number: bool = False) -> Schema:
    """The type of a value that is called by a noun; a number if nothing else is known and `number` says so."""
    if noun in _WHOLE or (noun == "number" and "number of" in text):
        return {"type": "integer"}
    if noun == "number" and not text.startswith("The number"):
        return {"type": "string"}  # of a phone, an order, a card
    if noun in _FORMATS:
        return {"type": "string", "format": _FORMATS[noun]}
    if noun in _NUMBERS or (number and noun not in _TEXTS):
        return {"type": "number"}
    return {"type": "string"}
