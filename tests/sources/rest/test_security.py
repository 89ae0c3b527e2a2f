"""Security: which credentials a tool needs."""

from sources.rest.documents import document, notes_of, operation, tool_of

SCHEMES = {
    "token": {"type": "http", "scheme": "Bearer"},
    "login": {"type": "http", "scheme": "basic"},
    "key": {"type": "apiKey", "in": "query", "name": "api_key"},
    "oauth": {
        "type": "oauth2",
        "flows": {
            "authorizationCode": {"tokenUrl": "https://a.example/code"},
            "clientCredentials": {"tokenUrl": "https://a.example/token"},
        },
    },
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://a.example"},
    "mtls": {"type": "mutualTLS"},
    "again": {"$ref": "#/components/securitySchemes/token"},
}


def needs(own=None, default=None, version="3.0.3", **top):
    fields = {"security": own} if own is not None else {}
    extra = {"security": default} if default is not None else {}
    top = top or {"components": {"securitySchemes": SCHEMES}}
    return tool_of(document({"get": operation(**fields)}, version=version, **extra, **top)).binding


def test_alternatives_are_or_and_their_members_and():
    binding = needs([{"token": [], "key": []}, {"login": []}])
    assert binding.security == (("token", "key"), ("login",))
    assert {name: scheme.type for name, scheme in binding.schemes.items()} == {
        "token": "bearer",
        "key": "api_key",
        "login": "basic",
    }
    assert (binding.schemes["key"].location, binding.schemes["key"].name) == ("query", "api_key")


def test_an_empty_alternative_means_it_works_without():
    assert needs([{"token": []}, {}]).security == (("token",), ())
    assert needs([{}]).security == ()


def test_the_operation_overrides_the_document():
    assert needs(None, [{"token": []}]).security == (("token",),)
    assert needs([], [{"token": []}]).security == ()


def test_oauth2_knows_its_token_address_and_scopes():
    scheme = needs([{"oauth": ["read", "write"]}]).schemes["oauth"]
    assert (scheme.type, scheme.token_url, scheme.scopes) == ("oauth2", "https://a.example/token", ("read", "write"))
    assert needs([{"oidc": []}]).schemes["oidc"].type == "oauth2"


def test_other_schemes_and_references_to_schemes_are_read():
    assert needs([{"mtls": []}]).schemes["mtls"].type == "other"
    assert needs([{"again": []}]).schemes["again"].type == "bearer"


def test_a_scheme_nobody_describes_is_listed():
    content = document({"get": operation(security=[{"ghost": []}])})
    assert tool_of(content).binding.schemes["ghost"].type == "other"
    assert "security scheme 'ghost' is not described" in notes_of(content)


def test_swagger_has_its_own_words():
    definitions = {
        "login": {"type": "basic"},
        "oauth": {"type": "oauth2", "flow": "application", "tokenUrl": "https://a.example/t", "scopes": {"r": "read"}},
    }
    binding = needs([{"login": []}, {"oauth": ["r"]}], version="2.0", securityDefinitions=definitions)
    assert binding.schemes["login"].type == "basic"
    assert binding.schemes["oauth"].token_url == "https://a.example/t"
