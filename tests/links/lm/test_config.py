"""`lm_config`: errors name the invalid key, and the nearest valid one."""

import pytest

from toolyard.links.lm import LMClient, read_lm_config
from toolyard.model.errors import ConfigError

GOOD = {"type": "openai", "model_id_or_path": "m"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_id": "x"}, "did you mean 'model_id_or_path'"),
        ({"type": "opanai"}, "did you mean 'openai'"),
        ({"type": None}, "lm_config.type: must be one of"),
        ({"model_id_or_path": None}, "needs 'model_id_or_path'"),
        ({"base_url": "localhost:80"}, "lm_config.base_url"),
        ({"base_url": "http://h/v1?x=1"}, "remove what follows"),
        ({"timeout": 0}, "lm_config.timeout: must be above 0, not 0"),
        ({"timeout": True}, "lm_config.timeout"),
        ({"retries": -1}, "lm_config.retries"),
        ({"max_concurrent": 0}, "lm_config.max_concurrent"),
        ({"requests_per_minute": 1.5}, "lm_config.requests_per_minute"),
        ({"prices": {"input": 1}}, "lm_config.prices"),
        ({"prices": {"prompt": -1}}, "lm_config.prices.prompt"),
        ({"headers": {"a b": "x"}}, "no name of a header"),
        ({"headers": {"a": "x\r\ny"}}, "lm_config.headers.a"),
        ({"response_format": "schema"}, "lm_config.response_format"),
        ({"extra": 3}, "lm_config.extra"),
        ({"seed": "1"}, "lm_config.seed"),
        ({"strict": 1}, "lm_config.strict"),
        ({"verify": False, "ca": "x.pem"}, "give one of them"),
        ({"type": "anthropic", "seed": 1}, "has no use for it"),
        ({"type": "ollama", "strict": True}, "has no use for it"),
        ({"type": "llama", "api_key": "x"}, "has no use for it"),
    ],
)
def test_a_wrong_option_is_named(change, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        read_lm_config({**GOOD, **change})


def test_something_that_is_no_mapping_is_refused():
    with pytest.raises(ConfigError, match="must be a mapping, not list"):
        read_lm_config([])


@pytest.mark.parametrize("key", ["a\nb", " x", "kÿ"])
def test_a_key_that_fits_no_header_is_refused_and_not_shown(key):
    with pytest.raises(ConfigError, match="lm_config.api_key") as caught:
        read_lm_config({**GOOD, "api_key": key})
    assert key not in str(caught.value)


def test_secrets_are_in_no_repr():
    config = read_lm_config({**GOOD, "api_key": "sk-hidden", "headers": {"x-team": "team-hidden", "x-v": "2"}})
    client = LMClient(config)
    assert config.secrets == ("sk-hidden", "team-hidden")
    assert "hidden" not in repr(config) + repr(client) + repr(client._backend._credential)
    client.close()


def test_default_urls_of_providers_are_known():
    def home(**block):
        return read_lm_config({"model_id_or_path": "m", **block}).base_url

    assert home(type="ollama") == "http://localhost:11434"
    assert home(type="openai").endswith("/v1")
    assert home(type="openai", base_url="http://gpu:8000/") == "http://gpu:8000/v1"
    assert home(type="openai", base_url="http://gpu:8000/openai/v1/") == "http://gpu:8000/openai/v1"
