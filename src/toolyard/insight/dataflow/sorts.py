"""Sorts of values that mean the same for every owner: addresses, places, dates, texts, and the names used for them."""

from __future__ import annotations

import re
from functools import lru_cache

from toolyard.words.identifiers import word_set


def split_table(table: str) -> list[list[str]]:
    """Split a table into its comma-separated rows, and each row into words."""
    return [row.split() for row in table.split(",")]


# Attributes that identify an entity, with weights; a parameter called `channel` or `repo` may ask for any of them.
HANDLES = {"id": 0.9, "name": 0.82, "key": 0.85, "code": 0.85, "arn": 0.82, "slug": 0.85, "login": 0.85, "number": 0.8,
           "symbol": 0.8, "title": 0.75, "email": 0.6, "uuid": 0.85}  # fmt: skip

# Sorts that mean the same for every owner: their names, the weight without an owner, and the factor applied if one of
# the two names states an owner.
SORTS: dict[str, tuple[str, float, float]] = {
    "email": ("email, email address, mail address", 0.95, 0.9),
    "phone": ("phone, phone number, mobile, mobile number, mobile phone, cellphone, cellphone number, cell phone,"
              " sms number, contact number, telephone number, fax number", 0.95, 0.9),
    "url": ("url, website, web site, web address, webpage, page url, permalink", 0.9, 0.7),
    "ip": ("ip, ip address, ipv4, ipv6", 0.9, 0.8),
    "domain": ("domain, domain name", 0.9, 0.8),
    "company": ("company name, business name, firm name, organization name, legal name", 0.9, 0.85),
    "iban": ("iban, iban number", 0.95, 0.95),
    "bic": ("bic, bic code, swift, swift code", 0.95, 0.95),
    "birth": ("date of birth, birth date, birthday, birthdate", 0.95, 0.9),
    "full name": ("full name, display name", 0.85, 0.8),
    "first name": ("first name, given name, forename", 0.9, 0.9),
    "last name": ("last name, family name, surname", 0.9, 0.9),
    "street": ("street, street address, address line, line 1, address 1, address line 1, street 1", 0.9, 0.9),
    "city": ("city, locality, town, city name", 0.95, 0.9),
    "postal": ("postal, postal code", 0.95, 0.9),
    "region": ("province, region, administrative area, state code", 0.8, 0.8),
    "country": ("country, country code, iso country code", 0.9, 0.9),
    "currency": ("currency, currency code", 0.9, 0.85),
    "language": ("language, language code, locale", 0.85, 0.8),
    "time zone": ("time zone", 0.9, 0.9),
    "latitude": ("latitude", 0.95, 0.9),
    "longitude": ("longitude", 0.95, 0.9),
    "location": ("location, place, address, full address, formatted address", 0.8, 0.7),
    "airport": ("airport, airport code, iata, iata code, iata airport code", 0.95, 0.9),
    "symbol": ("symbol, ticker symbol, stock symbol, stock", 0.95, 0.9),
    "subject": ("subject, subject line, headline", 0.75, 0.7),
    "text": ("text, body, html, content, message text, message body, markdown, transcript, plain text, full text",
             0.75, 0.7),
}  # fmt: skip
SORTS |= {
    sort: ("", float(alone), float(owned))
    for sort, alone, owned in split_table("""
    own_email .95 .9, own_phone .95 .9, begin .8 .85, end .8 .85, due .8 .85, departs .8 .85, returns .8 .85, since .8
    .85, until .8 .85, moment .8 .75, query .95 .8""")
}  # fmt: skip
"""Sorts recognised by more than their names."""
SORT_NAMES = {name: sort for sort, (names, *_) in SORTS.items() for name in names.split(", ") if name}
FORMATS = {"email": "email", "idn-email": "email", "uri": "url", "url": "url", "iri": "url", "uri-reference": "url",
           "ipv4": "ip", "ipv6": "ip", "hostname": "domain", "phone": "phone", "phone-number": "phone",
           "e164": "phone"}  # fmt: skip

# Roles of people, who are identified like any user; and further roles, such as where something starts or ends.
PERSONS = word_set("""
    user person assignee author reviewer collaborator maintainer creator approver participant attendee invitee
    recipient sender receiver committer requester reporter guest by login""")
ROLES = PERSONS | word_set("""
    owner contact to from cc bcc origin destination departure arrival source target start end pickup dropoff base
    quote primary secondary main home work default billing shipping mailing current my own new or and""")
# Standards that, mentioned in a description, determine the sort of a value whatever its name.
STANDARDS = {r"e\.?164": "phone", r"iso[- ]?4217": "currency", r"iso[- ]?3166(?!-2)": "country", r"iata\b": "airport",
             r"iso[- ]?639|bcp[- ]?47": "language", r"iana\b": "time zone"}  # fmt: skip
CONTACT_SORTS = word_set("email phone url")
# The sender's address is the caller's own, so another person's address does not fit.
SENDERS = word_set("from sender caller")
OWN_SORTS = {"email": "own_email", "phone": "own_phone"}
SELF_WORDS = word_set("me my self current authenticated whoami")
# Words of a tool that imply the sort of address, where a parameter only names the person.
CHANNELS = {word: sort for sort, *words in split_table("""
    email email e-mail mail, phone sms call dial fax, location direction route travel distance trip ride transit
    """) for word in words}  # fmt: skip
# The ends of a route.
ROUTE_ENDS = word_set("to from origin destination start end pickup dropoff waypoint")
# The sort of the name of such a thing.
NAME_SORTS = {
    **dict.fromkeys(PERSONS - {"by", "login"} | {"contact", "customer", "member", "employee", "lead"}, "full name"),
    **dict.fromkeys(("company", "organization", "business", "employer", "supplier", "vendor"), "company"),
    **dict.fromkeys(("city", "town"), "city"),
}
# Names of search texts.
QUERIES = word_set("q query search term keyword") | frozenset(map(" ".join, split_table(
    "free text, text query, name pattern, search query, search term, search text, search string, search keyword"
)))  # fmt: skip
# Things whose title is not a subject line: that of a name is Mr or Ms, that of a person a job.
TITLED = frozenset(NAME_SORTS) | word_set("name job position profile error failure warning")

# Synonyms: an output called the first may feed an input called the second.
SYNONYMS = {
    (given, asked): float(weight)
    for given, asked, weight in split_table("""
    uuid id 0.9, id uuid 0.75, code id 0.8, number id 0.75, number index 0.85, key id 0.65, arn id 0.75, slug id
    0.75, reference id 0.75, id reference 0.7, id key 0.6, id code 0.7, id number 0.7, id arn 0.6, name path 0.75,
    name title 0.85, title name 0.85, login name 0.9, name login 0.75, email login 0.7, term query 0.85, query term
    0.85, keyword query 0.8, title subject 0.8, subject title 0.8, city location 0.85, location city 0.7, street
    location 0.7, airport location 0.6, price amount 0.7, total amount 0.7, day date 0.8, picture image 0.9, photo
    image 0.9, image photo 0.9, own_phone phone 1, phone own_phone 0.45, own_email email 1, email own_email
    0.45, begin since 0.9, moment since 0.85, end until 0.9, moment until 0.8, begin departs 0.9, end returns 0.9
    """)
}  # fmt: skip


# Names of points in time: which of them fits depends on whether it starts or ends something.
_CLOCK = word_set("date datetime timestamp time at on day")
_SIDES = {sort: frozenset(words) for sort, *words in split_table("""
    due due deadline, departs departure checkin, returns return checkout, begin start begin from since after min gte gt
    earliest, end end until before to max lte lt latest""")}  # fmt: skip
DATES = word_set("date date-time")
AMBIGUOUS_MOMENTS = word_set("to from start end begin after before")
MOMENTS = _CLOCK | AMBIGUOUS_MOMENTS | word_set("since until deadline due checkin checkout in out")
_NO_MOMENT = word_set("expire expires expiry expiration exp birth zone login deleted")
# Modifiers of dates in searches; a creation date is not the start of a thing.
_PAST = word_set("created updated published modified last creation filter utc local")
_DATED = re.compile(r"iso[- ]?8601|rfc[- ]?3339|yyyy-?mm-?dd|\b(?:date|timestamp|epoch)\b")
_EPOCH = re.compile(r"\b(?:timestamp|epoch)\b")


@lru_cache(4096)
def find_moment(words: tuple[str, ...], sure: bool, description: str, plain: bool) -> str:
    """The sort of point in time that these words name, or "". `sure` if the format says it is a date.

    Otherwise numbers (`plain`) and ambiguous words such as `to` must be described as timestamps or dates.
    """
    words = tuple(" ".join(words).replace("check in", "checkin").replace("check out", "checkout").split())
    said = _EPOCH if plain else _DATED if words[-1] in AMBIGUOUS_MOMENTS else None
    if not _NO_MOMENT.isdisjoint(words) or not (sure or said is None or said.search(description.lower())):
        return ""
    sort = next((sort for sort, names in _SIDES.items() if not names.isdisjoint(words)), "")
    if not sort:
        return "moment" if "date" in words and _CLOCK.issuperset(words) else ""
    return sort if (_CLOCK | _PAST | _SIDES[sort]).issuperset(words) else ""
