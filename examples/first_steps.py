"""Load a yard, read the report, call tools, use a provider's format, keep sessions. `make run` runs this."""

from pathlib import Path
from tempfile import TemporaryDirectory

from toolyard import CallError, ToolCall, Toolyard
from toolyard.app import build_registry
from toolyard.dialects import get_dialect

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Run all steps in order."""
    with build_registry(HERE / "yard.yaml") as registry:
        print("Loaded")
        for source in registry.report.sources:
            name = Path(source.source).name
            print(f"  {name:<14} {source.loaded} tools, {source.rewritten} rewritten, {len(source.rejected)} rejected")
        for rewrite in registry.report.rewrites[:3]:
            print(f"    {rewrite.tool}{rewrite.pointer}: {rewrite.change}")

        print("\nCalls")
        print("  desk::days_between  ", registry.dispatch("days_between", {"start": "2026-01-01", "end": "2026-11-15"}))
        print("  desk::split_bill    ", registry.dispatch("desk::split_bill", '{"total": 100, "people": 3}'))
        try:
            registry.dispatch("desk::split_bill", {"total": -1, "people": "three"})
        except CallError as error:
            print(f"  {error.info.code}: {error}")

        print("\nOverloads")
        for arguments in ({"location": "Oslo"}, {"lat": 59.9, "lon": "10.7"}):
            bound = registry.bind(ToolCall("weather_api::get_weather", arguments))
            repairs = [repair.to_dict() for repair in bound.coercions]
            print(f"  {arguments} -> {bound.tool.description!r} with {bound.arguments} {repairs or ''}")

        print("\nFor a provider")
        openai = get_dialect("openai", registry.all_tools())
        print("  ", [item["function"]["name"] for item in openai.format_tools()])
        answer = {
            "tool_calls": [{"id": "c1", "function": {"name": "desk__days_between", "arguments": '{"start": "2026-'}}]
        }
        call = openai.parse_calls(answer)[0]
        try:
            registry.bind(call)
        except CallError as error:
            print(f"   truncated by the model: {error.info.code}: {error}")


def in_sessions(folder: Path) -> None:
    """Record calls in a session, simulate, and fork; sessions are stored in a file."""
    config = {
        "tools": [{"type": "python", "target": str(HERE / "desk.py"), "namespace": "desk"}],
        "sessions": {"store": "sqlite", "path": str(folder / "sessions.db")},
        "policy": {"budgets": [{"max_calls": 3}]},
    }
    bill = ToolCall("desk::split_bill", {"total": "100", "people": 3}, call_id="c1")
    with Toolyard.from_config(config) as yard:
        engine = yard.tool_engine
        engine.setup("chat")
        print("\nA session")
        for result in engine.execute("chat", [bill, ToolCall("desk::split_bil"), ToolCall("desk::split_bill")]):
            print(f"   {result.name}: {result.error_info.code if result.error_info else result.result}")
        before = engine.state_hash("chat")
        probe = engine.simulate("chat", [ToolCall("desk::days_between", {"start": "2026-01-01", "end": "2026-02-01"})])
        print(f"   simulated: {probe[0].result}, state unchanged: {engine.state_hash('chat') == before}")
        engine.setup("what-if", fork_of="chat")
        engine.execute("what-if", [bill, bill, bill])
    with Toolyard.from_config(config) as yard:
        for session in ("chat", "what-if"):
            entries = yard.tool_engine.get_session_state(session)["tool_executions"]
            codes = [(entry["tool_output"].get("error_info") or {}).get("code", "ok") for entry in entries]
            print(f"   reopened {session}: {codes}")


if __name__ == "__main__":
    main()
    with TemporaryDirectory() as place:
        in_sessions(Path(place))
