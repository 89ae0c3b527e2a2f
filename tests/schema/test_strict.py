from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from toolyard.schema.strict import HIDDEN, StrictModel, hide_input, read_violations
from toolyard.schema.violations import Violation

SECRET = "hunter2-and-more"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


class Form(BaseModel):
    """Every way in which a value gets into an error: as input, as tag, and in a validator's own words."""

    age: int = Field(default=0, ge=18)
    name: str = ""
    code: str = ""
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    sizes: int | list[int] = 0
    counts: dict[int, int] = {}

    @field_validator("name")
    @classmethod
    def refuse_name(cls, value: str) -> str:
        raise ValueError(f"the name {value} is taken")

    @field_validator("code")
    @classmethod
    def refuse_code(cls, value: str) -> str:
        raise PydanticCustomError("bad_code", "no {code} here", {"code": value})


def fail(model: type[BaseModel], data: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return caught.value


def test_strict_model_refuses_an_unknown_key_and_does_not_print_its_value() -> None:
    class Input(StrictModel):
        city: str

    error = fail(Input, {"city": "Rome", "password": SECRET})

    assert [item["type"] for item in error.errors()] == ["extra_forbidden"]
    assert SECRET not in str(error)


def test_title_types_locations_and_plain_messages_survive() -> None:
    error = fail(Form, {"age": 3, "sizes": ["x"], "pet": {"kind": "cat"}})
    bare = hide_input(error)

    assert bare.title == error.title
    for field in ("type", "loc", "msg"):
        assert [item[field] for item in bare.errors()] == [item[field] for item in error.errors()]


def test_facts_about_the_schema_stay_and_facts_about_the_input_go() -> None:
    bare = hide_input(fail(Form, {"age": 3, "pet": {"kind": SECRET}})).errors()

    assert bare[0]["ctx"] == {"ge": 18}
    assert "tag" not in bare[1]["ctx"]


@pytest.mark.parametrize(
    "data",
    [
        {"age": SECRET},
        {"name": SECRET},
        {"code": SECRET},
        {"pet": {"kind": SECRET}},
        {"sizes": [SECRET]},
        {"counts": {"1": SECRET}},
    ],
)
def test_no_input_value_is_left_in_any_form_of_the_error(data: dict[str, Any]) -> None:
    bare = hide_input(fail(Form, data))

    for text in (str(bare), repr(bare), repr(bare.errors()), bare.json(), repr(read_violations(bare, data))):
        assert SECRET not in text
    assert {item["input"] for item in bare.errors()} == {HIDDEN}


@given(
    st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=3, max_size=30).filter(lambda text: text != HIDDEN)
)
def test_whatever_a_validator_quotes_is_hidden(value: str) -> None:
    class Model(BaseModel):
        text: str

        @model_validator(mode="after")
        def refuse(self) -> "Model":
            raise ValueError(f"cannot use [[{self.text}]]")

    bare = hide_input(fail(Model, {"text": value}))

    assert f"[[{value}]]" not in str(bare)
    assert f"[[{HIDDEN}]]" in str(bare)


def test_words_of_a_message_that_are_no_input_stay() -> None:
    error = hide_input(fail(Form, {"name": "at"}))

    assert error.errors()[0]["msg"] == "Value error, the name at is taken"


def test_input_that_contains_itself_does_no_harm() -> None:
    class Model(BaseModel):
        value: Any

        @field_validator("value")
        @classmethod
        def refuse(cls, value: Any) -> Any:
            raise ValueError("round and round")

    loop: list[Any] = [SECRET]
    loop.append(loop)

    assert SECRET not in str(hide_input(fail(Model, {"value": loop})))


def test_violations_are_pointers_messages_and_keywords() -> None:
    data = {"age": 3, "pet": {"kind": "cat"}}

    assert read_violations(fail(Form, data), data) == [
        Violation("/age", "Input should be greater than or equal to 18", "greater_than_equal"),
        Violation("/pet/lives", "Field required", "missing"),
    ]


@pytest.mark.parametrize(
    ("data", "pointers"),
    [
        ({"pet": {"kind": "cat"}}, ["/pet/lives"]),
        ({"sizes": [1, "x"]}, ["/sizes", "/sizes/1"]),
        ({"counts": {"a": 1}}, ["/counts/a"]),
    ],
)
def test_a_pointer_names_no_branch_of_a_union(data: dict[str, Any], pointers: list[str]) -> None:
    assert [item.pointer for item in read_violations(fail(Form, data), data)] == pointers


def test_pointers_escape_what_json_pointers_must() -> None:
    class Odd(StrictModel):
        pass

    assert read_violations(fail(Odd, {"a/b~c": 1}), {"a/b~c": 1})[0].pointer == "/a~1b~0c"


class Codes(BaseModel):
    codes: list[Annotated[str, Field(max_length=3)]]

    @field_validator("codes")
    @classmethod
    def refuse(cls, codes: list[str]) -> list[str]:
        raise ValueError(f"none of {codes[0]} will do")


@pytest.mark.parametrize(
    ("wrong", "listed", "last"),
    [
        (100, 100, "String should have at most 3 characters"),
        (101, 101, "1 further values are wrong"),
        (1_000, 101, "900 further values are wrong"),
        (50_000, 1, "50000 values are wrong, too many to tell which"),
    ],
)
def test_of_many_problems_the_first_are_listed_and_the_rest_counted(wrong, listed, last):
    with pytest.raises(ValidationError) as caught:
        Codes(codes=[SECRET] * wrong)
    found = read_violations(caught.value, None)
    assert (len(found), found[-1].message) == (listed, last)
    assert SECRET not in str(hide_input(caught.value))


def test_a_message_is_replaced_if_it_may_repeat_too_many_values():
    for count, message in ((10, f"Value error, none of {HIDDEN} will do"), (3_000, "is not accepted")):
        with pytest.raises(ValidationError) as caught:
            Codes(codes=["abc", *(f"{number % 1_000:03}" for number in range(count))])
        [found] = read_violations(caught.value, None)
        assert found.message.startswith(message)
