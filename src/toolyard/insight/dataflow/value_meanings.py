"""What a value may be: an id, a time, an amount, a place; found by the words of its name and text."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


def rows_of(table: str) -> list[list[str]]:
    """The words of each row of a table, whose rows end with commas."""
    return [row.split() for row in table.split(",")]


# What an entity is told by; any of them may be asked for by the name of the entity alone: `channel`, `repo`.
HANDLES = {"id": 0.9, "name": 0.82, "key": 0.85, "code": 0.85, "arn": 0.82, "slug": 0.85, "login": 0.85, "number": 0.8,
           "symbol": 0.8, "title": 0.75, "email": 0.6, "uuid": 0.85}  # fmt: skip

# What means the same to everybody, whosever it is: the names it goes by, what it counts for where nothing says whose it
# is, and what that comes to where one of the two names says whose.
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
    "subject": ("subject, subject line, headline", 0.8, 0.7),
    "text": ("text, body, html, content, message text, message body", 0.8, 0.7),
}  # fmt: skip
SORT_NAMES = {name: sort for sort, (names, *_) in SORTS.items() for name in names.split(", ")}
FORMATS = {"email": "email", "idn-email": "email", "uri": "url", "url": "url", "iri": "url", "uri-reference": "url",
           "ipv4": "ip", "ipv6": "ip", "hostname": "domain", "phone": "phone", "phone-number": "phone",
           "e164": "phone"}  # fmt: skip

# Who takes part: one person or another, so that what tells a user tells them, and where something begins or ends.
PERSONS = frozenset(
    """user person assignee author reviewer collaborator maintainer creator approver participant attendee invitee
    recipient sender receiver committer requester reporter guest by login""".split()  # noqa: SIM905
)
ROLES = PERSONS | frozenset(
    """owner contact to from cc bcc origin destination departure arrival source target start end pickup dropoff base
    quote primary secondary main home work default billing shipping mailing current my own new or and""".split()  # noqa: SIM905
)
# Written in a description they say of which sort a value is, whatever it is called.
STANDARDS = {r"e\.?164": "phone", r"iso[- ]?4217": "currency", r"iso[- ]?3166(?!-2)": "country", r"iata\b": "airport",
             r"iso[- ]?639|bcp[- ]?47": "language", r"iana\b": "time zone"}  # fmt: skip
# What a tool reaches people by, where a parameter only says whom.
CHANNELS = {
    "email": "email",
    "e-mail": "email",
    "mail": "email",
    "sms": "phone",
    "call": "phone",
    "dial": "phone",
    "fax": "phone",
}

# One thing under two names: an output called the first may be asked for as the second.
SAME = {
    (given, asked): float(weight)
    for given, asked, weight in rows_of("""
    uuid id 0.9, id uuid 0.75, code id 0.8, number id 0.75, number index 0.85, key id 0.65, arn id 0.75, slug id
    0.75, reference id 0.75, id reference 0.7, id key 0.6, id code 0.7, id number 0.7, id arn 0.6, name path 0.75,
    name title 0.85, title name 0.85, login name 0.9, name login 0.75, email login 0.7, term query 0.85, query term
    0.85, keyword query 0.8, title subject 0.8, subject title 0.8, city location 0.85, location city 0.7, street
    location 0.7, airport location 0.6, price amount 0.7, total amount 0.7, day date 0.8, picture image 0.9, photo
    image 0.9, image photo 0.9
    """)
}  # fmt: skip

# Names that many unrelated things have: they count only where whose they are agrees as well.
GENERIC = frozenset(
    """id uuid token login key code number name title type kind status state description message value date time url
    reason content data result count total unit version label amount price size level rate score index path note
    comment reference detail information list item response body text duration format mode color distance weight
    height length width age year month day percent rating quantity start end begin method priority summary
    subject details option setting parameter configuration metadata mask scope range cost
    gender sha temperature arn slug create created update updated modify modified delete deleted""".split()  # noqa: SIM905
)

# Of those: what tells an entity, and so is worth handing on.
IDENTITY = frozenset(
    ("id", "uuid", "key", "code", "number", "name", "arn", "slug", "reference", "title", "login", "index", "sha")
)

# Of those: what is told of something, and is seldom what another call asks for.
STATE = frozenset(
    """type kind status state description message unit count total result reason version label level rate score created
    updated modified deleted create update modify delete note comment summary details detail information success
    ok error duration format mode object response color age weight height size percent rating quantity optional
    federal enabled active scope priority metadata""".split()  # noqa: SIM905
)

# How to page, sort and sign: never fed by another tool's answer.
CONTROL = frozenset(
    """limit page offset per_page page_size page_number page_token next_page_token next_token cursor next_cursor sort
    sort_by order_by sort_order sort_direction direction max_result max_item start_index field fields expand
    pretty pretty_print verbose dry_run callback alt quota_user upload_protocol upload_type locale
    accept_language accept user_agent idempotency_key if_match if_none_match if_modified_since include_detail
    api_key apikey authorization oauth_token xgafv raw continue marker next_marker has_more total_count ok
    success token_type status_code http_status x_amz_date x_amz_algorithm x_amz_credential x_amz_security_token
    x_amz_signature x_amz_signed_header x_amz_content_sha x_amz_content_sha_256 x_amz_target execute_time
    box_version x_tenant_id client_token update_mask rel etag""".split()  # noqa: SIM905
)

# Containers that only wrap what matters.
WRAPPERS = frozenset(
    """url data result results response payload body item items list entry entries record records object attribute
    attributes value values content embedded output answer node edge edges meta metadata resource resources
    message page details detail info information success""".split()  # noqa: SIM905
)

VERBS = frozenset(
    """get fetch read show find retrieve lookup create add make register insert put update patch edit modify replace
    upsert delete remove destroy cancel revoke all one by for describe download upload execute bulk send
    submit compute calculate estimate generate resolve using v beta alpha rest admin do single multiple
    available current and or from to of in on at with the a an id is latest public private me my authenticated
    invoke trigger verify validate complete enable disable handle determine analyze analyse reserve
    assign convert""".split()  # noqa: SIM905
)

# Verbs as the first word of a name; anywhere else a thing: `set_timer`, `get_set`.
VERBS_FIRST = frozenset(
    """set list count book check place run schedule track request import export search query batch look view change new
    open close start stop join leave post order contact monitor archive""".split()  # noqa: SIM905
)
VERBS_LAST = frozenset(("list", "search", "count", "query"))

MAKING = frozenset(("create", "post", "register", "insert", "make", "new"))
GONE = frozenset(("delete", "remove", "destroy", "drop", "erase", "purge"))
STOPS = frozenset(("by", "for", "from", "of", "in", "on", "with", "using", "to", "via", "at", "and", "or"))

EMPTY_NOUNS = frozenset(
    """resource object record item entity thing element entry specified given requested one value field property data
    result this that these it its your their user's api request response unique global created new target
    existing associated specific particular single certain individual selected desired current""".split()  # noqa: SIM905
)

# Words that tell one date or name of a thing from another, and not one thing from another.
ADJECTIVES = frozenset(
    """friendly display full short unique start end begin last first given family middle nick new old total max maximum
    min minimum original default primary secondary external internal created updated modified deleted creation
    modification publish published release due expiry expiration expire expires valid effective close closed
    open opened signed started finished completed submitted next previous current preferred estimated expected
    desired final initial public private additional base raw long local is has can self common formatted human
    readable localized""".split()  # noqa: SIM905
)
PREPOSITIONS = frozenset(
    ("at", "on", "by", "in", "to", "from", "for", "until", "since", "of", "after", "before", "ago")
)

# Containers that wrap in one place and are the thing itself in another.
WEAK_WRAPPERS = frozenset(("resource", "message", "node", "content", "page", "collection", "value", "object", "item"))
LISTS = frozenset(("list", "array", "collection", "history", "set"))

# Identifiers that somebody gave: they mean nothing to anybody else.
SCOPED = IDENTITY - {"name", "title"}

# At the end of a tool's name they say how much is told, not of what.
SUFFIXES = frozenset(("information", "detail", "data", "list", "status", "result", "summary", "history", "info"))
# At the end of a container's name they say that it is one of several.
ONES = frozenset(
    ("entry", "item", "record", "object", "element", "result", "response", "information", "detail", "data")
)


Phrase = tuple[str, ...]
"""Words of an entity, the one that counts last: `("service", "plan")`."""
Owners = tuple[tuple[Phrase, float], ...]
"""Whose a value may be, and how much each counts."""
Claim = tuple[str, Phrase, float]
"""What it is (an attribute, or the name of a group of them), whose, and its weight."""
Member = tuple[str, float, float]
"""An attribute of a group; its weight, and what the whole counts for then."""

OUTPUT, HANDLE = 1, 2
"""What is known of a value besides its name: that it is given, and that it may stand for an entity by its name alone.
"""

_USER: Phrase = ("user",)
NOBODY: Phrase = ()
"""The owner of what is the same whosoever it is."""
ALONE = frozenset(("uuid", "login"))
"""Names that say enough without an owner, though many things have them."""

# Names of groups begin with a space, which no attribute does.
_ASKED = " a handle"
HANDED = " id or name"
_LIKE: dict[str, str] = {}
"""For attributes of inputs that others will do for, the group of all."""
_GROUPS: dict[str, list[Member]] = {
    _ASKED: [(handle, weight, 1.0) for handle, weight in HANDLES.items()],
    HANDED: [("id", 0.75, 1.0), ("name", 0.6, 1.0)],
}
for (_first, _second), _weight in SAME.items():
    _LIKE[_second] = f" like {_second}"
    _GROUPS.setdefault(_LIKE[_second], [(_second, 1.0, 1.0)]).append((_first, 1.0, _weight))


class Facets(NamedTuple):
    """What a value is and whose, each with a weight."""

    keys: tuple[str, ...]
    weights: tuple[float, ...]
    scoped: float
    """How far it means something only where it comes from: an id does, a city does not."""


@lru_cache(65536)
def facets_of(attribute: str, own: Phrase, generic: bool, owners: Owners, role: int) -> Facets:
    """What a value is and whose. `own` is whose it is by its name; `owners`, if any, by all that says so."""
    facets: dict[str, float] = {}
    output = role & OUTPUT
    for name, owner, weight in _list_claims(attribute, own, generic, owners, role):
        parts = parts_of(owner, output)
        for member, share, rest in _GROUPS.get(name) or [(name, 1.0, 1.0)]:
            for phrase, part in parts:
                key = f"{member} of {phrase}" if phrase else member
                facets[key] = max(facets.get(key, 0.0), weight * share * part * rest)
    scoped = 0.0 if attribute in SORTS else 1.0 if attribute in SCOPED else 0.5
    return Facets(tuple(facets), tuple(facets.values()), scoped)


def _list_claims(attribute: str, own: Phrase, generic: bool, owners: Owners, role: int) -> list[Claim]:
    claims: list[Claim] = []
    output = role & OUTPUT
    named = attribute if output else _LIKE.get(attribute, attribute)
    if attribute in SORTS:
        _, alone, owned = SORTS[attribute]
        claims.append((named, NOBODY, (alone if output else 1.0) * (owned if own else 1.0)))
    if generic or own:
        scale = 0.9 if attribute in STATE else 1.0
        for owner, weight in owners or ((own, 1.0),) if own or owners else ():
            claims.append((named, owner, weight * scale))
            if owner[-1] in PERSONS:
                claims.append((named, _USER, 0.88 * weight * scale))
    if not generic:
        claims.append((named, NOBODY, 0.95 if not own else 0.7))
        if role & HANDLE:
            handle, words = HANDED if output else _ASKED, (*own, attribute)
            claims.append((handle, words, 1.0))
            if attribute in PERSONS:
                claims.append((handle, _USER, 1.0))
            if not output and attribute in HANDLES:
                claims.append((named, words, HANDLES[attribute]))
        if output and not own:
            claims += [(attribute, owner, 0.9 * weight) for owner, weight in owners]
    elif attribute == "uuid":
        # Good whatever it identifies.
        claims.append((named, NOBODY, 0.8))
    if attribute == "login":
        claims.append((named, _USER, 0.92))
    return claims


def parts_of(owner: Phrase, output: int) -> list[tuple[str, float]]:
    """The names an owner goes by: `service plan` and `serviceplan`, and, as one of several kinds of plan, `plan`.

    Where both are of some kind, the kinds must agree. So what is given as `service plan` is also given as `plan`, and
    what is asked for as `service plan` is also asked for as `a plan`, which only what is given as `plan` is called.
    """
    if not owner:
        return [("", 1.0)]
    whole = " ".join(owner)
    found = [(whole, 1.0)]
    if output:
        found.append((f"a {whole}", 1.0))
    if len(owner) > 1:
        found.append(("".join(owner), 0.95))
        for cut in range(1, min(len(owner), 4)):
            tail = " ".join(owner[cut:])
            found.append((tail if output else f"a {tail}", SHARES[cut - 1]))
    return found


SHARES = (0.9, 0.8, 0.8)
"""What a name counts for that leaves out so many of the words before it."""
