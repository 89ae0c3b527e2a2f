"""Parse the names and descriptions of values into attribute and owner, by tables of words."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow.sorts import CHANNELS, ROLES, SORT_NAMES, STANDARDS, split_table
from toolyard.words.identifiers import singular, word_set

Phrase = tuple[str, ...]
"""Words of an entity, the head noun last: `("service", "plan")`."""


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

CACHE_SIZE = 65536
"""Size of the caches; a catalog has few distinct names, each occurring many times."""
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
