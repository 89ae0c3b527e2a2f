"""Parse the names and descriptions of values into attribute and owner, by tables of words.

Sorts of values mean the same for every owner: addresses, places, dates, texts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from toolyard.words.identifiers import singular, word_set

Phrase = tuple[str, ...]
"""Words of an entity, the head noun last: `("service", "plan")`."""

CACHE_SIZE = 65536
"""Size of the caches; a catalog has few distinct names, each occurring many times."""


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
    begin .8 .85, end .8 .85, due .8 .85, departs .8 .85, returns .8 .85, since .8
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
    image 0.9, image photo 0.9, begin since 0.9, moment since 0.85, end until 0.9, moment until 0.8, begin departs
    0.9, end returns 0.9
    """)
}  # fmt: skip

# Names that many unrelated things have: they match only if the owners match as well.
GENERIC = word_set("""
    id uuid token login key code number name title type kind status state description message value date time url
    reason content data result count total unit version label amount price size level rate score index path note
    comment reference detail information list item response body text duration format mode color distance weight
    height length width age year month day percent rating quantity start end begin method priority summary
    subject details option setting parameter configuration metadata mask scope range cost
    gender sha temperature arn slug create created update updated modify modified delete deleted""")

# The generic names that identify an entity, and so are worth passing on.
IDENTITY = word_set("id uuid key code number name arn slug reference title login index sha")

# The generic names that describe a thing, and are seldom what another call needs.
STATE = word_set("""
    type kind status state description message unit count total result reason version label level rate score created
    updated modified deleted create update modify delete note comment summary details detail information success
    ok error duration format mode object response color age weight height size percent rating quantity optional
    federal enabled active scope priority metadata""")

# Parameters for paging, sorting, signing and the like: never fed by another tool's result.
CONTROL = word_set("""
    limit page offset per_page page_size page_number page_token next_page_token next_token cursor next_cursor sort
    sort_by order_by sort_order sort_direction direction max_result max_item start_index field fields expand
    pretty pretty_print verbose dry_run callback alt quota_user upload_protocol upload_type locale
    accept_language accept user_agent idempotency_key if_match if_none_match if_modified_since include_detail
    api_key apikey authorization oauth_token xgafv raw continue marker next_marker has_more total_count ok
    success token_type status_code http_status x_amz_date x_amz_algorithm x_amz_credential x_amz_security_token
    x_amz_signature x_amz_signed_header x_amz_content_sha x_amz_content_sha_256 x_amz_target execute_time
    box_version x_tenant_id client_token update_mask rel etag""")

# Containers that are only wrappers.
WRAPPERS = word_set("""
    url data result results response payload body item items list entry entries record records object attribute
    attributes value values content embedded output answer node edge edges meta metadata resource resources
    message page details detail info information success""")

VERBS = word_set("""
    get fetch read show find retrieve lookup create add make register insert put update patch edit modify replace
    upsert delete remove destroy cancel revoke all one by for describe download upload execute bulk send
    submit compute calculate estimate generate resolve using v beta alpha rest admin do single multiple
    available current and or from to of in on at with the a an id is latest public private me my authenticated
    invoke trigger verify validate complete enable disable handle determine analyze analyse reserve
    assign convert""")

# Verbs as the first word of a name, nouns anywhere else: `set_timer`, `get_set`.
VERBS_FIRST = word_set("""
    set list count book check place run schedule track request import export search query batch look view change new
    open close start stop join leave post order contact monitor archive""")
VERBS_LAST = word_set("list search count query")

CREATE_VERBS = word_set("create post register insert make new")
READ_VERBS = word_set("get list search find fetch query read retrieve lookup show filter")
DELETE_VERBS = word_set("delete remove destroy drop erase purge")
STOPS = word_set("by for from of in on with using to via at and or")

EMPTY_NOUNS = word_set("""
    resource object record item entity thing element entry specified given requested one value field property data
    result this that these it its your their user's api request response unique global created new target
    existing associated specific particular single certain individual selected desired current""")

# Words that distinguish the dates or names of one thing, not one thing from another.
ADJECTIVES = word_set("""
    friendly display full short unique start end begin last first given family middle nick new old total max maximum
    min minimum original default primary secondary external internal created updated modified deleted creation
    modification publish published release due expiry expiration expire expires valid effective close closed
    open opened signed started finished completed submitted next previous current preferred estimated expected
    desired final initial public private additional base raw long local is has can self common formatted human
    readable localized""")
PREPOSITIONS = word_set("at on by in to from for until since of after before ago")

# Containers that are wrappers in one place and the thing itself in another.
WEAK_WRAPPERS = word_set("resource message node content page collection value object item")
LIST_SUFFIXES = word_set("list array collection history set")

# Identifiers that are meaningful only to the service that issued them.
SCOPED = IDENTITY - {"name", "title"}

# At the end of a tool's name they describe the form of the result, not its subject.
RESULT_SUFFIXES = word_set("information detail data list status result summary history info")
# At the end of a container's name they mark one item of several.
ITEM_SUFFIXES = word_set("entry item record object element result response information detail data")

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_a-zA-Z]+")
_IDS = re.compile("IDS(?![a-z])|ID")

_EXPANSIONS = {
    short: tuple(words)
    for short, *words in split_table("""
    acct account, addr address, amt amount, app application, cat category, ccy currency, cell phone, cfg
    configuration, conf configuration, config configuration, dept department, desc description, dest destination,
    dir directory, doc document, env environment, filename file name, filepath file path, firstname first name,
    fullname full name, guid uuid, hostname host name, href url, identifier id, ids id, img image, info
    information, lang language, lastname last name, lat latitude, link url, lng longitude, loc location, lon
    longitude, mail email, msg message, msisdn phone, nickname nick name, num number, oid id, org organization,
    organisation organization, param parameter, pct percent, percentage percent, phonenumber phone number, pic
    picture, pk id, pkg package, postcode postal code, prod product, qty quantity, ref reference, repo repository,
    sid id, src source, tel phone, telephone phone, temp temperature, ticker symbol, timezone time zone, txn
    transaction, tz time zone, uid id, uri url, userid user id, username user login, val value, ver version, vol
    volume, website url, zip postal, zipcode postal code
    """)
}  # fmt: skip
"""Abbreviations and other spellings, with their expansions."""


@lru_cache(CACHE_SIZE)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a name: lower case, singular, abbreviations expanded. Cached."""
    return tuple(text_words(name))


def text_words(text: str) -> list[str]:
    """`name_words` without the cache, for texts."""
    found: list[str] = []
    if "ID" in text:
        text = _IDS.sub(lambda found: found[0].capitalize(), text)
    for part in _PARTS.findall(text):
        found += _expand_word(part)
    return found


@lru_cache(CACHE_SIZE)
def _expand_word(part: str) -> tuple[str, ...]:
    word = part.lower()
    if word in _EXPANSIONS:
        return _EXPANSIONS[word]
    if word[-1] != "s":
        return (word,)
    single = singular(word)
    return _EXPANSIONS.get(single, (single,))


class Name(NamedTuple):
    """What the name of a value says."""

    name_text: str
    single_word: bool
    """Whether it is a single word."""
    attribute: str
    owner: Phrase
    generic: bool
    state: bool
    identifies: bool
    """Whether it identifies an entity, whose owner a description may name."""
    item_words: Phrase
    """The words before a list suffix: `tag` for `tag_list`."""
    plain: bool = True
    """Whether it has no further qualifiers, as `old_name` has."""


@lru_cache(CACHE_SIZE)
def read_name(name: str) -> Name | None:
    """Parse the name of a value; None for values that no other tool's result can feed."""
    words = tuple(text_words(name))
    name_text = " ".join(words)
    return None if name[:2] in _HEADERS or name_text in _CONTROL else read_words(words, name_text)


_HEADERS = ("x-", "X-")
_CONTROL = frozenset(name.replace("_", " ") for name in CONTROL)


def read_words(words: Phrase, name_text: str = "") -> Name | None:
    """Parse the words of a name; None if there are none."""
    if words and (words[0] == "filter" or words[-1] in COMPARISONS):
        words, name_text = words[words[0] == "filter" : len(words) - (words[-1] in COMPARISONS)], ""
    if not words:
        return None
    sort, owner = find_sort(words)
    if sort:
        return Name(name_text or " ".join(words), len(words) == 1, sort, owner, True, False, False, ())
    *before, last = words
    state = last in STATE
    if not before:
        return Name(last, True, last, (), state or last in GENERIC, state, last in IDENTITY, ())
    if words[0] == "number" and last not in IDENTITY:
        attribute, owner, generic = "count", tuple(word for word in words[1:] if word != "of"), True
    else:
        cut = end = len(before)
        if last in PREPOSITIONS:
            cut -= 1
        while cut and before[cut - 1] in ADJECTIVES:
            cut -= 1
        owner = words[:cut]
        while owner and owner[0] in ADJECTIVES:
            owner = owner[1:]
        # Qualifiers of generic names matter (start and end dates differ); others do not (the first branch is a branch).
        is_qualified = cut < end and (state or last in GENERIC or last in PREPOSITIONS) and last != "by"
        attribute = "_".join(words[cut:]) if is_qualified else last
        generic = state or is_qualified or last in GENERIC
    item_words = words[:-1] if last in LIST_SUFFIXES else ()
    name_text, identifies = name_text or " ".join(words), attribute in IDENTITY
    return Name(
        name_text,
        False,
        attribute,
        owner,
        generic,
        state,
        identifies,
        item_words,
        len(owner) + 1 == len(words),
    )


COMPARISONS = word_set("gte lte gt lt eq ge le")


def find_sort(words: Phrase) -> tuple[str, Phrase]:
    """The sort of value that a name ends with, and its owner; "" and no owner if it is none."""
    for size in (3, 2, 1):
        sort = SORT_NAMES.get(" ".join(words[-size:])) if len(words) >= size else None
        if sort is not None:
            owner = words[:-size]
            return sort, () if owner and owner[-1] in ROLES else owner
    return "", ()


def read_nouns(name: str) -> list[Phrase]:
    """A tool's nouns: `list_team_members` -> `[team member]`, `get-accounts-id-limits` -> `[account, limit]`."""
    nouns: list[Phrase] = []
    part: list[str] = []
    words = name_words(name)
    # `issueListLabels`: the owner may precede the verb.
    first = 0 if words[:1] and (words[0] in VERBS or words[0] in VERBS_FIRST) else 1
    for at, word in enumerate((*words, "id")):
        verb = word in VERBS or (at == first and word in VERBS_FIRST) or (at == len(words) - 1 and word in VERBS_LAST)
        if verb or word.isdigit():
            if len(part) > 1 and part[-1] in RESULT_SUFFIXES:
                part.pop()
            if part:
                nouns.append(tuple(part))
                part = []
            if word in STOPS and nouns:
                break
        else:
            part.append(word)
    return nouns


_WHAT = "|".join(sorted((*SORT_NAMES, *IDENTITY, "identifier", "username", "user name"), key=len, reverse=True))
_HEAD = re.compile(
    r"(?:(?:an?|the|one|list|array|set|comma[- ]separated|of|unique|optional|required|valid|your|new|specif(?:y|ies)|"
    r"filters?|by|its)\s+)*"
    rf"((?:[a-z][\w-]*\s+){{0,3}}?)({_WHAT})(?:e?s|\(e?s\))?"
    r"(?=\s*(?:$|[.,;:()\[\]\"`/-]|(?:of|for|to|that|which|in|from|is|are|or|and|where|used|associated|assigned|by|"
    r"with|on|as|you|this|must|should|whose|who|will|can)\b))"
    r"(?:\s*\([^)]*\))?(?:\s+(?:of|for)\s+(?:(?:the|a|an|this|your|each|all|any)\s+)?([a-z][\w' -]{2,60}))?"
)


_STANDARD = re.compile("|".join(f"({pattern})" for pattern in STANDARDS))


@lru_cache(CACHE_SIZE // 4)
def read_head(description: str) -> tuple[str, Phrase]:
    """What the beginning of a description calls a value, and its owner.

    `Email address of the recipient` is an `email` of a `recipient`.
    """
    lower = description.lower()
    match = _HEAD.match(lower)
    standard = _STANDARD.search(lower)
    if standard is not None:
        return list(STANDARDS.values())[(standard.lastindex or 1) - 1], ()
    if match is None:
        return "", ()
    before, what, after = match.groups()
    words = name_words(what)
    whose = _read_noun_phrase(_cut_phrase(after)) if after else _read_noun_phrase(before)
    return find_sort(words)[0] or words[-1], whose


_CHANNEL = re.compile(rf"\b({'|'.join(CHANNELS)})s?\b")


def find_channel(text: str) -> str:
    """The sort of address (email, phone, location) that a text names; "" if none."""
    match = _CHANNEL.search(text.lower())
    return CHANNELS[match[1]] if match else ""


_OWNER = re.compile(
    r"\b(?:id|identifier|uuid|uid|sid|name|title|key|code|number|arn|slug|primary key|abbreviation|index|symbol|sha|"
    r"login|reference)s?\b"
    r"(?:\s*\((?:[^)]*)\))?\s+(?:of|for|that identifies|identifying|that describes|assigned to)\s+"
    r"(?:(?:the|a|an|this|your|each|all|any)\s+)?([a-z][\w' -]{2,60})"
)
_IDENTIFIES = re.compile(r"\bidentif(?:ies|y|ying)\s+(?:the|a|an|this)\s+([a-z][\w' -]{2,60})")
# All patterns are for lower-case texts, which are searched in half the time.
_WORD = re.compile(r"\w+|[.,;:()\[\]]")
_PHRASE_ENDS = word_set("""
    to that which for in of on from is are was will you whose where when with being used this as by or and if
    associated created specified returned the can must should has have . , ; : ( ) [ ]""")


@lru_cache(CACHE_SIZE // 4)
def find_owner(description: str) -> Phrase:
    """The owner that a description names, as in `The unique identifier of the balance account`."""
    lower = description.lower()
    if len(lower) != len(description):
        # A character that is longer in lower case.
        description = lower
    match = _OWNER.search(lower) or _IDENTIFIES.search(lower)
    return _read_noun_phrase(_cut_phrase(description[slice(*match.span(1))])) if match else read_head(description)[1]


def _cut_phrase(text: str) -> str:
    """The text before the first word or sign that ends a phrase."""
    for word in _WORD.finditer(text):
        if word[0].lower() in _PHRASE_ENDS:
            return text[: word.start()]
    return text


_BEFORE_NOUNS = EMPTY_NOUNS | VERBS


def _read_noun_phrase(text: str) -> Phrase:
    words = tuple(text_words(text))
    while words and words[0] in _BEFORE_NOUNS:
        words = words[1:]
    return words[-3:] if words and words[-1] not in EMPTY_NOUNS else ()
