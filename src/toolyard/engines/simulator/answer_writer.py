"""`AnswerWriter`: answers of one tool, with entities of the session in their place."""

from __future__ import annotations

from typing import Any

from toolyard.engines.simulator.answer_paths import AnswerPath
from toolyard.engines.simulator.draw import Draw, encode
from toolyard.engines.simulator.entity_store import EntityStore, Fields
from toolyard.engines.simulator.profile import Profile
from toolyard.engines.simulator.roles import own_names
from toolyard.engines.simulator.scalars import Make
from toolyard.model.json_words import copied
from toolyard.words.identifiers import plain_letters

FIRST_ID = 1000
"""Where the ids of entities begin; they go up one by one."""
_COUNTED = ("id", "number")
_WELL = {"ok": True, "success": True, "successful": True}
"""What an answer says of itself when a call went well."""


class AnswerWriter:
    """Writes what one call says; what it says about an entity is remembered."""

    def __init__(self, profile: Profile, store: EntityStore, key: bytes, parents: Fields) -> None:
        self.profile = profile
        self.store = store
        self.key = key
        """What entities of this kind and scope are drawn from, with their number."""
        self._parents = parents
        """Whose they are, by names in plain letters."""

    def assign_ids(self, number: int, known: Fields, path: AnswerPath | None) -> Fields:
        """Ids that go up one by one, where whole numbers are ids."""
        values = self.profile.values
        if self.profile.is_free or path is None or values is None:
            return {} if "id" in known else {"id": FIRST_ID + number}
        noun = plain_letters(self.profile.role.noun)
        found: Fields = {}
        for name, node in path.properties.items():
            letters = plain_letters(name)
            if name not in known and (letters in _COUNTED or letters == noun + "id"):
                value = number if letters == "number" else FIRST_ID + number
                if values.checker(node)(value):
                    found[name] = value
        return found

    def make_entity(self, number: int, known: Fields, maker: Make, path: AnswerPath) -> Any:
        """An entity as one part of an answer shows it; what it is made of is remembered."""
        values = self.profile.values
        if values is None:
            return known
        known = self._spell_fields(known, path)
        own = own_names(self.profile.role.noun)
        echo = {**self._parents, **{plain_letters(name): value for name, value in known.items()}}
        # What it can be asked for by is not to be left out.
        draw = Draw(self.key + b"%d" % number, echo, frozenset((*echo, *own, *own.values(), "metadata", "name")))
        value = values.make_part(maker, values.checker(path.node), draw)
        if isinstance(value, dict):
            self.store.write(number, {**known, **copied(value)})
        return value

    def _spell_fields(self, known: Fields, path: AnswerPath) -> Fields:
        """What is known as that part of an answer has it: its `pet_id` as `id`, and numbers that came as text."""
        values, own = self.profile.values, own_names(self.profile.role.noun)
        if values is None:
            return known
        theirs = {own.get(plain_letters(name), ""): value for name, value in known.items()}
        found = dict(known)
        for name, node in path.properties.items():
            letters = plain_letters(name)
            value = known.get(name, theirs.get(letters))
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                continue
            if name in known or letters in theirs:
                accepts = values.checker(node)
                found[name] = next((spelling for spelling in spellings_of(value) if accepts(spelling)), value)
        return found

    def show_entity(self, number: int, known: Fields, arguments: dict[str, Any]) -> Any:
        """An answer with the entity in it."""
        path, maker = self.profile.entity_path, self.profile.entity_maker
        if path is None or maker is None:
            self.store.write(number, known)
            if self.profile.is_free:
                return self.fit_schema(known, arguments)
            return self.make_answer(arguments, {**known, **arguments})
        entity = self.make_entity(number, known, maker, path)
        return self.put_part(path.names, entity, arguments) if path.names else entity

    def put_part(
        self,
        names: tuple[str, ...],
        part: Any,
        arguments: dict[str, Any],
        known: Fields | None = None,
        must: frozenset[str] = frozenset(),
    ) -> Any:
        """An answer with that part in its place; without it where the schema will not have it."""
        known = arguments if known is None else known
        whole = self.make_answer(arguments, known, must=must.union(map(plain_letters, names)))
        changed = copied(whole)
        at: Any = changed
        for name in names[:-1]:
            if not isinstance(at, dict):
                return whole
            at = at.setdefault(name, {})
        if not isinstance(at, dict):
            return whole
        at[names[-1]] = part
        values = self.profile.values
        return changed if values is None or values.check(changed) else whole

    def make_answer(
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

    def fit_schema(self, value: Any, arguments: dict[str, Any]) -> Any:
        """The value, or where the schema will not have it, another."""
        values = self.profile.values
        return value if values is None or values.check(value) else self.make_answer(arguments, arguments)


def spellings_of(key: Any) -> tuple[Any, ...]:
    """A key as it came, as a number if it is one in text, and as text."""
    numeric = isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 16
    return (key, int(key), str(key)) if numeric else (key, str(key))
