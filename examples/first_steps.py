"""Load a yard, read the report, call tools, and speak to a provider. `make run` runs this."""

from pathlib import Path

from toolyard import CallError, ToolCall
from toolyard.app import build_registry
from toolyard.dialects import get_dialect

HERE = Path(__file__).resolve().parent


def main() -> None:
    """The whole tour, in the order a newcomer would take it."""
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


if __name__ == "__main__":
    main()
