"""Tests of a framework are only collected if it is installed: `make test-frameworks` has an environment for each."""

from importlib.util import find_spec

_NEEDED = {
    "test_agent_framework.py": "agent_framework",
    "test_langchain.py": "langchain",
    "test_openai_agents.py": "agents",
    "test_pydantic_ai.py": "pydantic_ai",
}
collect_ignore = [file for file, module in _NEEDED.items() if find_spec(module) is None]
