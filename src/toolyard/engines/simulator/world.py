"""`World`: one call to a tool that deals with things a session remembers."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from toolyard.engines.simulator.draw import Draw, encode, plain_letters
from toolyard.engines.simulator.leaves import Make
from toolyard.engines.simulator.listing import FIRST, Listing
from toolyard.engines.simulator.objects import COMMON
from toolyard.engines.simulator.places import Place
from toolyard.engines.simulator.profile import Profile
from toolyard.engines.simulator.roles import own_names, singular
from toolyard.engines.simulator.things import Fields, Things
from toolyard.model.errors import ToolFailed
from toolyard.model.json_words import copied

_COUNTED = ("id", "number")
_MADE = ("created", "createdcount", "inserted", "insertedcount", "added", "count", "total", "totalcount", "processed")
"""What an answer calls the number of things that were made."""
_WELL = {"ok": True, "success": True, "successful": True}
"""What an answer says of itself when a call went well."""


class World:
    """What a session knows, as one call sees and changes it."""

    def __init__(self, profile: Profile, seed: int | str, state: MutableMapping[str, Any]) -> None:
        self.profile = profile
        self._seed = seed
        self._state = state

    def answer(self, arguments: dict[str, Any]) -> Any:
        """The call's value, what it does to the things kept in the session done."""
        role = self.profile.role
        scope = [arguments.get(name) for name in role.scope]
        kind = f"{role.kind} {encode(scope).decode()}" if scope else role.kind
        self.things = Things(self._state, kind)
        self.where = encode([self._seed, kind])
        own = own_names(role.noun)
        self._whose = {
            plain_letters(name): arguments[name]
            for name in role.scope
            if name in arguments and plain_letters(name) not in COMMON and plain_letters(name) not in own
        }
        if role.verb == "create":
            return self._create(arguments)
        if role.verb == "list":
            return self._list(arguments)
        if role.verb == "none" or (role.key is None and not role.single):
            return self._other(arguments)
        if role.single and role.verb == "get" and set(arguments) - set(role.scope):
            return self._other(arguments)
        return self._one(arguments)

    def _one(self, arguments: dict[str, Any]) -> Any:
        """Show, change or remove the one that is asked for."""
        role, things, sent = self.profile.role, self.things, self.profile.sent(arguments)
        key = None if role.key is None else arguments.get(role.key)
        called, fields = ({"@": "it"}, ("",)) if key is None else ({str(role.key): key}, role.fields)
        number = things.find("it" if key is None else key, fields)
        gone = number is None and things.is_gone("it" if key is None else key, fields)
        if gone and role.verb != "replace":
            raise ToolFailed(
                f"there is no {role.noun or 'such thing'}{'' if key is None else f' {key!r}'}: it was deleted",
                hint="it was removed earlier in this session",
                effect="none",
            )
        if role.verb == "delete":
            return self._delete(arguments, number, called)
        if number is None:
            if gone:
                things.back("it" if key is None else key, fields)
            known = self._named(key)
            number = things.add(known, called)
        else:
            known = things.read(number)
        if role.verb in ("update", "replace"):
            known = {**known, **copied(sent)}
        return self._shown(number, known, arguments)

    def _create(self, arguments: dict[str, Any]) -> Any:
        several = self._several(arguments)
        if several:
            return self._create_all(several, arguments)
        known = copied(self.profile.sent(arguments))
        number = self.things.next_number()
        self.things.add(known, {})
        self.things.wrote()
        return self._shown(number, {**self._counted(number, known, self.profile.thing), **known}, arguments)

    def _several(self, arguments: dict[str, Any]) -> list[Fields]:
        """The things themselves, where a call makes several at once: the body is a list, or `labels` of a label."""
        noun = self.profile.role.noun
        names = (plain_letters(noun), plain_letters(noun.rpartition(" ")[2]))
        for name, value in self.profile.sent(arguments).items():
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                letters = plain_letters(name)
                if name == self.profile.body or (letters not in names and singular(letters) in names):
                    return value
        return []

    def _create_all(self, several: list[Fields], arguments: dict[str, Any]) -> Any:
        profile, things = self.profile, self.things
        place, maker = profile.list, profile.list_maker
        made = []
        for item in several:
            known: Fields = copied(item)
            number = things.add(known, {})
            known = {**self._counted(number, known, place), **known}
            things.write(number, known)
            made.append(known if place is None or maker is None else self.made(number, known, maker, place))
        things.wrote()
        if profile.free:
            return self.fitting({"items": made, "count": len(made)}, arguments)
        known = {**arguments, **dict.fromkeys(_MADE, len(made))}
        known["ids"] = known[f"{plain_letters(profile.role.noun)}ids"] = [
            one.get("id") for one in made if isinstance(one, dict)
        ]
        if place is None:
            return self._around(arguments, known)
        return self.put(place.path, made, arguments, known) if place.path else self.fitting(made, arguments)

    def _delete(self, arguments: dict[str, Any], number: int | None, called: dict[str, Any]) -> Any:
        if number is None:
            self.things.removed(called)
            fields: Fields = {}
        else:
            fields = self.things.read(number)
            self.things.remove(number)
        if self.profile.free:
            return self.fitting({**called, "deleted": True} if "@" not in called else {"deleted": True}, arguments)
        return self._around(arguments, {**fields, **arguments, "deleted": True})

    def _list(self, arguments: dict[str, Any]) -> Any:
        return Listing(self, arguments).answer()

    def _other(self, arguments: dict[str, Any]) -> Any:
        """A tool that deals with no things: by its arguments, and by how often it was called if it does something."""
        text = self.profile.prefix + encode(arguments)
        if self.profile.role.writes:
            name = f"calls of {self.profile.tool.qualified_name}"
            count = self._state.get(name, 0)
            self._state[name] = count + 1
            text += b"%d" % count
        if self.profile.free:
            simple = {name: value for name, value in arguments.items() if not isinstance(value, (list, dict))}
            return self.fitting({"status": "success", **simple}, arguments)
        return self._around(arguments, arguments, text)

    def _named(self, key: Any) -> Fields:
        """A thing of which only its name is known."""
        role, place = self.profile.role, self.profile.thing or self.profile.list
        if key is None:
            return {}
        letters = {plain_letters(name): name for name in reversed(place.properties)} if place is not None else {}
        values = self.profile.values
        for field in role.fields:
            name = letters.get(field)
            if name is not None and place is not None and values is not None:
                for spelt in (key, *_as_number(key), str(key)):
                    if values.checker(place.properties[name])(spelt):
                        return {name: spelt}
        return {"id" if role.key is None or self.profile.free else role.key: key}

    def _counted(self, number: int, known: Fields, place: Place | None) -> Fields:
        """Ids that go up one by one, where whole numbers are ids."""
        values = self.profile.values
        if self.profile.free or place is None or values is None:
            return {} if "id" in known else {"id": FIRST + number}
        noun = plain_letters(self.profile.role.noun)
        found: Fields = {}
        for name, node in place.properties.items():
            letters = plain_letters(name)
            if name not in known and (letters in _COUNTED or letters == noun + "id"):
                value = number if letters == "number" else FIRST + number
                if values.checker(node)(value):
                    found[name] = value
        return found

    def _spelt(self, known: Fields, place: Place) -> Fields:
        """What is known as that part of an answer has it: its `pet_id` as `id`, and numbers that came as text."""
        values, own = self.profile.values, own_names(self.profile.role.noun)
        if values is None:
            return known
        theirs = {own.get(plain_letters(name), ""): value for name, value in known.items()}
        found = dict(known)
        for name, node in place.properties.items():
            letters = plain_letters(name)
            value = known.get(name, theirs.get(letters))
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                continue
            if name in known or letters in theirs:
                accepts = values.checker(node)
                found[name] = next((way for way in (value, *_as_number(value), str(value)) if accepts(way)), value)
        return found

    def made(self, number: int, known: Fields, maker: Make, place: Place) -> Any:
        """A thing as one part of an answer shows it; what it is made of is remembered."""
        values = self.profile.values
        if values is None:
            return known
        known = self._spelt(known, place)
        own = own_names(self.profile.role.noun)
        echo = {**self._whose, **{plain_letters(name): value for name, value in known.items()}}
        # What it can be asked for by is not to be left out.
        draw = Draw(self.where + b"%d" % number, echo, frozenset((*echo, *own, *own.values(), "metadata", "name")))
        value = values.make_part(maker, values.checker(place.node), draw)
        if isinstance(value, dict):
            self.things.write(number, {**known, **copied(value)})
        return value

    def _shown(self, number: int, known: Fields, arguments: dict[str, Any]) -> Any:
        """An answer with the thing in it."""
        place, maker = self.profile.thing, self.profile.thing_maker
        if place is None or maker is None:
            self.things.write(number, known)
            if self.profile.free:
                return self.fitting(known, arguments)
            return self._around(arguments, {**known, **arguments})
        thing = self.made(number, known, maker, place)
        if not place.path:
            return thing
        return self.put(place.path, thing, arguments)

    def put(
        self,
        path: tuple[str, ...],
        part: Any,
        arguments: dict[str, Any],
        known: Fields | None = None,
        must: frozenset[str] = frozenset(),
    ) -> Any:
        """An answer with that part in its place; without it where the schema will not have it."""
        known = arguments if known is None else known
        whole = self._around(arguments, known, must=must.union(map(plain_letters, path)))
        changed = copied(whole)
        at: Any = changed
        for name in path[:-1]:
            if not isinstance(at, dict):
                return whole
            at = at.setdefault(name, {})
        if not isinstance(at, dict):
            return whole
        at[path[-1]] = part
        values = self.profile.values
        return changed if values is None or values.check(changed) else whole

    def _around(
        self,
        arguments: dict[str, Any],
        known: Fields,
        text: bytes | None = None,
        must: frozenset[str] = frozenset(),
    ) -> Any:
        """An answer by the schema of the tool alone, with what is known under its name."""
        values = self.profile.values
        if values is None:
            return {}
        text = self.profile.prefix + encode(arguments) if text is None else text
        echo = {**_WELL, **{plain_letters(name): value for name, value in known.items()}}
        return values.make(Draw(text, echo, must))

    def fitting(self, value: Any, arguments: dict[str, Any]) -> Any:
        """The value, or where the schema will not have it, another."""
        values = self.profile.values
        return value if values is None or values.check(value) else self._around(arguments, arguments)


def _as_number(key: Any) -> tuple[int, ...]:
    return (int(key),) if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 16 else ()
