"""What a value may be: an id, a time, an amount, a place; found by the words of its name and text."""

from __future__ import annotations

from typing import NamedTuple

# What an entity is told by; any of them may be asked for by the name of the entity alone: `channel`, `repo`.
HANDLES = {"id": 0.9, "name": 0.82, "key": 0.85, "code": 0.85, "arn": 0.82, "slug": 0.85, "login": 0.85, "number": 0.8,
           "symbol": 0.8, "title": 0.75, "email": 0.6, "uuid": 0.85}  # fmt: skip

# One thing under two names: an output called the first may be asked for as the second.
SAME = {
    ("uuid", "id"): 0.9,
    ("id", "uuid"): 0.75,
    ("code", "id"): 0.8,
    ("number", "id"): 0.75,
    ("key", "id"): 0.75,
    ("arn", "id"): 0.75,
    ("slug", "id"): 0.75,
    ("reference", "id"): 0.75,
    ("id", "reference"): 0.7,
    ("id", "key"): 0.75,
    ("id", "code"): 0.7,
    ("id", "number"): 0.7,
    ("id", "arn"): 0.6,
    ("name", "title"): 0.85,
    ("title", "name"): 0.85,
    ("login", "name"): 0.9,
    ("name", "login"): 0.75,
    ("email", "login"): 0.6,
    ("term", "query"): 0.85,
    ("query", "term"): 0.85,
    ("keyword", "query"): 0.8,
    ("text", "content"): 0.75,
    ("content", "text"): 0.75,
    ("url", "link"): 0.9,
    ("city", "location"): 0.85,
    ("address", "location"): 0.8,
    ("place", "location"): 0.9,
    ("location", "place"): 0.85,
    ("location", "address"): 0.7,
    ("location", "city"): 0.7,
    ("price", "amount"): 0.7,
    ("total", "amount"): 0.7,
    ("day", "date"): 0.8,
    ("stock", "symbol"): 0.85,
    ("symbol", "stock"): 0.85,
    ("picture", "image"): 0.9,
    ("photo", "image"): 0.9,
    ("image", "photo"): 0.9,
    ("organism", "species"): 0.8,
}

# Names that many unrelated things have: they count only where whose they are agrees as well.
GENERIC = frozenset(
    """id uuid token login key code number name title type kind status state description message value date time url
    reason content data result count total unit version label amount price size level rate score index path note
    comment reference detail information list item response body text duration format mode color distance weight
    height length width age year month day percent rating quantity start end begin method priority summary
    subject details option setting parameter configuration metadata mask scope range cost phone email address
    gender temperature arn slug create created update updated modify modified delete deleted""".split()  # noqa: SIM905
)

# Of those: what tells an entity, and so is worth handing on.
IDENTITY = frozenset(
    ("id", "uuid", "key", "code", "number", "name", "arn", "slug", "reference", "email", "phone", "title")
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
    message collection page details detail info information success""".split()  # noqa: SIM905
)

VERBS = frozenset(
    """get fetch read show find retrieve lookup create add make register insert put update patch edit modify replace
    upsert delete remove destroy cancel revoke archive all one by for describe download upload execute bulk send
    submit compute calculate estimate generate resolve using v beta alpha rest admin do single multiple
    available current and or from to of in on at with the a an id is latest public private me my authenticated
    collection invoke trigger verify validate complete enable disable handle determine analyze analyse reserve
    assign convert""".split()  # noqa: SIM905
)

# Verbs as the first word of a name; anywhere else a thing: `set_timer`, `get_set`.
VERBS_FIRST = frozenset(
    """set list count book check place run schedule track request import export search query batch look view change new
    open close start stop join leave post order contact monitor""".split()  # noqa: SIM905
)
VERBS_LAST = frozenset(("list", "search", "count", "query"))

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
    desired final initial public private additional base raw long local html avatar is has can self common
    formatted human readable localized""".split()  # noqa: SIM905
)
PREPOSITIONS = frozenset(
    ("at", "on", "by", "in", "to", "from", "for", "until", "since", "of", "after", "before", "ago")
)

# Containers that wrap in one place and are the thing itself in another.
WEAK_WRAPPERS = frozenset(("resource", "message", "node", "content", "page", "collection", "value", "object", "item"))
LISTS = frozenset(("list", "array", "collection", "history", "set"))

# Identifiers that somebody gave: they mean nothing to anybody else.
SCOPED = IDENTITY - {"email", "phone", "name", "title"}

# What is made by one tool to be worked on by another.
CONTENT = frozenset(("text", "content"))
# At the end of a tool's name they say how much is told, not of what.
SUFFIXES = frozenset(("information", "detail", "data", "list", "status", "result", "summary", "history", "info"))


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

NOBODY: Phrase = ()
"""The owner of what is the same whosoever it is."""
_KNOWN_ALONE = CONTENT | {"uuid"}
ALONE = _KNOWN_ALONE | {"login"}
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
    scoped: bool
    """Whether it means something only where it comes from: an id, but not a city."""


def add_claim(claims: list[Claim], attribute: str, own: Phrase, generic: bool, owners: Owners, role: int) -> None:
    """Add what a value says to be. `own` is whose it is by its name; `owners`, if any, by all that says so."""
    output = role & OUTPUT
    named = attribute if output else _LIKE.get(attribute, attribute)
    if generic or own:
        scale = 0.9 if attribute in STATE else 1.0
        if owners:
            for owner, weight in owners:
                claims.append((named, owner, weight * scale))
        elif own:
            claims.append((named, own, scale))
    if not generic:
        claims.append((named, NOBODY, 0.95 if not own else 0.7))
        if role & HANDLE:
            words = (*own, attribute)
            claims.append((HANDED if output else _ASKED, words, 1.0))
            if not output and attribute in HANDLES:
                claims.append((named, words, HANDLES[attribute]))
        if output and not own:
            for owner, weight in owners:
                claims.append((attribute, owner, 0.9 * weight))
    elif attribute in _KNOWN_ALONE:
        # An identifier that is good whatever it identifies; a text is a text.
        claims.append((named, NOBODY, 0.8))
    if attribute == "login":
        claims.append((named, ("user",), 0.92))


def members_of(name: str) -> list[Member]:
    """The attributes that a claim is about; most are about one."""
    return _GROUPS.get(name) or [(name, 1.0, 1.0)]


def parts_of(owner: Phrase) -> list[str]:
    """`service plan`, `plan` and `serviceplan`."""
    if len(owner) < 2:
        return [owner[0] if owner else ""]
    return [" ".join(owner), *[" ".join(owner[cut:]) for cut in range(1, min(len(owner), 4))], "".join(owner)]


SHARES = ((1.0,), (1.0,), (1.0, 0.85, 0.95), (1.0, 0.85, 0.75, 0.95), (1.0, 0.85, 0.75, 0.75, 0.95))
"""What each part counts for, by the number of words; the last for all that are longer."""


def shares_of(owner: Phrase) -> tuple[float, ...]:
    """What each of the parts of an owner counts for."""
    return SHARES[min(len(owner), len(SHARES) - 1)]


def counted_out(claims: list[Claim]) -> dict[str, float]:
    """The facets that claims stand for, of one value; where there are many, `tables` does the same with arrays."""
    facets: dict[str, float] = {}
    for name, owner, weight in claims:
        for attribute, share, rest in members_of(name):
            for phrase, part in zip(parts_of(owner), shares_of(owner), strict=True):
                key = f"{attribute} of {phrase}" if phrase else attribute
                facets[key] = max(facets.get(key, 0.0), weight * share * part * rest)
    return facets
