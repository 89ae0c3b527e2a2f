"""Words of names and descriptions: verbs and what they do, nouns and what values they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import Literal

from toolyard.words.identifiers import split_ascii_identifier

words_of = split_ascii_identifier

Deed = Literal["get", "list", "find", "ask", "count", "make", "draw", "change", "turn", "study"]
"""What a tool does: fetches, lists, finds, asks a yes or no, calculates, creates (a record), generates (a work),
changes something, turns one thing into another, studies something."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_VERBS: Mapping[Deed, str] = {
    "get": (
        "get retrieve fetch show view read obtain access provide give display describe return query load pull "
        "lookup look see know tell report_on download scrape inspect monitor track review learn explain define "
        "consult receive check offer present ask help stay"
    ),
    "list": ("list search browse recommend suggest discover explore enumerate scan"),
    "find": ("find locate choose select pick identify extract detect recognize diagnose match rank collect gather"),
    "ask": ("is are has have can does validate verify authenticate confirm test contains exists check_if should"),
    "count": (
        "calculate compute estimate count measure sum determine predict forecast evaluate assess solve integrate "
        "differentiate derive project quantify rate average calc factorize"
    ),
    "make": (
        "create add register book schedule order make reserve purchase buy post submit open start insert upload "
        "place hire enroll apply donate transfer pay request rent subscribe issue invite assign join sign deposit "
        "withdraw save store log record file publish initiate launch plan arrange setup trade charge clone "
        "duplicate fund refund signup"
    ),
    "draw": (
        "generate write compose draft produce build design render plot draw visualize invent craft paint simulate"
    ),
    "change": (
        "send update modify edit set change cancel delete remove close exchange move rename enable disable control "
        "turn adjust stop put clear reset lock unlock activate deactivate play pause resume reply notify share "
        "mark approve reject accept archive restore backup deploy install uninstall configure connect disconnect "
        "run execute restart reboot revoke grant block unblock mute follow unfollow like rotate increase decrease "
        "switch toggle drop merge remind alert call dial navigate water feed clean wash cook brew export import "
        "sync print allocate perform manage train handle feedback clock do login logout signin signout"
    ),
    "turn": (
        "translate convert summarize encrypt decrypt encode decode compress decompress resize sort filter format "
        "reverse correct transcribe paraphrase rewrite proofread parse normalize optimize improve replace "
        "transform crop hash tokenize stem round shuffle concatenate join_text split trim capitalize rephrase "
        "simplify enhance edit_text geocode"
    ),
    "study": (
        "analyze analyse classify compare categorize interpret investigate examine study profile audit segment cluster"
    ),
}
VERBS: dict[str, Deed] = {verb: deed for deed, verbs in _VERBS.items() for verb in verbs.split()}
DOERS: Mapping[str, str] = {
    "booking": "book",
    "reservation": "reserve",
    "calculator": "calculate",
    "calculation": "calculate",
    "converter": "convert",
    "conversion": "convert",
    "generator": "generate",
    "finder": "find",
    "checker": "check",
    "translator": "translate",
    "translation": "translate",
    "validator": "validate",
    "tracker": "track",
    "lookup": "get",
    "search": "search",
    "recommender": "recommend",
    "estimator": "estimate",
    "predictor": "predict",
    "prediction": "predict",
    "summarizer": "summarize",
    "analyzer": "analyze",
    "analysis": "analyze",
}
AMBIGUOUS = _set(
    "order project record rate schedule match review plan file report test water forecast post book stock request "
    "charge trade grant log store contact profile group cluster hash stem round format filter access display view "
    "show feed play call share mark lock drop run study export import offer rank sum average issue design plot "
    "draft paint place rent fund sign query load track block mute like switch notify pull return define cook "
    "process look clock sort split"
)
"""Verbs that are as often nouns: `order_status` orders nothing."""
LAST_VERBS = _set(
    "search book find get fetch retrieve list convert calculate compute create delete update check generate "
    "translate predict estimate analyze validate send add remove compare recommend cancel purchase buy reserve "
    "replace solve classify detect identify extract encode decode encrypt decrypt verify submit upload download "
    "lookup browse set"
)
"""Verbs with which a name may end: `flight.book`."""
NAMELESS = _set(
    "flight order transaction booking reservation payment invoice message email appointment ticket review comment "
    "notification shipment delivery session rental trip claim loan case"
)
"""Things that have an id and no name."""
LINKS = _set(
    "by for with from in of to using via on at as near between within based given about into per during over "
    "through that which who where when if whether because so than against under across around along after before "
    "among inside without until upon onto towards toward behind while"
)
FILLERS = _set(
    "a an the all any some your my our its his her their this that these those new specific specified given "
    "particular current latest recent detailed various different existing following certain single one two three "
    "multiple several many more other own real up-to-date user-specified live possible relevant desired requested "
    "provided basic simple comprehensive complete full exact entire whole pending delivered random unique me you us "
    "it available top best nearest closest nearby popular upcoming historical additional valid important common key "
    "potential personalized customized resulting corresponding created newly only "
    "them both either also plus just how"
)
LISTS = _set("list lists array collection set series range variety selection catalog catalogue sequence group overview")
VAGUE = _set(
    "information info detail details data record profile metadata result results content output response answer "
    "thing value values properties property characteristics statistics stats insights facts"
)
"""Nouns that only say that there is something to know about another thing."""
ABOUT = _set("information info detail details data record profile metadata")
"""Those of them that stand for the thing itself."""
FACTS = _set("detail details data metadata properties characteristics statistics stats profile record analytics")
"""Nouns for several values at once, each with a name of its own."""
ENTITIES = _set(
    "account activity actor ad agent airport alarm album animal apartment appointment article artist artwork "
    "athlete attraction auction author beach bid book booking branch brand bus campaign campground candidate car "
    "card cart case channel chef church cinema city claim client clinic cluster comment commit company concert "
    "contact contract country coupon course crime cruise customer database deal delivery dentist device doctor "
    "document domain driver drug email employee entry event exam exhibition festival file film flight folder friend "
    "fund game gene grant group guest gym hospital hotel house image instance invoice issue item job journal "
    "landmark lawsuit lawyer lead league lesson listing loan match mechanic medicine meeting member merchant "
    "message mosque movie museum node note notification offer order organization package page painting paper park "
    "passenger patient payment people person pet pharmacy photo place plant player playlist podcast policy post "
    "product professional project protein provider publication puzzle question quiz race recipe reminder "
    "rental repository reservation restaurant review robot room route salon scholarship school sculpture sensor "
    "server service session shipment shop show song station stock store student subscription supplier table task "
    "teacher team theater therapist ticket timer tour tournament tower track train transaction trip tweet "
    "university user vehicle vendor venue video warehouse website worker workout workspace"
)
"""Things that have an id and a name."""
TITLED = _set(
    "movie film show book article song album video podcast game recipe course job post paper publication event "
    "document task issue project lesson exam painting artwork exhibition concert meeting reminder note question "
    "news"
)

NUMBERS = _set(
    "acceleration accuracy altitude amount angle area balance bmi brightness budget calorie calories capacitance "
    "capacity cashflow charge circumference coefficient concentration conductivity consumption correlation cost ctr "
    "debt deduction demand density depth derivative determinant deviation diameter difference discount displacement "
    "distance dose drag duration earnings efficiency elevation emission emissions energy enthalpy entropy expense "
    "expenses exponent factorial fare fee field flux force frequency gain gdp gravity growth heat height humidity "
    "hypotenuse income index inductance inflation intake integral intensity intercept interest irr latitude length "
    "lift likelihood load logarithm longitude loss luminosity magnification magnitude margin mass mean median mode "
    "moment momentum mortgage npv payment percent percentage perimeter permeability ph power precision premium "
    "pressure price probability product productivity profit quotient radius rate ratio recall remainder rent "
    "resistance return revenue roi root salary savings score similarity slope speed strain stress sum tax "
    "temperature thrust tip torque total valuation value variance velocity viscosity voltage volume wage wavelength "
    "weight width work worth yield"
)
WHOLE = _set(
    "age attendance count days factorial followers gcd hours lcm likes minutes population quantity rank ranking "
    "reps seconds steps views visitors votes year"
)
MEASURED = _set(
    "calories emissions expenses savings earnings days hours minutes seconds steps votes views likes followers "
    "taxes costs interest returns gains losses kilometers miles meters"
)
"""Plural words for one number."""
FORMATS: Mapping[str, str] = {
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
FLAGS: Mapping[str, str] = {
    "availability": "available",
    "eligibility": "eligible",
    "validity": "is_valid",
    "existence": "exists",
    "compatibility": "compatible",
    "compliance": "compliant",
    "authenticity": "authentic",
    "spelling": "is_correct",
    "syntax": "is_valid",
}
"""Nouns that are asked for with yes or no."""
WORKS = _set(
    "text story poem essay report summary letter article script lyrics slogan headline caption password key token "
    "string code name username title description plan schedule itinerary recipe menu quote joke speech paragraph "
    "template certificate resume plot synopsis outline color palette layout sequence qr barcode image logo avatar "
    "chart graph diagram map video audio music sound document pdf file presentation page website puzzle crossword "
    "meme icon model cover embedding vector design animation thumbnail preview hash signature pin uuid number id "
    "workout response"
)
"""What can be made out of nothing, and is given back as it is, not by its id."""
FILES = _set(
    "image picture photo logo avatar chart graph diagram map video audio music sound pdf file presentation meme "
    "icon animation thumbnail barcode qr plot visualization recording"
)
_UNCHANGED = _set(
    "news series species data information info details statistics stats analytics lyrics means physics mathematics "
    "economics politics status analysis basis address class process access business bus gas pass compass axis virus "
    "diagnosis thesis hypothesis synopsis emphasis weather traffic advice progress bias gps ios sms sales"
)
_SINGULARS: Mapping[str, str] = {
    "people": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "criteria": "criterion",
    "indices": "index",
    "vertices": "vertex",
    "matrices": "matrix",
    "movies": "movie",
    "series": "series",
    "analyses": "analysis",
    "cookies": "cookie",
    "calories": "calorie",
    "zombies": "zombie",
    "ties": "tie",
    "heroes": "hero",
    "potatoes": "potato",
    "leaves": "leaf",
    "properties": "property",
    "species": "species",
    "courses": "course",
    "houses": "house",
    "cases": "case",
    "databases": "database",
    "purchases": "purchase",
    "expenses": "expense",
    "responses": "response",
    "exercises": "exercise",
    "diseases": "disease",
    "releases": "release",
    "warehouses": "warehouse",
    "nurses": "nurse",
    "licenses": "license",
}


def base_verb(word: str) -> str | None:
    """The verb that a word is a form of; None if it is none that is known."""
    tries = [word]
    if word.endswith("ies"):
        tries.append(word[:-3] + "y")
    if word.endswith("es"):
        tries.append(word[:-2])
    if word.endswith("s") and not word.endswith("ss"):
        tries.append(word[:-1])
    if word.endswith("ing"):
        tries += [word[:-3], word[:-3] + "e", word[:-4]]
    return next((form for form in tries if form in VERBS), None)


def is_plural(word: str) -> bool:
    """True for a noun that stands for several things."""
    if word in _UNCHANGED or len(word) < 4:
        return word in ("ids", "ads", "men", "cds")
    return word in _SINGULARS or (word.endswith("s") and not word.endswith(("ss", "us", "is", "ics")))


def singular(word: str) -> str:
    """A noun as one thing is called."""
    if not is_plural(word):
        return word
    if word in _SINGULARS:
        return _SINGULARS[word]
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "ches", "shes", "zes")) else word[:-1]


def plural(word: str) -> str:
    """A noun as several things are called."""
    if is_plural(word) or word in _UNCHANGED:
        return word
    for several, one in _SINGULARS.items():
        if one == word:
            return several
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "z")) else "s")


def participle(verb: str) -> str:
    """What a thing is after the verb was done to it: encrypt, encrypted."""
    irregular = {"rewrite": "rewritten", "split": "split", "draw": "drawn", "write": "written"}
    if verb in irregular:
        return irregular[verb]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    doubled = verb in ("crop", "trim", "plan", "stop", "drop", "stem", "format")
    return verb + (verb[-1] if doubled else "") + "ed"


def joined(words: Iterable[str], camel: bool) -> str:
    """Words as the name of a property."""
    parts = [re.sub(r"[^0-9a-z]", "", word) for word in words]
    parts = list(dropwhile(lambda part: part[0].isdigit(), (part for part in parts if part)))
    if camel:
        return "".join(part if not place else part.capitalize() for place, part in enumerate(parts))
    return "_".join(parts)
