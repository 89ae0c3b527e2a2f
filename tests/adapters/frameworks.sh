# frameworks.sh FOLDER [NAME]: what has been written for each framework, tested with the real one in an environment of its
# own under FOLDER, and at the end a table of frameworks by cases. See `make test-frameworks`.
set -u
folder=$1 only=${2:-}
rows=$folder/rows failed=0
rm -rf "$rows" && mkdir -p "$rows"

run() { # name, test files, packages
    [ -z "$only" ] || [ "$only" = "$1" ] || return 0
    local name=$1 place=$folder/$1 tests=()
    for file in $2; do tests+=("tests/adapters/test_$file.py"); done
    shift 2
    if [ "$(cat "$place/.holds" 2>/dev/null)" != "$*" ]; then
        "${PYTHON:-python3}" -m venv "$place" &&
            "$place/bin/python" -m pip install --disable-pip-version-check --no-compile --quiet \
                -e '.[serve]' hypothesis pytest pytest-asyncio pytest-timeout "$@" &&
            echo "$*" >"$place/.holds" || { echo "$name cannot be installed"; failed=1; return; }
    fi
    echo "$name"
    TOOLYARD_FRAMEWORK_RESULTS=$rows "$place/bin/python" -m pytest -m '' -p no:schemathesis \
        -o filterwarnings=default "${tests[@]}" || failed=1
}

run pydantic-ai 'pydantic_ai snippets' 'pydantic-ai-slim[openai]>=2.66,<3'
run langchain 'langchain snippets' 'langchain>=1.4,<2' 'langchain-openai>=1,<2'
run openai-agents 'openai_agents snippets' 'openai-agents>=0.24,<1'
run agent-framework 'agent_framework snippets' 'agent-framework-core>=1.23,<2' 'agent-framework-openai>=1,<2'
run sdks loops 'openai>=3,<4' 'anthropic>=2,<3' 'google-genai>=3,<4'
run llama-index snippets 'llama-index-core>=0.14,<1' 'llama-index-tools-mcp>=0.6,<1'
run smolagents snippets 'smolagents[mcp]>=1.26,<2' 'mcp[ws]<2'
run crewai snippets 'crewai-tools[mcp]>=1.15,<2'
run google-adk snippets 'google-adk[mcp]>=2.13,<3'
[ -n "$only" ] || "$folder/langchain/bin/python" tests/adapters/table.py "$rows" || failed=1
exit $failed
